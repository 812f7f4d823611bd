"""Record bytes to Arrow, column by column: a megabyte of pull answers becomes one RecordBatch.

A loop over messages is five times too slow for Spark. Here a loop only finds where records start; everything else
is one numpy gather per group of fixed fields, and one Arrow `take` per column of variable length, which copies the
wanted slices out of the raw bytes in C. Pure: bytes in, batches out.

Source: docs/formats/commit_log.md for the bytes of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import SysFlag
from orbitmq.spark.hosts import format_hosts, format_offset_ids
from orbitmq.spark.pairs import Pairs, slices, text
from orbitmq.spark.schema import TIMESTAMP, arrow_schema
from orbitmq.wire.compression import decompress

DECOMPRESSED_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of decompressed bodies in one batch: a few megabytes of answers may hold gigabytes."""

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
RECORD_SIZE_MIN = 91
_V6_EXTRA = 12
_SIZE = Struct(">i")

# The fixed fields of a record lie in three runs: before the born host, between the hosts, and after the store host.
# Hosts are 8 bytes (IPv4) or 20 (IPv6), so the second and third run start where the sys_flag says.
_HEAD = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">u4"),
        ("body_crc", ">u4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_at_ms", ">i8"),
    ]
)
_BORN_HOST_AT = 48
_STORED_AT = 56
_STORED = np.dtype([("stored_at_ms", ">i8")])
_STORE_HOST_AT = 64
_TAIL_AT = 72
_TAIL = np.dtype([("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_size", ">i4")])
_BODY_AT = 88

Positions = npt.NDArray[np.int64]


