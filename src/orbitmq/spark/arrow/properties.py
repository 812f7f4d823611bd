"""Properties of many records at once: encoded name-value pairs to Arrow maps and columns. Pure.

The separators are ASCII, so text that is valid UTF-8 stays valid when it is cut at them.

Source: docs/formats/commit_log.md, orbitmq.wire.messages.properties for one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.spark.arrow.gather import Bytes, Positions, gather_slices, to_text
from orbitmq.spark.schema import PROPERTIES
from orbitmq.wire.messages.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

_NAME_VALUE_SEPARATOR = ord(NAME_VALUE_SEPARATOR)
_PROPERTY_SEPARATOR = ord(PROPERTY_SEPARATOR)
_CELLS_MAX = 1 << 23
"""Rows times names up to which equal names in one row are found by counting; beyond it, the table would be too large."""


@dataclass(frozen=True)
class Properties:
    """All name-value pairs of `row_count` records, in order.

    One entry per pair: `rows` says whose it is; `name_codes` are equal where names are equal.
    """

    row_count: int
    rows: Positions
    names: pa.Array
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
        separators = _first_separators(data, starts)
        is_whole = (separators > starts) & (separators < ends - 1)
        if not is_whole.all():
            starts, separators, ends = starts[is_whole], separators[is_whole], ends[is_whole]
        rows = np.searchsorted(offsets, starts, side="right") - 1
        names = gather_slices(raw, starts, separators, pa.string())
        values = gather_slices(raw, separators + 1, ends, pa.string())
        return cls._distinct(len(strings), rows, names, values)

    @classmethod
    def _distinct(cls, row_count: int, rows: Positions, names: pa.Array, values: pa.Array) -> Properties:
        """Keep the last of equal names in a row: an Arrow map must not hold a key twice."""
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        cells = rows * len(encoded.dictionary) + codes  # one number for each pair of row and name
        last = _last_of_each(cells, row_count * len(encoded.dictionary))
        if last is not None:
            rows, codes = rows[last], codes[last]
            names, values = names.take(pa.array(last)), values.take(pa.array(last))
        return cls(row_count, rows, names, codes, values)

    def as_map(self) -> pa.Array:
        """Return one map per record."""
        counts = np.bincount(self.rows, minlength=self.row_count)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), self.names, self.values, PROPERTIES)

    def find(self, name: str) -> pa.Array:
        """Return each record's value of the property `name`, null where a record has none."""
        positions, is_missing = np.zeros(self.row_count, np.int64), np.ones(self.row_count, np.bool_)
        code = self._codes.get(name)
        if code is not None:
            found = np.flatnonzero(self.name_codes == code)
            positions[self.rows[found]] = found  # at most one per row, since equal names were left out
            is_missing[self.rows[found]] = False
        # One `take` both copies the values and puts a null where its index is null.
        return self.values.take(pa.array(positions, mask=is_missing))

    @cached_property
    def _codes(self) -> dict[str, int]:
        codes, first = np.unique(self.name_codes, return_index=True)
        return dict(zip(self.names.take(pa.array(first)).to_pylist(), codes.tolist(), strict=True))


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


def _first_separators(data: Bytes, starts: Positions) -> Positions:
    """Return where the first 0x01 lies at or after each start; the end of the data where there is none."""
    # The end of the data stands behind all of them, so that the search below always finds an entry.
    separators = np.append(np.flatnonzero(data == _NAME_VALUE_SEPARATOR), len(data))
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
