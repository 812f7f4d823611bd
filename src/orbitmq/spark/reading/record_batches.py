"""Records as columns: a megabyte of pull answers becomes one Arrow RecordBatch. Pure: bytes in, batches out.

A loop over messages is five times too slow for Spark. Here a loop only finds where records start; everything else
is one numpy gather per run of fixed fields, and one Arrow `take` per column of variable length, which copies the
wanted slices out of the raw bytes in C.

Source: docs/formats/commit_log.md, orbitmq.wire.messages.record for one record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import PropertyName, SysFlag
from orbitmq.spark.gather import (
    Bytes,
    Flags,
    Positions,
    gather_bytes,
    gather_fields,
    gather_slices,
    repeat_text,
    to_arrow,
    to_text,
)
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.record_columns import Properties, format_hosts, format_mixed_hosts, format_offset_ids
from orbitmq.spark.schema import DECODE_ERROR, TIMESTAMP, arrow_schema
from orbitmq.wire.messages.compression import decompress
from orbitmq.wire.messages.record import (
    BODY_AT,
    BORN_HOST_AT,
    CRC_MASK,
    HEAD_FIELDS,
    HOST_SIZE_V4,
    HOST_SIZE_V6,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    STORE_HOST_AT,
    STORED_AT_AT,
    STORED_FIELDS,
    TAIL_AT,
    TAIL_FIELDS,
)

log = logging.getLogger(__name__)

DECOMPRESSED_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of decompressed bodies in one batch: a few megabytes of answers may hold gigabytes."""

TIME_MIN_MS = -62_135_510_400_000
TIME_MAX_MS = 253_402_214_400_000
"""A day within the years 1 and 9999, those that Python's `datetime` has: beyond them `collect()` fails in some time zone."""

_SIZE = Struct(">I")
_V6_EXTRA = HOST_SIZE_V6 - HOST_SIZE_V4
_ANY_HOST_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


def _big_endian(*fields: tuple[str, str]) -> np.dtype[Any]:
    return np.dtype([(name, f">{code}") for name, code in fields])


_STORED = _big_endian(*STORED_FIELDS, ("store_host", "u8"))
_HEAD = _big_endian(*HEAD_FIELDS, ("born_host", "u8"), *STORED_FIELDS, ("store_host", "u8"), *TAIL_FIELDS)
"""All fixed fields of a record whose hosts are IPv4."""
_TAIL = _big_endian(*TAIL_FIELDS)


