"""The message record: one message in the CommitLog, and in the body of a pull or query answer. Pure.

```
| size 4 | magic 4 | body crc 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | sys flag 4 | born at 8 |
| born host 8/20 | stored at 8 | store host 8/20 | reconsume times 4 | prepared transaction offset 8 |
| body size 4 | body | topic size 1 (V1) or 2 (V2) | topic | properties size 2 | properties |
```
Source: docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import PROPERTIES_SIZE_MAX, Host, SysFlag

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194

CRC_MASK = 0x7FFFFFFF
TOPIC_SIZE_V1_MAX = 127
TOPIC_SIZE_V2_MAX = 0x7FFF

PREFIX = Struct(">II")  # size, magic
BLANK_SIZE_MIN = PREFIX.size
"""Bytes that every segment keeps free for the filler's head."""


# The fixed fields, as (name, format character of `struct` and numpy) in big-endian order without padding. The two hosts
# have 8 bytes (IPv4) or 20 (IPv6) and cut them into three runs, so what stands behind a host moves with its size.
HEAD_FIELDS = (
    ("size", "I"),
    ("magic", "I"),
    ("body_crc", "I"),
    ("queue_id", "i"),
    ("flag", "i"),
    ("queue_offset", "q"),
    ("physical_offset", "q"),
    ("sys_flag", "i"),
    ("born_at_ms", "q"),
)
"""From the record's start to the born host."""
STORED_FIELDS = (("stored_at_ms", "q"),)
"""Between the born host and the store host."""
TAIL_FIELDS = (("reconsume_times", "i"), ("prepared_transaction_offset", "q"), ("body_size", "i"))
"""From the store host to the body."""
HOST_SIZE_V4 = 8
HOST_SIZE_V6 = 20


def _formats(*fields: tuple[str, str]) -> str:
    return "".join(code for _, code in fields)


def _head(born_size: int, store_size: int) -> Struct:
    head, stored, tail = _formats(*HEAD_FIELDS), _formats(*STORED_FIELDS), _formats(*TAIL_FIELDS)
    return Struct(f">{head}{born_size}s{stored}{store_size}s{tail}")


HEADS = (
    _head(HOST_SIZE_V4, HOST_SIZE_V4),
    _head(HOST_SIZE_V6, HOST_SIZE_V4),
    _head(HOST_SIZE_V4, HOST_SIZE_V6),
    _head(HOST_SIZE_V6, HOST_SIZE_V6),
)
"""From `size` to `body size`; indexed by bits 4 (born host is IPv6) and 5 (store host is IPv6) of sys_flag."""

QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
BORN_HOST_AT = 48
STORED_AT_AT = 56  # here and below: 12 more behind an IPv6 host
STORE_HOST_AT = 64
TAIL_AT = 72
BODY_AT = 88
RECORD_SIZE_MIN = BODY_AT + 3
"""Bytes of a record with IPv4 hosts, without body, topic and properties: the sizes of the last two remain."""
LONG = Struct(">q")
TOPIC_SIZE_V2 = Struct(">H")
PROPERTIES_SIZE = Struct(">H")

NO_HOST = Host("0.0.0.0", 0)

LOST_SECTOR_SIZE = 512
LOST_SECTOR = bytes(LOST_SECTOR_SIZE)

_SYS_FLAG = slice(36, 40)
_TO_BODY = Struct(">7xB31xB44xi")
"""The last byte of the magic, that of sys_flag, and the body's size in a record with IPv4 hosts."""
_TO_QUEUE = Struct(">II4xi4xqq3xB44xi")
"""Size, magic, queue id, queue offset, physical offset, and as above."""
_HOST_FLAGS = 0x30
_MAGIC_V1_END = MAGIC_V1 & 0xFF
_CRC_NAME = b"__CRC32#\x01"
_CRC_DIGITS = 10
CRC_PROPERTY_SIZE = len(_CRC_NAME) + _CRC_DIGITS + 1


class Record(NamedTuple):
    """One stored message, its fields still encoded where decoding costs.

    Offsets: `queue_offset` counts messages, `physical_offset` and `size` count bytes. `body` and `properties` are
    slices of what was parsed.
    """

    size: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_at_ms: int
    born_host: Host
    stored_at_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    body: bytes | memoryview
    topic: str
    properties: bytes


class Blank(NamedTuple):
    """The filler at the end of a segment: `size` bytes to pass over."""

    size: int


