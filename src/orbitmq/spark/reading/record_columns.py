"""Columns of many records at the same time: properties as Arrow maps, hosts, offset message ids. Pure.

The separators are ASCII, so text that is valid UTF-8 stays valid when it is cut at them.

Source: docs/formats/commit_log.md, orbitmq.wire.messages.properties for one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.model.message import Host
from orbitmq.spark.gather import (
    Bytes,
    Flags,
    Positions,
    gather_bytes,
    gather_slices,
    repeat_text,
    to_arrow,
    to_text,
    to_texts,
)
from orbitmq.spark.schema import PROPERTIES
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from orbitmq.wire.messages.record import HOST_SIZE_V4, HOST_SIZE_V6, parse_host

_NAME_VALUE_SEPARATOR = ord(NAME_VALUE_SEPARATOR)
_PROPERTY_SEPARATOR = ord(PROPERTY_SEPARATOR)
_CELLS_MAX = 1 << 23
"""Rows times names up to which equal names in one row are found by counting; beyond it, the table would be too large."""


@dataclass(frozen=True)
class Properties:
    """All name-value pairs of many records, in order.

    Those of record n are from `bounds[n]` to `bounds[n + 1]`; `rows` says of each pair whose it is. `name_codes` are the
    places of the names in `distinct_names`.
    """

    bounds: Positions
    rows: Positions
    names: pa.Array
    distinct_names: list[str]
    name_codes: npt.NDArray[Any]
    values: pa.Array

    @classmethod
    def parse(cls, encoded: pa.Array) -> Properties:
        """Parse the encoded properties of many records.

        Pairs without a name or a value are left out, a missing last separator is forgiven, of equal names in a record the
        last wins: as RocketMQ reads them.
        """
        strings = to_text(encoded)
        # Arrow keeps all strings back to back, with one table of where each starts: all rows are searched as one text.
        # The table may be longer than needed, and is missing without rows; the text is missing when all rows are empty.
        table = strings.buffers()[1] if len(strings) else bytes(4)
        offsets = np.frombuffer(table, np.int32)[: len(strings) + 1]
        raw = strings.buffers()[2] or pa.py_buffer(b"")
        data = np.frombuffer(raw, np.uint8)[: offsets[-1]]
        starts, ends = _pair_bounds(data, offsets)
        separators = _first_separators(data, starts, ends)
        is_whole = (separators > starts) & (separators < ends - 1)
        if not is_whole.all():
            starts, separators, ends = starts[is_whole], separators[is_whole], ends[is_whole]
        bounds = np.searchsorted(starts, offsets)
        names = gather_slices(raw, starts, separators, pa.string())
        values = gather_slices(raw, separators + 1, ends, pa.string())
        return cls._distinct(bounds, names, values)

    @classmethod
    def _distinct(cls, bounds: Positions, names: pa.Array, values: pa.Array) -> Properties:
        """Keep the last of equal names in a row: an Arrow map must not hold a key twice."""
        encoded = names.dictionary_encode()
        name_count = len(encoded.dictionary)
        codes = np.frombuffer(encoded.indices.buffers()[1] or b"", np.int32)[: len(names)]
        row_count = len(bounds) - 1
        rows = np.repeat(np.arange(row_count), np.diff(bounds))
        cells = rows * name_count + codes  # one number for each pair of row and name
        last = _last_of_each(cells, row_count * name_count)
        if last is not None:
            rows, codes = rows[last], codes[last]
            kept = to_arrow(last, pa.int64())
            names, values = names.take(kept), values.take(kept)
            bounds = np.searchsorted(last, bounds)
        return cls(bounds, rows, names, encoded.dictionary.to_pylist(), codes, values)

    def as_map(self) -> pa.Array:
        """Return one map per record."""
        bounds = to_arrow(self.bounds.astype(np.int32), pa.int32())
        return pa.MapArray.from_arrays(bounds, self.names, self.values, PROPERTIES)

    def find(self, name: str) -> pa.Array:
        """Return each record's value of the property `name`, null where a record has none."""
        row_count = len(self.bounds) - 1
        code = self.distinct_names.index(name) if name in self.distinct_names else -1
        found = np.flatnonzero(self.name_codes == code)
        if not len(found):
            return pa.nulls(row_count, pa.string())
        if len(found) == row_count:  # at most one per row, since equal names were left out
            return self.values.take(to_arrow(found, pa.int64()))
        positions, is_missing = np.zeros(row_count, np.int64), np.ones(row_count, np.bool_)
        positions[self.rows[found]] = found
        is_missing[self.rows[found]] = False
        # One `take` both copies the values and puts a null where its index is null.
        return self.values.take(to_arrow(positions, pa.int64(), is_missing))