def decode_records(
    raw: bytes | memoryview,
    names: Sequence[str],
    *,
    broker_name: str = "",
    queue_offset_min: int = 0,
    queue_offset_end: int | None = None,
    tags: frozenset[str] | None = None,
    fails: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode whole records, as pull answers hold them, into batches of the columns called `names`.

    Args:
        raw: records back to back, under 2 GiB.
        names: columns out of `schema.COLUMN_NAMES`, in the order wanted.
        broker_name: the value of the brokerName column; records do not carry it.
        queue_offset_min: records before it are left out.
        queue_offset_end: records from here on are left out.
        tags: keep only messages with one of these tags: brokers filter by hash, which collides.
        fails: raise DataLoss for a body that has changed since it was stored, unless the column `decodeError` is there to say so.

    Raises:
        CorruptRecord: the bytes are not whole records.
        DataLoss: a body's checksum is another one, where a column needs the body.
    """
    records = parse_records(raw).between(queue_offset_min, queue_offset_end)
    yield from records.batches(names, broker_name, tags, fails=fails)


def parse_records(raw: bytes | memoryview, found: Sequence[int] | Positions | None = None) -> Records:
    """Find and check every record in `raw`.

    Args:
        raw: records back to back, under 2 GiB.
        found: where records start, in ascending order, if that is known already; they need not be back to back then.

    Raises:
        CorruptRecord: bad magic, or a length that leads out of its record.
    """
    data = np.frombuffer(raw, np.uint8)
    starts = _starts(raw) if found is None else np.asarray(found, np.int64)
    # Every position below is computed from lengths that the bytes themselves tell, and each length is checked before the
    # next one is read behind it: a gather beyond the end of `data` would raise IndexError, one into a neighbour would lie.
    head = gather_fields(data, starts, _HEAD)
    is_v2 = head["magic"] == MAGIC_V2
    _check(head, (head["magic"] == MAGIC_V1) | is_v2, "the magic number is not a record's")
    ends = starts + head["size"]
    host_extra: Positions | int = 0
    if (head["sys_flag"] & _ANY_HOST_V6).any():
        host_extra = _move_fields(head, data, starts)
    body_start = starts + (BODY_AT + host_extra)
    body_size = head["body_size"].astype(np.int64)
    body_end = body_start + body_size
    topic_start = body_end + 1 + is_v2  # behind its size: one byte, two in V2
    _check(head, (body_size >= 0) & (topic_start + 2 <= ends), "the body leads out of the record")
    topic_end = topic_start + data[body_end] * np.where(is_v2, 256, 1) + np.where(is_v2, data[topic_start - 1], 0)
    properties_start = topic_end + 2
    _check(head, properties_start <= ends, "the topic leads out of the record")
    properties_end = properties_start + data[topic_end] * np.int64(256) + data[topic_end + 1]
    _check(head, properties_end <= ends, "the properties lead out of the record")
    return Records(
        raw=pa.py_buffer(raw),
        data=data,
        starts=starts,
        head=head,
        bodies=np.stack((body_start, body_end)),
        topics=np.stack((topic_start, topic_end)),
        properties=np.stack((properties_start, properties_end)),
    )


@dataclass(frozen=True, kw_only=True)
class Records:
    """Where records and their parts lie in `raw`, and their fixed fields; one entry per record everywhere.

    `bodies`, `topics` and `properties` are pairs of rows: where each starts, where each ends. `decompressed` holds bodies,
    `body_errors` why a body could not be decoded, both by the record's index.
    """

    raw: pa.Buffer
    data: Bytes
    starts: Positions
    head: npt.NDArray[Any]
    bodies: Positions
    topics: Positions
    properties: Positions
    decompressed: Mapping[int, bytes] | None = None
    body_errors: Mapping[int, str] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, queue_offset_min: int, queue_offset_end: int | None) -> Records:
        """Return the records with queue offsets in the range."""
        offsets = self.head["queue_offset"]
        wanted = offsets >= queue_offset_min
        if queue_offset_end is not None:
            wanted &= offsets < queue_offset_end
        return self.where(wanted)

    def where(self, wanted: Flags) -> Records:
        """Return the records that are wanted."""
        return self if wanted.all() else self._part(wanted)

    def batches(
        self, names: Sequence[str], broker_name: str | None, tags: frozenset[str] | None, *, fails: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns called `names`; see `decode_records`."""
        schema = arrow_schema(names)
        wanted = self if tags is None else self.tagged(tags)
        needs_bodies = not {"body", DECODE_ERROR.name}.isdisjoint(names)
        fails = fails and DECODE_ERROR.name not in names
        for part in wanted.with_bodies(broker_name, fails=fails) if needs_bodies else (wanted,):
            if len(part):
                yield pa.RecordBatch.from_arrays([part.column(name, broker_name) for name in names], schema=schema)

    def tagged(self, tags: frozenset[str]) -> Records:
        """Return the records with one of the tags."""
        found = self.parsed_properties.find(PropertyName.TAGS)
        is_wanted = pc.is_in(found, value_set=pa.array(sorted(tags), pa.string()))
        return self.where(is_wanted.to_numpy(zero_copy_only=False))

    @property
    def queue_offsets(self) -> Positions:
        """The queue offset of each record."""
        return self.head["queue_offset"].astype(np.int64)

    def with_bodies(self, broker_name: str | None, *, fails: bool) -> Iterator[Records]:
        """Check and decompress the bodies; yield the records in parts of about DECOMPRESSED_SIZE_MAX.

        A body that cannot be decoded stays as it was stored, with its reason in `body_errors`: consumers read it so, too.

        Raises:
            DataLoss: a body has changed since it was stored, and `fails` is true.
        """
        errors = self._changed_bodies(broker_name, fails=fails)
        # Bodies are decompressed here one by one, and before any column is built: a part ends at the body that makes it
        # too large, so that a batch never holds more than the limit and one body.
        first, size = 0, 0
        bodies: dict[int, bytes] = {}
        for row in np.flatnonzero(self.head["sys_flag"] & SysFlag.COMPRESSED).tolist():
            if size > DECOMPRESSED_SIZE_MAX:
                yield self._decoded(first, row, bodies, errors)
                first, size, bodies = row, 0, {}
            start, end = self.bodies[:, row]
            try:
                body = decompress(self.data[start:end].tobytes(), int(self.head["sys_flag"][row]))
            except InvalidArgument as error:
                errors.setdefault(row, str(error))
            else:
                bodies[row - first] = body
                size += len(body)
        if errors:
            row, reason = min(errors.items())
            where = self._place(row, broker_name)
            log.warning(
                "bodies that cannot be decoded stay as they were stored: %d, the first one %s: %s",
                len(errors),
                where,
                reason,
            )
        yield self._decoded(first, len(self), bodies, errors)

    def _decoded(self, first: int, end: int, bodies: Mapping[int, bytes], errors: Mapping[int, str]) -> Records:
        """Return the records from `first` to `end` with their decoded bodies, by their index there, and errors."""
        of_part = {row - first: reason for row, reason in errors.items() if first <= row < end}
        return self._part(slice(first, end), bodies, of_part)

    def _changed_bodies(self, broker_name: str | None, *, fails: bool) -> dict[int, str]:
        """Return which bodies are not those that were stored, and why."""
        view = memoryview(self.raw)
        starts, ends = self.bodies.tolist()
        found = (
            np.array([crc32(view[start:end]) for start, end in zip(starts, ends, strict=True)], np.uint32) & CRC_MASK
        )
        stored = self.head["body_crc"]
        errors = {
            row: f"the body has changed since it was stored: its checksum is {found[row]:#010x}, it was {int(stored[row]):#010x}"
            for row in np.flatnonzero(found != stored).tolist()
        }
        if errors and fails:
            row, reason = next(iter(errors.items()))
            raise DataLoss(
                f"{self._place(row, broker_name)}: {reason}. Set failOnDataLoss to false, or includeDecodeError to true for this reason in "
                f"the column {DECODE_ERROR.name}, to read it as it is."
            )
        return errors

    def _place(self, row: int, broker_name: str | None) -> str:
        topic, head = self.topic_names[row].as_py(), self.head[row]
        queue = f"queue {head['queue_id']} of topic {topic}"
        return f"offset {head['queue_offset']} of {queue if broker_name is None else f'{queue} on {broker_name}'}"

    def column(self, name: str, broker_name: str | None) -> pa.Array:
        """Return the column called `name`."""
        if name == "brokerName":
            return pa.nulls(len(self), pa.string()) if broker_name is None else repeat_text(broker_name, len(self))
        build = _COLUMNS.get(name)
        if build is None:
            raise InvalidArgument("column", name, "a column of messages")
        return build(self)

    @cached_property
    def parsed_properties(self) -> Properties:
        """The properties, parsed once for all the columns that come from them."""
        return Properties.parse(gather_slices(self.raw, *self.properties))

    @cached_property
    def topic_names(self) -> pa.Array:
        """The topic of each record."""
        starts, ends = self.topics
        sizes = ends - starts
        # Mostly all are of one topic.
        if len(self) and (sizes == sizes[0]).all():
            found = gather_bytes(self.data, starts, int(sizes[0]))
            if (found == found[0]).all():
                return repeat_text(found[0].tobytes().decode(errors="replace"), len(self))
        return to_text(gather_slices(self.raw, starts, ends))

    @property
    def born_hosts(self) -> pa.Array:
        """The `ip:port` of each producer."""
        is_v6 = self._has(SysFlag.BORN_HOST_V6)
        if is_v6.any():
            return format_mixed_hosts(self.data, self.starts + BORN_HOST_AT, is_v6)
        return format_hosts(self.head["born_host"])

    @property
    def store_hosts(self) -> pa.Array:
        """The `ip:port` of each broker."""
        is_v6 = self._has(SysFlag.STORE_HOST_V6)
        if is_v6.any():
            return format_mixed_hosts(self.data, self._store_host_at, is_v6)
        return format_hosts(self.head["store_host"])

    @property
    def stored_at_ms(self) -> npt.NDArray[Any]:
        """When the broker stored each record."""
        return self.head["stored_at_ms"]

    @property
    def plain_bodies(self) -> pa.Array:
        """The bodies; those that were compressed as `bounded` has decompressed them."""
        # Compressed bodies are gathered, too, and then replaced: an Arrow array of variable length cannot be built in parts.
        bodies = gather_slices(self.raw, *self.bodies)
        if not self.decompressed:
            return bodies
        mask = np.zeros(len(self), np.bool_)
        mask[list(self.decompressed)] = True
        return pc.replace_with_mask(bodies, pa.array(mask), pa.array(self.decompressed.values(), pa.binary()))

    @property
    def decode_errors(self) -> pa.Array:
        """Why each body could not be decoded, by this reader or by the consumer that made a dead letter of it; null where it could."""
        before = self.parsed_properties.find(PropertyName.DECODE_ERROR)
        if not self.body_errors:
            return before
        return pc.coalesce(pa.array([self.body_errors.get(row) for row in range(len(self))], pa.string()), before)

    @property
    def message_ids(self) -> pa.Array:
        """The producers' unique keys; the offset message id of a record without one."""
        unique_keys = self.parsed_properties.find(PropertyName.UNIQ_KEY)
        if not unique_keys.null_count:
            return unique_keys
        offset_ids = format_offset_ids(
            self.data, self._store_host_at, self._has(SysFlag.STORE_HOST_V6), self.head["physical_offset"]
        )
        return pc.coalesce(unique_keys, offset_ids)

    @property
    def _store_host_at(self) -> Positions:
        return self.starts + STORE_HOST_AT + _host_extra(self.head, SysFlag.BORN_HOST_V6)

    def _has(self, bit: int) -> Flags:
        has: Flags = (self.head["sys_flag"] & bit) != 0
        return has

    def _part(
        self,
        rows: slice | Flags,
        decompressed: Mapping[int, bytes] | None = None,
        body_errors: Mapping[int, str] | None = None,
    ) -> Records:
        return Records(
            raw=self.raw,
            data=self.data,
            starts=self.starts[rows],
            head=self.head[rows],
            bodies=self.bodies[:, rows],
            topics=self.topics[:, rows],
            properties=self.properties[:, rows],
            decompressed=decompressed,
            body_errors=body_errors,
        )


_COLUMNS: Mapping[str, Callable[[Records], pa.Array]] = {
    "topic": lambda records: records.topic_names,
    "body": lambda records: records.plain_bodies,
    "properties": lambda records: records.parsed_properties.as_map(),
    "queueId": lambda records: to_arrow(records.head["queue_id"].astype(np.int32), pa.int32()),
    "queueOffset": lambda records: to_arrow(records.queue_offsets, pa.int64()),
    "bornTimestamp": lambda records: _timestamps(records.head["born_at_ms"]),
    "storeTimestamp": lambda records: _timestamps(records.stored_at_ms),
    "tags": lambda records: records.parsed_properties.find(PropertyName.TAGS),
    "keys": lambda records: records.parsed_properties.find(PropertyName.KEYS),
    "msgId": lambda records: records.message_ids,
    "flag": lambda records: to_arrow(records.head["flag"].astype(np.int32), pa.int32()),
    "reconsumeTimes": lambda records: to_arrow(records.head["reconsume_times"].astype(np.int32), pa.int32()),
    "bornHost": lambda records: records.born_hosts,
    "storeHost": lambda records: records.store_hosts,
    DECODE_ERROR.name: lambda records: records.decode_errors,
    "physicalOffset": lambda records: to_arrow(records.head["physical_offset"].astype(np.int64), pa.int64()),
}
"""How each column but brokerName comes out of the records."""


def _starts(raw: bytes | memoryview) -> Positions:
    """Return where records start. Each tells only its own size, so this is a loop: the one per record that there is."""
    starts: list[int] = []
    # Local names are looked up faster than attributes.
    append, unpack_from = starts.append, _SIZE.unpack_from
    position, end = 0, len(raw)
    last = end - RECORD_SIZE_MIN
    while position <= last:
        append(position)
        (size,) = unpack_from(raw, position)
        if size < RECORD_SIZE_MIN:
            raise CorruptRecord(position, f"a size of {size} bytes, a record has at least {RECORD_SIZE_MIN}")
        position += size
    if position > end:
        raise CorruptRecord(starts[-1], f"the record ends {position - end} bytes after its answer")
    if position < end:
        raise CorruptRecord(position, f"{end - position} bytes are left, a record has at least {RECORD_SIZE_MIN}")
    return np.array(starts, np.int64)


def _host_extra(head: npt.NDArray[Any], bit: int) -> Positions:
    """Return by how many bytes a host, IPv6 where `bit` is set in sys_flag, moves what stands behind it."""
    return np.where(head["sys_flag"] & bit, _V6_EXTRA, 0)


def _move_fields(head: npt.NDArray[Any], data: Bytes, starts: Positions) -> Positions:
    """Read again what stands behind a host, where one is IPv6; return by how many bytes both hosts move the body.

    Raises:
        CorruptRecord: a record ends before its fields.
    """
    born_extra = _host_extra(head, SysFlag.BORN_HOST_V6)
    extra = born_extra + _host_extra(head, SysFlag.STORE_HOST_V6)
    _check(head, head["size"] >= RECORD_SIZE_MIN + extra, "the record is too short for its hosts")
    for at, fields in ((STORED_AT_AT + born_extra, _STORED), (TAIL_AT + extra, _TAIL)):
        moved = gather_fields(data, starts + at, fields)
        for name in fields.names or ():
            head[name] = moved[name]
    return extra


def _check(head: npt.NDArray[Any], holds: Flags, reason: str) -> None:
    if not holds.all():
        raise CorruptRecord(int(head["physical_offset"][int(np.argmin(holds))]), reason)


def _timestamps(milliseconds: npt.NDArray[Any]) -> pa.Array:
    # Arrow wants the machine's byte order, Spark microseconds.
    found = milliseconds.astype(np.int64)
    is_far = (found < TIME_MIN_MS) | (found > TIME_MAX_MS)
    if is_far.any():
        return to_arrow(np.where(is_far, 0, found) * 1000, TIMESTAMP, is_far)
    return to_arrow(found * 1000, TIMESTAMP)
