"""Message properties: name-value pairs in one string, split by two control characters; and tag codes. Pure.

`name 0x01 value 0x02`, repeated; the last 0x02 may be missing. Source: docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import unpack

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import PROPERTIES_SIZE_MAX

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

_PROPERTY_END = 2
_PAIR_LENGTH_MIN = 3  # one character of name, the separator, one of value


def is_text(encoded: bytes) -> bool:
    """Return True if encoded properties can be parsed."""
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_properties(encoded: bytes | memoryview | str) -> dict[str, str]:
    """Parse encoded properties; pairs without a name or a value are left out, as Java leaves them out.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    text = encoded if isinstance(encoded, str) else str(encoded, "utf-8")
    properties: dict[str, str] = {}
    for pair in text.split(PROPERTY_SEPARATOR):
        if len(pair) < _PAIR_LENGTH_MIN:
            continue
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties as they travel and as they are stored: what `parse_properties` returned comes back as it was.

    Raises:
        InvalidArgument: a name holds a separator, a value 0x02, either half a character (a surrogate), or the whole is
            longer than 32767 bytes.
    """
    try:
        encoded = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument("properties", dict(properties), f"text that UTF-8 can hold ({error.reason})") from None
    count = len(properties)
    # A value may hold 0x01: the first one behind a name ends it.
    is_ambiguous = encoded.count(b"\x01") != count and any(NAME_VALUE_SEPARATOR in name for name in properties)
    if is_ambiguous or encoded.count(b"\x02") != count:
        raise InvalidArgument("properties", dict(properties), "no 0x01 or 0x02 inside names, and no 0x02 inside values")
    if len(encoded) > PROPERTIES_SIZE_MAX:
        raise InvalidArgument("properties", f"{len(encoded)} bytes", f"at most {PROPERTIES_SIZE_MAX} bytes encoded")
    return encoded


def find_property(encoded: bytes, name: bytes) -> bytes | None:
    """Return one property's value without parsing the others, None when it is absent or empty.

    The last of several equal names wins, as it does for `parse_properties`.
    """
    key = name + b"\x01"
    at = encoded.rfind(key)
    while at >= 0:
        # Anything else before the name makes it the end of a longer name, or text inside a value.
        if at == 0 or encoded[at - 1] == _PROPERTY_END:
            start = at + len(key)
            end = encoded.find(b"\x02", start)
            value = encoded[start:] if end < 0 else encoded[start:end]
            if value:
                return value
        at = encoded.rfind(key, 0, at)
    return None


@lru_cache(maxsize=4096)
def tag_code(tag: str) -> int:
    """Return the code of `tag` that stands in a consume-queue entry, 0 for the empty tag.

    Source: Java String.hashCode (over UTF-16 units, wrapping at 32 bits, signed), as RocketMQ's brokers and
    consumers apply it to TAGS.
    """
    encoded = tag.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code - 0x1_0000_0000 if code & 0x8000_0000 else code
