"""Rows become the parts of batch requests, thousands in one pass, without an object for each. Pure.

The result is the same, byte for byte, as that of `MessageBuilder` and the client's encoder; rows that are out of the
ordinary are left to those, which also say what is wrong with a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.client.send.request import COMPRESS_OVER
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import FLAG_LIMIT, PROPERTIES_SIZE_MAX, PropertyName, TimerProperty
from orbitmq.model.topic import RETRY_PREFIX, check_name
from orbitmq.spark.gather import Flags, Positions
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.writing.messages import ROW_ID, SYSTEM_PROPERTIES
from orbitmq.wire.messages.batch import ITEM_SIZE_MIN
from orbitmq.wire.messages.message_id import UniqueKeys
from orbitmq.wire.messages.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

_HEAD = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body_size", ">i4")])
_BINARY = pa.binary()
_NAME_END, _VALUE_END = NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode()
_TIMER_PROPERTIES = frozenset(value for name, value in vars(TimerProperty).items() if not name.startswith("_"))
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class EncodedRows(NamedTuple):
    """Rows as items of batch requests, one entry each: side by side they are a request's body. The id is the first row's."""

    items: pa.Array
    message_id: str


class BatchBody(NamedTuple):
    """The body of one batch request, and how many rows it carries."""

    body: bytes
    row_count: int


def plain_rows(rows: pa.RecordBatch, topics: pa.Array) -> Flags:
    """Say which rows can be encoded together with others.

    Not those without a body or a topic, those with large bodies, which are compressed one by one, delayed ones,
    those that name their queue, and those with a number or a topic that is to be refused.
    """
    body = rows.column("body")
    plain = pc.and_(pc.is_valid(body), pc.is_valid(topics))
    plain = pc.and_(plain, pc.fill_null(pc.less_equal(pc.binary_length(body), COMPRESS_OVER), False))
    found = np.array(plain.to_numpy(zero_copy_only=False))
    for name in {"delayLevel", "delayMs"}.intersection(rows.schema.names):
        found &= _numbers(rows.column(name)) == 0
    for name in {"deliverAt", "queue"}.intersection(rows.schema.names):
        found &= rows.column(name).is_null().to_numpy(zero_copy_only=False)
    if "flag" in rows.schema.names:
        flags = _numbers(rows.column("flag"))
        found &= (flags >= -FLAG_LIMIT) & (flags < FLAG_LIMIT)
    for topic in pc.unique(topics).to_pylist():
        if topic is not None and not _is_plain_topic(topic):
            found &= pc.fill_null(pc.not_equal(topics, topic), False).to_numpy(zero_copy_only=False)
    return found


class RowEncoder:
    """Encodes rows that are plain.

    Args:
        options: whether rows get ids.
        row_id_prefix: the row ids are `row_id_prefix/row number`.
        message_ids: makes the messages' ids.
    """

    def __init__(self, options: WriteOptions, row_id_prefix: str, message_ids: UniqueKeys) -> None:
        self._row_id_start = f"{ROW_ID}{NAME_VALUE_SEPARATOR}{row_id_prefix}/".encode() if options.row_ids else None
        self._message_ids = message_ids
        self._replaced = SYSTEM_PROPERTIES | ({ROW_ID} if options.row_ids else set())

    def encode(self, rows: pa.RecordBatch, first_row: int, now_ms: int) -> EncodedRows | None:
        """Return plain rows as items of batches; None when one of them has to be looked at by itself.

        Args:
            rows: at most 65,536.
            first_row: the first one's number.
            now_ms: goes into the messages' ids.
        """
        prefix, first_id = self._message_ids.reserve(now_ms, rows.num_rows)
        tail = _tail(prefix, first_id, rows.num_rows)
        properties = self._properties(rows, first_row, tail)
        if properties is None:
            return None
        body = rows.column("body").cast(_BINARY)
        body_sizes, properties_sizes = _sizes(body), _sizes(properties)
        if properties_sizes.max(initial=0) > PROPERTIES_SIZE_MAX:
            return None
        heads = np.zeros(rows.num_rows, _HEAD)
        heads["size"] = ITEM_SIZE_MIN + body_sizes + properties_sizes
        heads["body_size"] = body_sizes
        if "flag" in rows.schema.names:
            heads["flag"] = _numbers(rows.column("flag"))
        lengths = _fixed(properties_sizes.astype(">u2").view(np.uint8).reshape(-1, 2))
        head = _fixed(heads.view(np.uint8).reshape(-1, _HEAD.itemsize))
        return EncodedRows(_join(head, body, lengths, properties), f"{prefix}{first_id:04X}")

    def _properties(self, rows: pa.RecordBatch, first_row: int, tail: pa.Array) -> pa.Array | None:
        count = rows.num_rows
        pairs = _Pairs.of(rows.column("properties")) if "properties" in rows.schema.names else None
        parts: list[pa.Array] = []
        pair_count = 2 * count
        if pairs is not None:
            if pairs.have_any(_TIMER_PROPERTIES):
                return None
            own, own_count = pairs.encoded_without(self._replaced)
            parts.append(own)
            pair_count += own_count
        if self._row_id_start is not None:
            numbers = pa.array(np.arange(first_row, first_row + count)).cast(pa.string()).cast(_BINARY)
            parts.append(_join(_scalar(self._row_id_start), numbers, _scalar(_VALUE_END)))
            pair_count += count
        keys = _keys(rows, pairs)
        tags = _column(rows, "tags", pairs, PropertyName.TAGS)
        if keys is None or pc.any(pc.match_substring(tags, "||")).as_py():
            return None
        sharding_keys = _column(rows, "shardingKey", pairs, PropertyName.SHARDING_KEY)
        for name, values in ((PropertyName.KEYS, keys), (PropertyName.TAGS, tags)):
            parts.append(_named(name, pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)))
        parts.append(_named(PropertyName.SHARDING_KEY, sharding_keys))
        pair_count += sum(count - part.null_count for part in parts[-3:])
        encoded = _join(*(part for part in parts if part.null_count < count), tail, nulls="replace")
        return encoded if _is_valid(encoded, pair_count) else None


def sharding_keys(rows: pa.RecordBatch) -> pa.Array | None:
    """Return the key by which each row's queue is chosen, null for rows that may go anywhere; None when all may."""
    pairs = _Pairs.of(rows.column("properties")) if "properties" in rows.schema.names else None
    found = _column(rows, "shardingKey", pairs, PropertyName.SHARDING_KEY)
    return None if found.null_count == len(found) else found


