"""Text that strangers wrote, made safe to print: a terminal obeys control characters."""

from __future__ import annotations


def printable(text: str | bytes | memoryview, *, is_cell: bool = False) -> str:
    r"""Return text in which whatever is not visible is written as an escape such as `\x1b`; so are bytes that are no UTF-8.

    Args:
        is_cell: blanks are written as `\x20`, so that the text stays one word of its line.
    """
    if not isinstance(text, str):
        text = bytes(text).decode("utf-8", "backslashreplace")
    if text.isprintable() and not (is_cell and " " in text):
        return text
    return "".join(
        letter if letter.isprintable() and not (is_cell and letter == " ") else _escape(letter) for letter in text
    )


def _escape(letter: str) -> str:
    number = ord(letter)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
