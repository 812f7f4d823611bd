"""The JSON object that a body holds, and key-value tables. Errors name the body and the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import orjson

from orbitmq.errors import HeaderError
from orbitmq.wire import fastjson

T = TypeVar("T")

_WRITTEN_NUMBER = re.compile(r"[+-]?[0-9]+")
"""What Java reads, too: Python would take blanks around it, and underlines in it."""
_FLAGS = {**dict.fromkeys(("TRUE", "T", "Y", "1"), True), **dict.fromkeys(("FALSE", "F", "N", "0", "NULL", ""), False)}
"""Source: fastjson's BooleanCodec and TypeUtils.castToBoolean."""
_ENTRIES_PER_PART = 250
DOCUMENT_SIZE_MAX = 1024 * 1024
"""Bytes of JSON that a server parses in one pass."""


def parse_body(what: str, body: bytes, parse: Callable[[dict[str, Any]], T], *, size_max: int = 0) -> T:
    """Parse a JSON object body in any dialect and build a value from it.

    Args:
        size_max: for a server, whose peers may be any client: no more bytes, and only what `fastjson.loads` is quick at;
            0 for what we asked for.

    Raises:
        HeaderError: too large, not JSON, not an object, or a field that `parse` could not use.
    """
    if size_max and len(body) > size_max:
        raise HeaderError(f"{what}: {len(body)} bytes to be parsed in one pass, limit {size_max}")
    try:
        document = fastjson.loads(body, is_bounded=size_max > 0)
    except ValueError as error:
        raise HeaderError(f"{what}: {error}") from None
    if not isinstance(document, dict):
        raise HeaderError(f"{what}: a JSON object is expected, not {type(document).__name__}")
    try:
        return parse(document)
    except KeyError as error:
        raise HeaderError(f"{what}: the field {error} is missing") from None
    except (TypeError, AttributeError) as error:
        raise HeaderError(f"{what}: a field has another type than is expected there ({error})") from None
    except ValueError as error:
        raise HeaderError(f"{what}: {error}") from None


def table_parts(
    document: dict[str, Any], name: str, entries: Iterable[tuple[str, Any]], *, pretty: bool = False
) -> Iterator[bytes]:
    """Encode a JSON object whose last member is a large table, in parts that take under two milliseconds each.

    Args:
        document: the other members.
        name: the table's name.
        entries: names and JSON values of the table. They may be made one by one: no more than a part of them is kept.
        pretty: with line ends, for a file.
    """
    option = orjson.OPT_INDENT_2 if pretty else 0
    before, after = orjson.dumps({**document, name: {}}, option=option).rsplit(b"{}", 1)
    start = orjson.dumps({name: {}}, option=option).rindex(b"{}") + 1
    end = b"\n  }" + after if pretty else b"}" + after
    rest, lead = iter(entries), before + b"{"
    while part := dict(islice(rest, _ENTRIES_PER_PART)):
        yield lead + orjson.dumps({name: part}, option=option)[start : -len(b"\n  }\n}" if pretty else b"}}")]
        lead = b","
    yield before + b"{}" + after if lead != b"," else end


def items(value: Any) -> list[Any]:
    """Return `value` when it is a list."""
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {value!r:.80}")
    return value


def text(value: Any) -> str:
    """Return `value` when it is text."""
    if not isinstance(value, str):
        raise TypeError(f"text is expected, not {value!r:.80}")
    return value


def boolean(value: Any) -> bool:
    """Return `value` when it is true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"true or false is expected, not {value!r:.80}")
    return value


def flag(value: Any) -> bool:
    """Return `value` as Java's fastjson reads a boolean: of a number whether it is 1, of text what its words mean."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, int | float) and -(2**31) <= value < 2**31:
        return int(value) == 1
    if isinstance(value, str) and value.upper() in _FLAGS:
        return _FLAGS[value.upper()]
    raise TypeError(f"true or false is expected, not {value!r:.80}")


def int32(value: Any) -> int:
    """Return `value` as a 32-bit integer: Java reads no other into an `int`."""
    found = number(value)
    check_int32((found,))
    return found


def check_int32(values: Collection[int]) -> None:
    """Refuse integers that do not all fit into Java's `int`."""
    if values and not (min(values) >= -(2**31) and max(values) < 2**31):
        raise ValueError(f"an integer outside of the 32-bit range: {min(values)} to {max(values)}")


def number(value: Any) -> int:
    """Return `value` as a 64-bit integer; fastjson also writes and reads numbers as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"an integer is expected, not {value!r:.80}")
    if isinstance(value, str) and not _WRITTEN_NUMBER.fullmatch(value):
        raise ValueError(f"an integer is expected, not {value!r:.80}")
    found = int(value)
    if not -(2**63) <= found < 2**63:
        raise ValueError(f"the integer {found!r:.80} is out of the 64-bit range")
    return found


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    """Encode a table of text values."""
    return orjson.dumps({"table": dict(table)})


def decode_kv_table(body: bytes) -> dict[str, str]:
    """Decode a table of text values."""
    return parse_body(
        "key-value table",
        body,
        lambda document: {text(key): text(value) for key, value in (document.get("table") or {}).items()},
    )