def parse_record(
    view: bytes | memoryview,
    physical_offset: int | None = None,
    *,
    check_crc: bool = True,
    check_record_crc: bool = False,
) -> Record | Blank:
    """Return the record that starts at `view[0]`, or Blank(size) when the rest of the segment is filler.

    Args:
        view: bytes from the record's start to the end of its segment, or of the answer it came in.
        physical_offset: where `view[0]` lies in the log, in bytes; must equal the record's own. None: not checked.
        check_crc: compare the body's checksum.
        check_record_crc: compare the whole record's, too, where it carries one. Only for records of a broker that
            writes it (`enabledAppendPropCRC`): elsewhere it is a property like any other, which a client made up.

    Raises:
        CorruptRecord: bad magic, a length that does not fit, offset or checksum mismatch, cut short, no UTF-8.

    Source: docs/formats/commit_log.md. Every length is checked: the body's checksum says nothing about the rest (apache/rocketmq#7437),
    and 0 is a checksum like any other (#9121). Sectors that never reached the disk read as zeros, which properties never hold.
    """
    at = -1 if physical_offset is None else physical_offset
    if len(view) < PREFIX.size:
        raise CorruptRecord(at, f"cut short after {len(view)} bytes")
    size, magic = PREFIX.unpack_from(view)
    if magic == MAGIC_BLANK:
        return _parse_blank(size, len(view), at)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise CorruptRecord(at, f"magic {magic:#010x}")
    if len(view) < HEADS[0].size:
        raise CorruptRecord(at, f"cut short after {len(view)} bytes")
    # Two bits of sys_flag say how long the hosts are, and so which layout the rest has: it is read before the others.
    sys_flag = int.from_bytes(view[_SYS_FLAG], "big")
    head = HEADS[(sys_flag >> 4) & 3]
    if not head.size <= size <= len(view):
        raise CorruptRecord(at, f"size {size} in {len(view)} bytes")
    (
        _size, _magic, body_crc, queue_id, flag, queue_offset, own_offset, sys_flag, born_at_ms, born_host, stored_at_ms,
        store_host, reconsume_times, prepared_transaction_offset, body_size,
    ) = head.unpack_from(view)  # fmt: skip
    if physical_offset is not None and own_offset != physical_offset:
        # A reused file's old record: apache/rocketmq#10017.
        raise CorruptRecord(at, f"says that it lies at {own_offset}")
    body_end = head.size + body_size
    topic_start = body_end + (1 if magic == MAGIC_V1 else 2)
    if body_size < 0 or topic_start > size:
        raise CorruptRecord(at, f"body of {body_size} bytes in a record of {size}")
    topic_end = topic_start + int.from_bytes(view[body_end:topic_start], "big")
    properties_start = topic_end + PROPERTIES_SIZE.size
    if properties_start > size:
        raise CorruptRecord(at, f"topic of {topic_end - topic_start} bytes in a record of {size}")
    if properties_start + int.from_bytes(view[topic_end:properties_start], "big") != size:
        raise CorruptRecord(at, f"properties do not end with the record of {size} bytes")
    body = view[head.size : body_end]
    properties = bytes(view[properties_start:size])
    if properties and (properties[-1] == 0 or (len(properties) > LOST_SECTOR_SIZE and LOST_SECTOR in properties)):
        raise CorruptRecord(at, "its properties were not written to their end")
    if check_crc and crc32(body) & CRC_MASK != body_crc:
        raise CorruptRecord(at, "the body's checksum does not match")
    if check_record_crc:
        _check_record_crc(view, size, properties, at)
    try:
        topic = str(view[topic_start:topic_end], "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptRecord(at, f"topic is not UTF-8: {error}") from error
    return Record(
        size, queue_id, flag, queue_offset, own_offset, sys_flag, born_at_ms, parse_host(born_host), stored_at_ms,
        parse_host(store_host), reconsume_times, prepared_transaction_offset, body_crc, body, topic, properties,
    )  # fmt: skip


def queue_offset_in(
    buffer: Any, start: int, size: int, physical_offset: int, queue_id: int, magic: int, topic_part: bytes
) -> int | None:
    """Return the queue offset of a whole record of a queue, without parsing all of it: a start asks for thousands.

    What `parse_record` checks without checksums is checked here, too.

    Args:
        buffer: bytes in whatever form, the record starts at `buffer[start]`; they hold `size` bytes from there on.
        magic: as `topic_part`, from `format_topic`.

    Returns:
        None: it is no such record, or one of those few that only `parse_record` can tell of.
    """
    if size < RECORD_SIZE_MIN:
        return None
    # One unpack for all fixed fields up to the body: recovery calls this for millions of records.
    own_size, own_magic, own_queue_id, queue_offset, own_offset, flags, body_size = _TO_QUEUE.unpack_from(buffer, start)
    topic_at = start + BODY_AT + body_size
    properties_at = topic_at + len(topic_part) + PROPERTIES_SIZE.size
    end = start + size
    if (
        (own_size, own_magic, own_queue_id, own_offset) != (size, magic, queue_id, physical_offset)
        # IPv6 hosts are longer, and move everything behind them.
        or flags & _HOST_FLAGS
        or body_size < 0
        or not properties_at <= end <= properties_at + LOST_SECTOR_SIZE
        or buffer[topic_at : properties_at - PROPERTIES_SIZE.size] != topic_part
        or PROPERTIES_SIZE.unpack_from(buffer, properties_at - PROPERTIES_SIZE.size)[0] != end - properties_at
        # Properties that end in a zero byte may have lost a sector at their end.
        or (end > properties_at and not buffer[end - 1])
    ):
        return None
    found: int = queue_offset
    return found


def properties_at(buffer: Any, start: int, size: int) -> bytes:
    """Return the encoded properties of a whole record that starts at `buffer[start]`, without parsing the rest.

    Filters ask for them in every message that they look at.

    Args:
        buffer: bytes in whatever form, a file's map among them.
    """
    magic_end, flags, body_size = _TO_BODY.unpack_from(buffer, start)
    topic_at = start + BODY_AT + body_size
    if flags & _HOST_FLAGS:
        head_size = HEADS[(flags >> 4) & 3].size
        topic_at = start + head_size + int.from_bytes(buffer[start + head_size - 4 : start + head_size], "big")
    if magic_end == _MAGIC_V1_END:
        return bytes(buffer[topic_at + 1 + buffer[topic_at] + PROPERTIES_SIZE.size : start + size])
    (topic_size,) = TOPIC_SIZE_V2.unpack_from(buffer, topic_at)
    return bytes(buffer[topic_at + TOPIC_SIZE_V2.size + topic_size + PROPERTIES_SIZE.size : start + size])


def properties_in(buffer: Any, base: int, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes] | None:
    """Return what `properties_at` returns of many whole records; None where one of them has an unusual head.

    Args:
        buffer: bytes, a file's map, or a bytearray.
        base: the place of `buffer[0]`; `offsets` are places, too.
    """
    unpack = _TO_BODY.unpack_from
    found: list[bytes] = []
    for offset, size in zip(offsets, sizes, strict=True):
        start = offset - base
        magic_end, flags, body_size = unpack(buffer, start)
        if flags & _HOST_FLAGS or magic_end != _MAGIC_V1_END:
            return None
        topic_at = start + BODY_AT + body_size
        # One byte of topic size and two of properties size stand around the topic.
        found.append(buffer[topic_at + 3 + buffer[topic_at] : start + size])
    return list(map(bytes, found)) if isinstance(buffer, bytearray) else found


def iter_records(view: bytes | memoryview, *, check_crc: bool = True) -> Iterator[Record]:
    """Yield the records of a pull or query answer.

    Raises:
        CorruptRecord: the answer's body is damaged from here on.
    """
    rest = memoryview(view)
    while rest:
        record = parse_record(rest, check_crc=check_crc)
        if isinstance(record, Blank):
            raise CorruptRecord(-1, "segment filler in an answer")
        yield record
        rest = rest[record.size :]


def iter_queue_records(view: bytes | memoryview, queue_offset: int) -> Iterator[tuple[int, Record | CorruptRecord]]:
    """Yield the records of a read of a queue with their queue offsets; one that is damaged ends it, as its error.

    The caller sets that one aside and reads on behind it: one bad record stops no other.

    Args:
        view: whole records, one after another.
        queue_offset: the first one's.
    """
    try:
        for record in iter_records(view, check_crc=False):
            if record.queue_offset != queue_offset:
                raise CorruptRecord(record.physical_offset, f"its queue offset is {record.queue_offset}")
            yield queue_offset, record
            queue_offset += 1
    except CorruptRecord as error:
        yield queue_offset, error


def queue_offsets_in(body: bytes) -> list[int]:
    """Return the queue offsets of whole records back to back, without parsing the rest of them."""
    offsets, start, end = [], 0, len(body)
    size_of, offset_of = PREFIX.unpack_from, LONG.unpack_from
    while start < end:
        offsets.append(offset_of(body, start + QUEUE_OFFSET_AT)[0])
        start += size_of(body, start)[0]
    return offsets


def format_record(
    *,
    topic: str,
    body: bytes,
    properties: bytes = b"",
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_at_ms: int = 0,
    born_host: Host = NO_HOST,
    stored_at_ms: int = 0,
    store_host: Host = NO_HOST,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    with_crc: bool = False,
) -> bytes:
    """Encode one record: V1, or V2 when the topic is longer than 127 bytes.

    Args:
        with_crc: append the property that holds the whole record's checksum (Java: enabledAppendPropCRC).

    Raises:
        InvalidArgument: topic or properties are too long.
    """
    born, store = format_host(born_host), format_host(store_host)
    sys_flag = with_host_flags(sys_flag, born, store)
    head = HEADS[(sys_flag >> 4) & 3]
    magic, topic_part = format_topic(topic)
    if with_crc:
        properties += b"" if not properties or properties.endswith(b"\x02") else b"\x02"
    properties_size = len(properties) + (CRC_PROPERTY_SIZE if with_crc else 0)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise InvalidArgument("properties", f"{properties_size} bytes", f"at most {PROPERTIES_SIZE_MAX} bytes")
    size = head.size + len(body) + len(topic_part) + PROPERTIES_SIZE.size + properties_size
    record = b"".join(
        (
            head.pack(
                size, magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, physical_offset, sys_flag, born_at_ms,
                born, stored_at_ms, store, reconsume_times, prepared_transaction_offset, len(body),
            ),
            body,
            topic_part,
            PROPERTIES_SIZE.pack(properties_size),
            properties,
        )
    )  # fmt: skip
    return record + crc_property(record) if with_crc else record


def encode_record(record: Record) -> bytes:
    """Encode a record that was parsed, or one with other fields in its place: sizes and checksums are computed again.

    Raises:
        InvalidArgument: topic or properties are too long.
    """
    return format_record(
        topic=record.topic,
        body=bytes(record.body),
        properties=bytes(record.properties),
        queue_id=record.queue_id,
        flag=record.flag,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        sys_flag=record.sys_flag,
        born_at_ms=record.born_at_ms,
        born_host=record.born_host,
        stored_at_ms=record.stored_at_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )


@lru_cache(maxsize=4096)
def format_host(host: Host) -> bytes:
    """Encode a host as records carry it: 4 or 16 bytes of address, 4 of port.

    Raises:
        InvalidArgument: not an IP address.
    """
    try:
        return ip_address(host.ip).packed + host.port.to_bytes(4, "big")
    except (ValueError, OverflowError) as error:
        raise InvalidArgument("host", str(host), "an IPv4 or IPv6 address and a port") from error


@lru_cache(maxsize=4096)
def parse_host(packed: bytes) -> Host:
    """Decode 8 or 20 bytes of a record into a host."""
    return Host(str(ip_address(packed[:-4])), int.from_bytes(packed[-4:], "big"))


@lru_cache(maxsize=1024)
def format_topic(topic: str) -> tuple[int, bytes]:
    """Return the magic that a topic's length asks for, and the topic with its size before it.

    Raises:
        InvalidArgument: longer than 32767 bytes.
    """
    encoded = topic.encode()
    if len(encoded) <= TOPIC_SIZE_V1_MAX:
        return MAGIC_V1, bytes((len(encoded),)) + encoded
    if len(encoded) > TOPIC_SIZE_V2_MAX:
        raise InvalidArgument("topic", f"{len(encoded)} bytes", f"at most {TOPIC_SIZE_V2_MAX} bytes")
    return MAGIC_V2, TOPIC_SIZE_V2.pack(len(encoded)) + encoded


def with_host_flags(sys_flag: int, born: bytes, store: bytes) -> int:
    """Return sys_flag with the two bits that tell the sizes of the packed hosts."""
    sys_flag &= ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
    if len(born) == HOST_SIZE_V6:
        sys_flag |= SysFlag.BORN_HOST_V6
    if len(store) == HOST_SIZE_V6:
        sys_flag |= SysFlag.STORE_HOST_V6
    return sys_flag


def crc_property(record: bytes) -> bytes:
    """Return the property that closes a record: the checksum of everything before it, lowest digit first."""
    digits = f"{crc32(record) & CRC_MASK:0{_CRC_DIGITS}d}"[::-1]
    return _CRC_NAME + digits.encode() + b"\x02"


def _parse_blank(size: int, available: int, at: int) -> Blank:
    if not BLANK_SIZE_MIN <= size <= available:
        raise CorruptRecord(at, f"filler of {size} bytes in {available}")
    return Blank(size)


def _check_record_crc(view: bytes | memoryview, size: int, properties: bytes, at: int) -> None:
    """Compare the whole record's checksum when its properties close with one."""
    if not properties.startswith(_CRC_NAME, -CRC_PROPERTY_SIZE):
        return
    digits = properties[-_CRC_DIGITS - 1 : -1]
    expected = int(digits[::-1]) if digits.isdigit() else -1
    if crc32(view[: size - CRC_PROPERTY_SIZE]) & CRC_MASK != expected:
        raise CorruptRecord(at, "the record's checksum does not match")
