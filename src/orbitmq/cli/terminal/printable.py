"""Untrusted text, made safe to print: a terminal obeys control characters."""

from __future__ import annotations

import re

_AMBIGUOUS = re.compile(r"^ +| +$|(?<= ) +")
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def printable(text: str | bytes | memoryview, *, is_cell: bool = False) -> str:
    r"""Return text in which whatever is not visible is written as an escape such as `\x1b`; so are bytes that are no UTF-8.

    Args:
        is_cell: blanks at an end, and those behind a blank, are written as `\x20`: columns are two blanks apart.
    """
    if not isinstance(text, str):
        text = bytes(text).decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else _escape(letter) for letter in text)
    return _AMBIGUOUS.sub(_escape_blanks, text) if is_cell and " " in text else text


def printable_json(content: bytes) -> bytes:
    r"""Return JSON in which control characters that JSON allows in text, DEL and U+0080 to U+009F, are escapes such as `\u009b`."""
    return _CONTROLS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), content)


def _escape_blanks(found: re.Match[str]) -> str:
    return r"\x20" * len(found[0])


def _escape(letter: str) -> str:
    number = ord(letter)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