def decode_records(
    raw: bytes,
    names: Sequence[str],
    *,
    broker_name: str = "",
    queue_offset_min: int = 0,
    queue_offset_end: int | None = None,
    tags: frozenset[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decode whole records, as pull answers hold them, into batches of the columns called `names`.

    Args:
        raw: records back to back, under 2 GiB.
        names: columns out of `schema.COLUMN_NAMES`, in the order wanted.
        broker_name: the value of the brokerName column; records do not carry it.
        queue_offset_min: records before it are left out.
        queue_offset_end: records from here on are left out.
        tags: keep only messages with one of these tags: brokers filter by hash, which collides.

    Raises:
        CorruptRecord: the bytes are no whole records, or a compressed body does not decompress.
    """
    yield from parse_records(raw).between(queue_offset_min, queue_offset_end).batches(names, broker_name, tags)


def parse_records(raw: bytes) -> Records:
    """Find and check every record in `raw`.

    Raises:
        CorruptRecord: bad magic, or a length that leads out of its record.
    """
    data = np.frombuffer(raw, np.uint8)
    starts = _starts(raw)
    head = _gather(data, starts, _HEAD)
    _check(head, (head["magic"] == MAGIC_V1) | (head["magic"] == MAGIC_V2), "the magic number is no record's")
    born_extra = np.where(head["sys_flag"] & SysFlag.BORN_HOST_V6, _V6_EXTRA, 0)
    extra = born_extra + np.where(head["sys_flag"] & SysFlag.STORE_HOST_V6, _V6_EXTRA, 0)
    _check(head, head["size"] >= RECORD_SIZE_MIN + extra, "the record is too short for its hosts")
    tail = _gather(data, starts + _TAIL_AT + extra, _TAIL)
    ends = starts + head["size"]

    body_start = starts + _BODY_AT + extra
    body_end = body_start + tail["body_size"]
    is_v2 = head["magic"] == MAGIC_V2
    topic_start = body_end + 1 + is_v2
    _check(head, (tail["body_size"] >= 0) & (topic_start + 2 <= ends), "the body leads out of the record")
    topic_end = topic_start + data[body_end] * np.where(is_v2, 256, 1) + np.where(is_v2, data[topic_start - 1], 0)
    properties_start = topic_end + 2
    _check(head, properties_start <= ends, "the topic leads out of the record")
    properties_end = properties_start + data[topic_end] * np.int64(256) + data[topic_end + 1]
    _check(head, properties_end <= ends, "the properties lead out of the record")
    bounds = np.stack((body_start, body_end, topic_start, topic_end, properties_start, properties_end))
    return Records(pa.py_buffer(raw), data, starts, head, tail, bounds)


@dataclass(frozen=True)
class Records:
    """Where records and their parts lie in `raw`, and their fixed fields; one entry per record everywhere."""

    raw: pa.Buffer
    data: npt.NDArray[np.uint8]
    starts: Positions
    head: npt.NDArray[Any]
    tail: npt.NDArray[Any]
    bounds: Positions
    decompressed: dict[int, bytes] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, queue_offset_min: int, queue_offset_end: int | None) -> Records:
        """Return the records with queue offsets in the range."""
        offsets = self.head["queue_offset"]
        wanted = offsets >= queue_offset_min
        if queue_offset_end is not None:
            wanted &= offsets < queue_offset_end
        return self if wanted.all() else self._part(wanted)

    def batches(self, names: Sequence[str], broker_name: str, tags: frozenset[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the columns called `names`; see `decode_records`."""
        schema = arrow_schema(names)
        for part in self.bounded():
            batch = pa.RecordBatch.from_arrays([part.column(name, broker_name) for name in names], schema=schema)
            if tags is not None:
                wanted = pc.is_in(part.pairs.find("TAGS"), value_set=pa.array(sorted(tags), pa.string()))
                batch = batch.filter(wanted)
            if batch.num_rows:
                yield batch

    @property
    def queue_offsets(self) -> Positions:
        """The queue offset of each record."""
        return self.head["queue_offset"].astype(np.int64)

    def bounded(self) -> Iterator[Records]:
        """Decompress what is compressed, in parts of at most DECOMPRESSED_SIZE_MAX."""
        compressed = np.flatnonzero(self.head["sys_flag"] & SysFlag.COMPRESSED)
        if not len(compressed):
            if len(self):
                yield self
            return
        first, size = 0, 0
        bodies: dict[int, bytes] = {}
        for row in compressed.tolist():
            if size > DECOMPRESSED_SIZE_MAX:
                yield self._part(slice(first, row), bodies)
                first, size, bodies = row, 0, {}
            bodies[row - first] = body = self._decompress(row)
            size += len(body)
        yield self._part(slice(first, len(self)), bodies)

    def column(self, name: str, broker_name: str) -> pa.Array:
        """Return the column called `name`."""
        match name:
            case "topic":
                return text(slices(self.raw, self.bounds[2], self.bounds[3]))
            case "body":
                return self._bodies()
            case "properties":
                return self.pairs.as_map()
            case "brokerName":
                return pa.repeat(pa.scalar(broker_name, pa.string()), len(self))
            case "queueId":
                return pa.array(self.head["queue_id"].astype(np.int32))
            case "queueOffset":
                return pa.array(self.head["queue_offset"].astype(np.int64))
            case "bornTimestamp":
                return _timestamps(self.head["born_at_ms"])
            case "storeTimestamp":
                return _timestamps(
                    _gather(self.data, self.starts + _STORED_AT + self._born_extra, _STORED)["stored_at_ms"]
                )
            case "tags":
                return self.pairs.find("TAGS")
            case "keys":
                return self.pairs.find("KEYS")
            case "msgId":
                return self._message_ids()
            case "flag":
                return pa.array(self.head["flag"].astype(np.int32))
            case "reconsumeTimes":
                return pa.array(self.tail["reconsume_times"].astype(np.int32))
            case "bornHost":
                return format_hosts(self.data, self.starts + _BORN_HOST_AT, self._has(SysFlag.BORN_HOST_V6))
            case "storeHost":
                return format_hosts(self.data, self._store_host_at, self._has(SysFlag.STORE_HOST_V6))
        raise InvalidArgument("column", name, "a column of messages")

    @cached_property
    def pairs(self) -> Pairs:
        """The properties, taken apart once for all the columns that come from them."""
        return Pairs.parse(slices(self.raw, self.bounds[4], self.bounds[5]))

    @property
    def _born_extra(self) -> Positions:
        return np.where(self.head["sys_flag"] & SysFlag.BORN_HOST_V6, _V6_EXTRA, 0)

    @property
    def _store_host_at(self) -> Positions:
        return self.starts + _STORE_HOST_AT + self._born_extra

    def _has(self, bit: int) -> npt.NDArray[np.bool_]:
        has: npt.NDArray[np.bool_] = (self.head["sys_flag"] & bit) != 0
        return has

    def _part(self, rows: slice | npt.NDArray[np.bool_], decompressed: dict[int, bytes] | None = None) -> Records:
        return Records(
            self.raw,
            self.data,
            self.starts[rows],
            self.head[rows],
            self.tail[rows],
            self.bounds[:, rows],
            decompressed,
        )

    def _decompress(self, row: int) -> bytes:
        start, end = self.bounds[0, row], self.bounds[1, row]
        try:
            return decompress(self.data[start:end].tobytes(), int(self.head["sys_flag"][row]))
        except InvalidArgument as error:
            raise CorruptRecord(int(self.head["physical_offset"][row]), str(error)) from error

    def _bodies(self) -> pa.Array:
        bodies = slices(self.raw, self.bounds[0], self.bounds[1])
        if not self.decompressed:
            return bodies
        mask = np.zeros(len(self), np.bool_)
        mask[list(self.decompressed)] = True
        return pc.replace_with_mask(bodies, pa.array(mask), pa.array(self.decompressed.values(), pa.binary()))

    def _message_ids(self) -> pa.Array:
        unique_keys = self.pairs.find("UNIQ_KEY")
        if not unique_keys.null_count:
            return unique_keys
        offset_ids = format_offset_ids(
            self.data, self._store_host_at, self._has(SysFlag.STORE_HOST_V6), self.head["physical_offset"]
        )
        return pc.coalesce(unique_keys, offset_ids)


def _starts(raw: bytes) -> Positions:
    starts: list[int] = []
    append, unpack_from = starts.append, _SIZE.unpack_from
    position, end = 0, len(raw)
    while position < end:
        if end - position < RECORD_SIZE_MIN:
            raise CorruptRecord(position, f"{end - position} bytes are left, a record has at least {RECORD_SIZE_MIN}")
        append(position)
        (size,) = unpack_from(raw, position)
        if size < RECORD_SIZE_MIN:
            raise CorruptRecord(position, f"a size of {size} bytes, a record has at least {RECORD_SIZE_MIN}")
        position += size
    if position > end:
        raise CorruptRecord(starts[-1], f"the record ends {position - end} bytes after its answer")
    return np.array(starts, np.int64)


def _gather(data: npt.NDArray[np.uint8], positions: Positions, fields: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the run of `fields` that starts at each position."""
    if not len(positions):
        return np.empty(0, fields)
    windows = np.lib.stride_tricks.sliding_window_view(data, fields.itemsize)
    return windows[positions].view(fields).reshape(-1)


def _check(head: npt.NDArray[Any], holds: npt.NDArray[np.bool_], reason: str) -> None:
    if not holds.all():
        raise CorruptRecord(int(head["physical_offset"][int(np.argmin(holds))]), reason)


def _timestamps(milliseconds: npt.NDArray[Any]) -> pa.Array:
    return pa.array(milliseconds.astype(np.int64) * 1000).view(TIMESTAMP)
