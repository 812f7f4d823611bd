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
_KEY_SIZE = 8
"""Bytes of a name that are compared as one number."""
_KEY_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_KEY_SIZE + 1)], np.uint64)
"""What is the name's own of so many bytes from its start on, by its size."""
_PAIRS_MAX = 16
"""Pairs in each row up to which every two of a row are compared; beyond it, there are too many."""


@dataclass(frozen=True)
class Properties:
    """All name-value pairs of many records, in order, no name twice in a record.

    Those of record n are from `bounds[n]` to `bounds[n + 1]`; `rows` says of each pair whose it is. Names lie in `raw`, from
    `starts` to `separators`; `keys` are their first bytes.
    """

    raw: pa.Buffer
    bounds: Positions
    rows: Positions
    starts: Positions
    separators: Positions
    keys: npt.NDArray[Any]
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
        starts, separators, ends = _pairs(data, offsets)
        is_whole = (separators > starts) & (separators < ends - 1)
        if not is_whole.all():
            starts, separators, ends = starts[is_whole], separators[is_whole], ends[is_whole]
        bounds = np.searchsorted(starts, offsets)
        counts = np.diff(bounds)
        rows = np.repeat(np.arange(len(counts)), counts)
        keys = _keys(data, starts, separators)
        # Names hardly ever repeat in a row: their keys show that without looking at the names.
        count_max = int(counts.max(initial=0))
        if count_max > _PAIRS_MAX or any(_repeats(keys, rows, step) for step in range(1, count_max)):
            last = _last_of_each(rows, gather_slices(raw, starts, separators, pa.string()))
            starts, separators, ends = starts[last], separators[last], ends[last]
            bounds, rows, keys = np.searchsorted(last, bounds), rows[last], keys[last]
        values = gather_slices(raw, separators + 1, ends, pa.string())
        return cls(raw, bounds, rows, starts, separators, keys, values)

    def as_map(self) -> pa.Array:
        """Return one map per record."""
        bounds = to_arrow(self.bounds.astype(np.int32), pa.int32())
        names = gather_slices(self.raw, self.starts, self.separators, pa.string())
        return pa.MapArray.from_arrays(bounds, names, self.values, PROPERTIES)

    def find(self, name: str) -> pa.Array:
        """Return each record's value of the property `name`, null where a record has none."""
        row_count = len(self.bounds) - 1
        found = self._named(name.encode())
        if not len(found):
            return pa.nulls(row_count, pa.string())
        if len(found) == row_count:  # at most one per row
            return self.values.take(to_arrow(found, pa.int64()))
        positions, is_missing = np.zeros(row_count, np.int64), np.ones(row_count, np.bool_)
        positions[self.rows[found]] = found
        is_missing[self.rows[found]] = False
        # One `take` both copies the values and puts a null where its index is null.
        return self.values.take(to_arrow(positions, pa.int64(), is_missing))

    def _named(self, name: bytes) -> Positions:
        """Return which pairs have the name."""
        found: Positions = np.flatnonzero(self.keys == np.uint64(int.from_bytes(name[:_KEY_SIZE], "little")))
        found = found[self.separators[found] - self.starts[found] == len(name)]
        if len(name) > _KEY_SIZE:
            spelled = gather_bytes(np.frombuffer(self.raw, np.uint8), self.starts[found], len(name))
            found = found[(spelled == np.frombuffer(name, np.uint8)).all(axis=1)]
        return found


def _pairs(data: Bytes, offsets: npt.NDArray[Any]) -> tuple[Positions, Positions, Positions]:
    """Return where pairs start, where the first 0x01 at or after that lies, and where they end.

    They end at separators, and at the end of a row that lacks its last one. The end of the data stands for a 0x01 that is
    missing.
    """
    marks = np.flatnonzero(data <= _PROPERTY_SEPARATOR)
    kinds = data[marks]
    # Rows that are not empty end behind their last byte; those where that byte is not a separator have an open pair.
    row_ends = offsets[1:][offsets[1:] > offsets[:-1]]
    open_ends = row_ends[data[row_ends - 1] != _PROPERTY_SEPARATOR]
    if (
        not len(open_ends)
        and (kinds[::2] == _NAME_VALUE_SEPARATOR).all()
        and (kinds[1::2] == _PROPERTY_SEPARATOR).all()
    ):
        # Nearly always: each pair has one 0x01, and starts behind the separator before it, across rows as well.
        separators, ends = marks[::2], marks[1::2]
        return np.concatenate(([0], ends[:-1] + 1))[: len(ends)], separators, ends
    ends = marks[kinds == _PROPERTY_SEPARATOR]
    if not len(open_ends):
        starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    else:
        # A row may end open just where the next one begins with a separator: the ends are equal then, the open one is first.
        both = np.concatenate((open_ends, ends))
        order = np.argsort(both, kind="stable")
        next_starts = np.concatenate((open_ends, ends + 1))[order]
        starts, ends = np.concatenate(([0], next_starts[:-1])), both[order]
    # The end of the data stands behind all of them, so that the search below always finds an entry.
    separators = np.append(marks[kinds == _NAME_VALUE_SEPARATOR], len(data))
    return starts, separators[np.searchsorted(separators, starts)], ends


def _keys(data: Bytes, starts: Positions, separators: Positions) -> npt.NDArray[Any]:
    """Return the first bytes of each name as one number, little-endian, zeros behind a short one."""
    if len(starts) and starts[-1] + _KEY_SIZE > len(data):
        data = np.concatenate((data, np.zeros(_KEY_SIZE, np.uint8)))
    keys: npt.NDArray[Any] = gather_bytes(data, starts, _KEY_SIZE).view("<u8").reshape(-1)
    keys &= _KEY_MASKS[np.minimum(separators - starts, _KEY_SIZE)]
    return keys


def _repeats(keys: npt.NDArray[Any], rows: Positions, step: int) -> bool:
    """Return True if two pairs of a row that are `step` apart have the same key."""
    same = np.flatnonzero(keys[step:] == keys[:-step])
    return bool((rows[same] == rows[same + step]).any())


def _last_of_each(rows: Positions, names: pa.Array) -> Positions:
    """Return which pairs are the last of their name in their row, in order."""
    encoded = names.dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(names)]
    cells = rows * len(encoded.dictionary) + codes  # one number for each pair of row and name
    # `unique` reports the first entry of each value: in the reversed cells that is the last one.
    _, from_end = np.unique(cells[::-1], return_index=True)
    return np.sort(len(cells) - 1 - from_end)


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