def cut(items: pa.Array, count_max: int, size_max: int) -> Iterator[BatchBody]:
    """Cut encoded rows into runs of at most so many rows and bytes, one row at least."""
    _, offsets, data = items.buffers()
    ends = np.frombuffer(offsets, np.int32)[items.offset :][: len(items) + 1]
    start = 0
    while start < len(items):
        fitting = int(np.searchsorted(ends, int(ends[start]) + size_max, side="right")) - 1
        end = min(max(start + 1, fitting), start + count_max, len(items))
        yield BatchBody(data[int(ends[start]) : int(ends[end])].to_pybytes(), end - start)
        start = end


@dataclass(frozen=True)
class _Pairs:
    """The name-value pairs of a map column that have a value; `rows` says whose each of them is."""

    row_count: int
    rows: Positions
    names: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, column: pa.MapArray) -> _Pairs:
        offsets = column.offsets.to_numpy()
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(column)), np.diff(offsets))
        start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        names = column.keys.slice(start, size).cast(pa.string())
        values = column.items.slice(start, size).cast(pa.string())
        has_value = pc.fill_null(pc.greater(pc.binary_length(values), 0), False).to_numpy(zero_copy_only=False)
        kept = has_value & ~is_null[rows]
        if not kept.all():
            wanted = pa.array(kept)
            names, values, rows = names.filter(wanted), values.filter(wanted), rows[kept]
        return cls(len(column), rows, names, values)

    def have_any(self, names: frozenset[str]) -> bool:
        return bool(_is_in(self.names, names).any())

    def encoded_without(self, names: frozenset[str] | set[str]) -> tuple[pa.Array, int]:
        """Return each row's encoded pairs but those of `names`, and how many pairs these are."""
        kept = ~_is_in(self.names, names)
        pairs = _join(
            self.names.filter(pa.array(kept)),
            _scalar(_NAME_END),
            self.values.filter(pa.array(kept)),
            _scalar(_VALUE_END),
        )
        ends = np.cumsum(np.bincount(self.rows[kept], minlength=self.row_count))
        bounds = np.concatenate(([0], ends))
        _, offsets, data = pairs.buffers()
        # The pairs of a row lie side by side: fewer boundaries make one text of them.
        starts = np.frombuffer(offsets, np.int32)[bounds] if len(pairs) else np.zeros(self.row_count + 1, np.int32)
        buffers = [None, pa.py_buffer(starts.astype(np.int32)), data if len(pairs) else pa.py_buffer(b"")]
        return pa.Array.from_buffers(_BINARY, self.row_count, buffers), len(pairs)

    def of_name(self, name: str) -> pa.Array:
        """Return each row's value of one name, null where it has none."""
        wanted = np.flatnonzero(_is_in(self.names, {name}))
        at = np.full(self.row_count, -1)
        at[self.rows[wanted]] = wanted
        return self.values.take(pa.array(at, mask=at < 0))