def _pair_bounds(data: Bytes, offsets: npt.NDArray[Any]) -> tuple[Positions, Positions]:
    """Return where pairs start and end: at separators, and at the end of a row that lacks its last one."""
    ends = np.flatnonzero(data == _PROPERTY_SEPARATOR)
    # Rows that are not empty end behind their last byte; those where that byte is no separator have an open pair.
    row_ends = offsets[1:][offsets[1:] > offsets[:-1]]
    open_ends = row_ends[data[row_ends - 1] != _PROPERTY_SEPARATOR]
    if not len(open_ends):
        # Nearly always: each pair starts behind the separator before it, across rows as well.
        return np.concatenate(([0], ends[:-1] + 1))[: len(ends)], ends
    # A row may end open just where the next one begins with a separator: the ends are equal then, the open one is first.
    both = np.concatenate((open_ends, ends))
    order = np.argsort(both, kind="stable")
    next_starts = np.concatenate((open_ends, ends + 1))[order]
    return np.concatenate(([0], next_starts[:-1])), both[order]


def _first_separators(data: Bytes, starts: Positions, ends: Positions) -> Positions:
    """Return where the first 0x01 lies at or after each start; the end of the data where there is none."""
    separators = np.flatnonzero(data == _NAME_VALUE_SEPARATOR)
    if len(separators) == len(starts) and ((separators >= starts) & (separators < ends)).all():
        return separators  # nearly always: each pair has one
    # The end of the data stands behind all of them, so that the search below always finds an entry.
    separators = np.append(separators, len(data))
    return separators[np.searchsorted(separators, starts)]


def _last_of_each(cells: Positions, cell_count: int) -> Positions | None:
    """Return the index of the last entry of each distinct cell, in order; None when no cell repeats."""
    if not len(cells):
        return None
    # Names hardly ever repeat in a row: counting shows that without sorting.
    if cell_count <= _CELLS_MAX and np.bincount(cells).max() == 1:
        return None
    # `unique` reports the first entry of each value: in the reversed cells that is the last one.
    _, from_end = np.unique(cells[::-1], return_index=True)
    return None if len(from_end) == len(cells) else np.sort(len(cells) - 1 - from_end)


_HEX = np.frombuffer("".join(f"{value:02X}" for value in range(256)).encode(), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of each byte."""


def format_hosts(packed: npt.NDArray[Any]) -> pa.Array:
    """Return `ip:port` of IPv4 hosts, the 8 bytes of each as one integer."""
    packed = packed.astype(np.uint64)
    if len(packed) and (packed == packed[0]).all():
        return repeat_text(_format_packed(int(packed[0])), len(packed))
    hosts = to_arrow(packed, pa.uint64()).dictionary_encode()
    return to_texts([_format_packed(host) for host in hosts.dictionary.to_pylist()]).take(hosts.indices)


def format_mixed_hosts(data: Bytes, positions: Positions, is_v6: Flags) -> pa.Array:
    """Return `ip:port` of the hosts at `positions`, IPv6 some of them."""
    return to_texts([str(host) for host in _parse_hosts(data, positions, is_v6)])


def format_offset_ids(data: Bytes, positions: Positions, is_v6: Flags, physical_offsets: npt.NDArray[Any]) -> pa.Array:
    """Return the offset message ids of the store hosts at `positions` and the records' physical offsets."""
    if is_v6.any():
        hosts = _parse_hosts(data, positions, is_v6)
        ids = [offset_message_id(host, offset) for host, offset in zip(hosts, physical_offsets.tolist(), strict=True)]
        return to_texts(ids)
    # An id is host and offset in hexadecimal digits, all ids are equally long: the digits of all rows are looked up at
    # once, and lie back to back as Arrow wants its strings.
    offsets = np.ascontiguousarray(physical_offsets.astype(">i8"))
    packed = (gather_bytes(data, positions, HOST_SIZE_V4), offsets.view(np.uint8).reshape(-1, offsets.itemsize))
    digits = np.ascontiguousarray(_HEX[np.concatenate(packed, axis=1)])
    bounds = np.arange(0, digits.size + 1, 2 * (HOST_SIZE_V4 + offsets.itemsize), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(positions), [None, pa.py_buffer(bounds), pa.py_buffer(digits)])


def _parse_hosts(data: Bytes, positions: Positions, is_v6: Flags) -> list[Host]:
    sizes = np.where(is_v6, HOST_SIZE_V6, HOST_SIZE_V4).tolist()
    return [parse_host(data[at : at + size].tobytes()) for at, size in zip(positions.tolist(), sizes, strict=True)]


def _format_packed(host: int) -> str:
    return str(parse_host(host.to_bytes(HOST_SIZE_V4, "big")))
