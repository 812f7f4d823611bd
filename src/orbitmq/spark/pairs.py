"""Encoded message properties of many rows at once: `name 0x01 value 0x02 ...` to Arrow maps. Pure.

The separators are ASCII, so rows that are valid UTF-8 stay valid when they are cut at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.spark.schema import PROPERTIES

_NAME_VALUE_SEPARATOR = 1
_PROPERTY_SEPARATOR = 2
_CELLS_MAX = 1 << 23  # rows x names that are counted in a table instead of sorted

Positions = npt.NDArray[np.int64]


def slices(raw: pa.Buffer, starts: Positions, ends: Positions, kind: pa.DataType | None = None) -> pa.Array:
    """Return the slices of `raw` between `starts` and `ends`; both ascend and do not overlap.

    An Arrow array over the raw bytes alternates "wanted, gap, wanted, gap"; taking every second element copies.
    """
    if not len(starts):
        return pa.array([], kind or pa.binary())
    offsets = np.stack((starts, ends), axis=1).astype(np.int32).reshape(-1)
    alternating = pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), raw])
    return alternating.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def text(encoded: pa.Array) -> pa.Array:
    """Return bytes as strings; what is no UTF-8 is shown with replacement characters, as Java shows it."""
    try:
        return encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in encoded.to_pylist()], pa.string())


@dataclass(frozen=True)
class Pairs:
    """All name-value pairs of `row_count` rows, in order: `rows` says whose each pair is."""

    row_count: int
    rows: Positions
    names: pa.Array
    name_codes: npt.NDArray[Any]
    values: pa.Array

    @classmethod
    def parse(cls, encoded: pa.Array) -> Pairs:
        """Take the rows of encoded properties apart.

        Pairs without a name or a value are left out, a missing last separator is forgiven, of equal names in a row
        the last wins: as RocketMQ reads them.
        """
        strings = text(encoded)
        offsets = (
            np.frombuffer(strings.buffers()[1], np.int32)[: len(strings) + 1] if len(strings) else np.zeros(1, int)
        )
        raw = strings.buffers()[2] or pa.py_buffer(b"")
        data = np.frombuffer(raw, np.uint8)[: offsets[-1]]
        starts, ends = _pair_bounds(data, offsets)
        separators = _first_separators(data, starts)
        is_whole = (separators > starts) & (separators < ends - 1)
        if not is_whole.all():
            starts, separators, ends = starts[is_whole], separators[is_whole], ends[is_whole]
        rows = np.searchsorted(offsets, starts, side="right") - 1
        names = slices(raw, starts, separators, pa.string())
        values = slices(raw, separators + 1, ends, pa.string())
        return cls._distinct(len(strings), rows, names, values)

    @classmethod
    def _distinct(cls, row_count: int, rows: Positions, names: pa.Array, values: pa.Array) -> Pairs:
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        cells = rows * max(len(encoded.dictionary), 1) + codes
        last = _last_of_each(cells, row_count * len(encoded.dictionary))
        if last is not None:
            rows, codes = rows[last], codes[last]
            names, values = names.take(pa.array(last)), values.take(pa.array(last))
        return cls(row_count, rows, names, codes, values)

    def as_map(self) -> pa.Array:
        """Return one map per row."""
        counts = np.bincount(self.rows, minlength=self.row_count)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), self.names, self.values, PROPERTIES)

    def find(self, name: str) -> pa.Array:
        """Return each row's value of the property `name`, null where a row has none."""
        places = np.full(self.row_count, -1, np.int64)
        code = self._codes.get(name)
        if code is not None:
            found = np.flatnonzero(self.name_codes == code)
            places[self.rows[found]] = found
        return self.values.take(pa.array(places, mask=places < 0))

    @cached_property
    def _codes(self) -> dict[str, int]:
        codes, first = np.unique(self.name_codes, return_index=True)
        return dict(zip(self.names.take(pa.array(first)).to_pylist(), codes.tolist(), strict=True))


def _pair_bounds(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> tuple[Positions, Positions]:
    """Return where pairs start and end: at separators, and at the end of a row that lacks its last one."""
    ends = np.flatnonzero(data == _PROPERTY_SEPARATOR)
    row_ends = offsets[1:][offsets[1:] > offsets[:-1]]
    open_ends = row_ends[data[row_ends - 1] != _PROPERTY_SEPARATOR]
    if not len(open_ends):
        return np.concatenate(([0], ends[:-1] + 1))[: len(ends)], ends
    # A row may end open just where the next one begins with a separator: the ends are equal then, the open one is first.
    both = np.concatenate((open_ends, ends))
    order = np.argsort(both, kind="stable")
    next_starts = np.concatenate((open_ends, ends + 1))[order]
    return np.concatenate(([0], next_starts[:-1])), both[order]


def _first_separators(data: npt.NDArray[np.uint8], starts: Positions) -> Positions:
    """Return where the first 0x01 lies at or after each start; the end of the data where there is none."""
    separators = np.append(np.flatnonzero(data == _NAME_VALUE_SEPARATOR), len(data))
    return separators[np.searchsorted(separators, starts)]


def _last_of_each(cells: Positions, cell_count: int) -> Positions | None:
    """Return the places of the last entry of each distinct cell, in order; None when no cell repeats."""
    if not len(cells):
        return None
    if cell_count <= _CELLS_MAX and np.bincount(cells).max() == 1:
        return None
    _, from_end = np.unique(cells[::-1], return_index=True)
    return None if len(from_end) == len(cells) else np.sort(len(cells) - 1 - from_end)