def _is_plain_topic(topic: str) -> bool:
    try:
        return not check_name("topic", topic).startswith(RETRY_PREFIX)
    except InvalidArgument:
        return False


def _column(rows: pa.RecordBatch, column: str, pairs: _Pairs | None, name: str) -> pa.Array:
    """Return a column's text; the property of that meaning where a row has none."""
    found = (
        rows.column(column).cast(pa.string()) if column in rows.schema.names else pa.nulls(rows.num_rows, pa.string())
    )
    return found if pairs is None or not found.null_count else pc.coalesce(found, pairs.of_name(name))


def _keys(rows: pa.RecordBatch, pairs: _Pairs | None) -> pa.Array | None:
    """Return each row's keys, split by single blanks; None when a list has what is not a key."""
    nothing = pa.nulls(rows.num_rows, pa.string())
    found = rows.column("keys") if "keys" in rows.schema.names else nothing
    if pa.types.is_list(found.type) or pa.types.is_large_list(found.type):
        lists, found = found.cast(pa.list_(pa.string())), nothing  # Spark may say of entries that none is null
        each = lists.flatten()
        is_key = pc.and_(pc.greater(pc.binary_length(each), 0), pc.invert(pc.match_substring(each, " ")))
        if not pc.all(pc.fill_null(is_key, False), min_count=0).as_py():
            return None
        joined = pc.binary_join(lists, " ").cast(pa.string())
    else:
        joined = nothing
    if pairs is not None:
        found = pc.coalesce(found.cast(pa.string()), pairs.of_name(PropertyName.KEYS))
    single = pc.replace_substring_regex(pc.utf8_trim(found.cast(pa.string()), " "), pattern=" +", replacement=" ")
    return pc.coalesce(joined, single)


def _tail(prefix: str, first: int, count: int) -> pa.Array:
    """Return what ends each row's properties: its id, and that its answer waits for the broker's promise."""
    start = f"{PropertyName.UNIQ_KEY}{NAME_VALUE_SEPARATOR}{prefix}".encode()
    end = f"{PROPERTY_SEPARATOR}{PropertyName.WAIT}{NAME_VALUE_SEPARATOR}true{PROPERTY_SEPARATOR}".encode()
    text = np.tile(np.frombuffer(start + b"0000" + end, np.uint8), (count, 1))
    numbers = np.arange(first, first + count)
    for digit in range(4):
        text[:, len(start) + digit] = _HEX[(numbers >> 4 * (3 - digit)) & 0xF]
    return _fixed(text)


def _is_valid(encoded: pa.Array, pair_count: int) -> bool:
    """Return True if names and values have no separators inside them, and are UTF-8."""
    _, offsets, data = encoded.buffers()
    ends = np.frombuffer(offsets, np.int32)
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[len(encoded)]]
    if any(np.count_nonzero(text == mark[0]) != pair_count for mark in (_NAME_END, _VALUE_END)):
        return False
    try:
        encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _named(name: str, values: pa.Array) -> pa.Array:
    """Return values as pairs under one name; null stays null."""
    return _join(_scalar(name.encode() + _NAME_END), values, _scalar(_VALUE_END))


def _join(*parts: Any, nulls: str = "emit_null") -> pa.Array:
    """Join the parts of each row."""
    cast = [part if isinstance(part, pa.Scalar) else part.cast(_BINARY) for part in parts]
    return pc.binary_join_element_wise(*cast, _scalar(b""), null_handling=nulls, null_replacement="")


def _scalar(value: bytes) -> pa.Scalar:
    return pa.scalar(value, _BINARY)


def _fixed(values: npt.NDArray[np.uint8]) -> pa.Array:
    """Return rows of equally many bytes as Arrow's binaries."""
    count, size = values.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(_BINARY, count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _sizes(column: pa.Array) -> Positions:
    return np.asarray(pc.binary_length(column).to_numpy(), np.int64)


def _numbers(column: pa.Array) -> Positions:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), np.int64)


def _is_in(names: pa.Array, wanted: frozenset[str] | set[str]) -> Flags:
    return np.asarray(pc.is_in(names, pa.array(sorted(wanted), pa.string())).to_numpy(zero_copy_only=False), np.bool_)
