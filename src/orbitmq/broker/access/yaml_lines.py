"""The part of YAML that `plain_acl.yml` is written in: mappings, lists and words, by indentation. Pure.

Anything else (anchors, tags, blocks of text, documents in one file) is refused with its line: a file that decides about access
is not guessed at. A YAML library would be a dependency of every install, for one file that is read once.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.errors import HeaderError

Value = str | list["Value"] | dict[str, "Value"] | None

_REFUSED = ("&", "*&", "!", "|", ">", "{", "@", "`", "%", "?")
_LINES_MAX = 100_000


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def parse_yaml(text: str) -> Value:
    """Return what a file holds; a word is text, whatever it looks like, and no value is None.

    Raises:
        HeaderError: it is something that is not read here; names the line and shows nothing of it.
    """
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise _refusal(number, "a tab in the indentation")
        bare = _without_comment(line).rstrip()
        if bare.strip() and bare != "---":
            lines.append(_Line(number, len(bare) - len(bare.lstrip()), bare.strip()))
    if len(lines) > _LINES_MAX:
        raise HeaderError(f"{len(lines)} lines, at most {_LINES_MAX} are read")
    if not lines:
        return None
    value, rest = _parse(lines, 0, lines[0].indent)
    if rest < len(lines):
        raise _refusal(lines[rest].number, "an indentation that fits nothing")
    return value


def _parse(lines: list[_Line], at: int, indent: int) -> tuple[Value, int]:
    if _is_item(lines[at].text):
        return _parse_list(lines, at, indent)
    return _parse_mapping(lines, at, indent)


def _parse_list(lines: list[_Line], at: int, indent: int) -> tuple[list[Value], int]:
    found: list[Value] = []
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at].text):
        number, _, text = lines[at]
        rest = text[1:].lstrip()
        if _key_of(rest) is not None:
            # The item is a mapping: its first key stands behind the dash, the others below that key.
            column = indent + len(text) - len(rest)
            lines[at] = _Line(number, column, rest)
            value: Value
            value, at = _parse_mapping(lines, at, column)
        elif rest:
            value, at = _word(rest, number), at + 1
        else:
            value, at = _below(lines, at, indent)
        found.append(value)
    return found, at


def _parse_mapping(lines: list[_Line], at: int, indent: int) -> tuple[dict[str, Value], int]:
    found: dict[str, Value] = {}
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at].text):
        number, _, text = lines[at]
        key = _key_of(text)
        if key is None:
            raise _refusal(number, "neither `key: value` nor `- item`")
        if key in found:
            raise _refusal(number, "a key that was there before")
        rest = text[text.index(":") + 1 :].strip()
        if rest:
            found[key], at = _word(rest, number), at + 1
        else:
            found[key], at = _below(lines, at, indent)
    return found, at


def _below(lines: list[_Line], at: int, indent: int) -> tuple[Value, int]:
    """Return the value of a key or an item that stands on the next lines; a list of a key may stand at the key's column."""
    following = lines[at + 1] if at + 1 < len(lines) else None
    if following is None:
        return None, at + 1
    is_list_of_key = following.indent == indent and _is_item(following.text) and not _is_item(lines[at].text)
    if following.indent > indent or is_list_of_key:
        return _parse(lines, at + 1, following.indent)
    return None, at + 1


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _key_of(text: str) -> str | None:
    """Return the key that a text begins with; None when it is a word alone."""
    key, colon, rest = text.partition(":")
    if not colon or (rest and not rest.startswith(" ")) or not key.replace("_", "").isalnum():
        return None
    return key


def _word(text: str, number: int) -> Value:
    if text[0] in "\"'":
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise _refusal(number, "a quoted word with quotes or escapes in it")
        return text[1:-1]
    if text == "[]":
        return []
    if text[0] == "[":
        if text[-1] != "]" or any(letter in text[1:-1] for letter in "[]{}\"'"):
            raise _refusal(number, "a list on one line that is not simple")
        return [word.strip() for word in text[1:-1].split(",") if word.strip()]
    if text.startswith(_REFUSED) or (text[0] == "*" and len(text) > 1 and text[1].isalpha()):
        raise _refusal(number, "a form of YAML that is not read here")
    return None if text in ("~", "null") else text


def _without_comment(line: str) -> str:
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (at == 0 or line[at - 1] in " :["):
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at]
    return line


def _refusal(number: int, reason: str) -> HeaderError:
    return HeaderError(f"line {number}: {reason}")
