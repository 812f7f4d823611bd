"""The JSON dialects that Java peers write: unquoted integer keys, and maps whose keys are objects.

fastjson writes `{0:"a"}` for a map with integer keys and `{{"queueId":0,...}:{...}}` for one keyed by an object.
`loads` reads both besides standard JSON; `dumps_loose` writes them. An object key reads back as a tuple of its
sorted (name, value) pairs.

Source: docs/formats/wire_frame.md, "JSON bodies"; Java RemotingSerializable with fastjson 1.2.83.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import orjson

DEPTH_MAX = 64
"""Nesting of the dialects' own parser; standard JSON has orjson's limit."""
TEXTS_MAX = 20_000
"""Texts and bare keys of a document with bare keys, where documents are bounded."""
CONTAINERS_MAX = 50_000
"""Objects and lists of a document, where documents are bounded."""

# Possessive repetitions: no document makes a search slower than its length.
_MAYBE_BARE_KEY = re.compile(rb"[{,]\s*+-?\d")
_TEXT_OR_BARE_KEY = re.compile(rb'"(?:[^"\\]++|(?:\\.)++)*+"|([{,]\s*+)(-?\d++)(\s*+:)')
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


def loads(data: bytes, *, is_bounded: bool = False) -> Any:
    """Parse standard JSON or one of the dialects; integer keys come back as text.

    Args:
        is_bounded: refuse what takes long: more than `CONTAINERS_MAX` objects and lists (or braces in texts), more
            than `TEXTS_MAX` texts next to bare keys, and objects as keys. The size is the caller's to bound.

    Raises:
        ValueError: neither.
    """
    if is_bounded and data.count(b"{") + data.count(b"[") > CONTAINERS_MAX:
        raise ValueError(f"more than {CONTAINERS_MAX} objects and lists")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            if _MAYBE_BARE_KEY.search(data) is None:  # a quarter of the time that quoting nothing takes
                raise
            quoted, count = _TEXT_OR_BARE_KEY.subn(_quote_key, data, TEXTS_MAX if is_bounded else 0)
            if is_bounded and count == TEXTS_MAX:
                raise ValueError(f"not JSON, nor a dialect of it with less than {TEXTS_MAX} texts: {error}") from None
            return orjson.loads(quoted)
        except orjson.JSONDecodeError:
            if is_bounded or (b"{{" not in data and b"},{" not in data):
                raise ValueError(f"not JSON: {error}") from None
    return _parse_document(data)


def dumps_loose(value: Any) -> bytes:
    """Write `value` as fastjson does: integer keys bare, tuple keys (of name-value pairs) as objects."""
    return _dump(value).encode()


def _quote_key(match: re.Match[bytes]) -> bytes:
    before, key, after = match.groups()
    return match[0] if key is None else b'%b"%b"%b' % (before, key, after)


def _dump(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_dump_key(key)}:{_dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    return orjson.dumps(value).decode()


def _dump_key(key: Any) -> str:
    if isinstance(key, tuple):
        return _dump(dict(key))
    return str(key) if isinstance(key, int) else orjson.dumps(key).decode()


def _parse_document(data: bytes) -> Any:
    try:
        text = data.decode()
        value, position = _parse(text, _skip(text, 0), 0)
        if _skip(text, position) != len(text):
            raise ValueError(f"text after the end, at {position}")
    except IndexError:
        raise ValueError("JSON ends too early") from None
    return value


def _parse(text: str, position: int, depth: int) -> tuple[Any, int]:
    if depth > DEPTH_MAX:
        raise ValueError(f"JSON nested deeper than {DEPTH_MAX}")
    first = text[position]
    if first == "{":
        return _parse_map(text, position + 1, depth)
    if first == "[":
        return _parse_list(text, position + 1, depth)
    if first == '"':
        found, position = scanstring(text, position + 1)
        found.encode()  # half a surrogate pair is not text: a ValueError here, as in orjson
        return found, position
    match = _SCALAR.match(text, position)
    if match is None:
        raise ValueError(f"no JSON value at {position}")
    return orjson.loads(match[0]), match.end()


def _parse_map(text: str, position: int, depth: int) -> tuple[dict[Any, Any], int]:
    found: dict[Any, Any] = {}
    position = _skip(text, position)
    while text[position] != "}":
        key, position = _parse(text, position, depth + 1)
        position = _skip(text, position)
        if text[position] != ":":
            raise ValueError(f"no colon at {position}")
        value, position = _parse(text, _skip(text, position + 1), depth + 1)
        found[_as_key(key)] = value
        position = _after_item(text, position, "}")
    return found, position + 1


def _parse_list(text: str, position: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    position = _skip(text, position)
    while text[position] != "]":
        value, position = _parse(text, position, depth + 1)
        found.append(value)
        position = _after_item(text, position, "]")
    return found, position + 1


def _after_item(text: str, position: int, end: str) -> int:
    position = _skip(text, position)
    if text[position] == ",":
        return _skip(text, position + 1)
    if text[position] != end:
        raise ValueError(f"neither comma nor {end} at {position}")
    return position


def _as_key(key: Any) -> Any:
    if isinstance(key, dict):
        if any(isinstance(value, dict | list) for value in key.values()):
            raise ValueError("an object key holds another object")
        return tuple(sorted(key.items()))
    if isinstance(key, list):
        raise ValueError("a list as key")
    return key if isinstance(key, str) else orjson.dumps(key).decode()


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()
