"""Gathers: many parts of one byte string in one pass, without a Python loop over them. Pure.

Arrays are made of numpy's and Python's values by their buffers: `pa.array` imports pandas first, where that is installed,
which is 150 ms of processor time in each of Spark's worker processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


def gather_fields(data: Bytes, positions: Positions, fields: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the fields that stand at each position, as one structured array."""
    return gather_bytes(data, positions, fields.itemsize).view(fields).reshape(-1)


def gather_bytes(data: Bytes, positions: Positions, size: int) -> Bytes:
    """Return the `size` bytes at each position, one row per position."""
    if not len(positions) or not size:  # of nothing, or of fewer than `size` bytes, no window can be made
        return np.empty((len(positions), size), np.uint8)
    # The array has a window at every byte and costs nothing; the index copies those that are wanted, each as one piece.
    # They are unaligned in `data`, and aligned, back to back, in the copy, so that it can be seen as an array of fields.
    windows = np.ndarray(len(data) - size + 1, np.dtype((np.void, size)), data, strides=(1,))
    return windows[positions].view(np.uint8).reshape(-1, size)


def gather_slices(raw: pa.Buffer, starts: Positions, ends: Positions, kind: pa.DataType | None = None) -> pa.Array:
    """Return the slices of `raw` between `starts` and `ends`; both ascend and do not overlap."""
    if not len(starts):
        return pa.nulls(0, kind or pa.binary())
    # Arrow's arrays of variable length have no gaps: entry n ends where entry n + 1 starts. An array over the raw bytes that
    # alternates "wanted, gap, wanted, gap" needs no copy; picking its even entries copies what is wanted, and only that.
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[::2], offsets[1::2] = starts, ends
    alternating = pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), raw])
    return alternating.take(to_arrow(np.arange(0, len(offsets), 2, dtype=np.int32), pa.int32()))


def to_arrow(values: npt.NDArray[Any], kind: pa.DataType, is_missing: Flags | None = None) -> pa.Array:
    """Return numbers that are as wide as those of `kind`, null where `is_missing`."""
    validity = None if is_missing is None else pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def to_texts(values: Sequence[str]) -> pa.Array:
    """Return strings as Arrow's."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def repeat_text(value: str, count: int) -> pa.Array:
    """Return the same string `count` times."""
    encoded = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)])


def to_text(encoded: pa.Array) -> pa.Array:
    """Return bytes as strings; what is no UTF-8 is shown with replacement characters, as Java shows it."""
    try:
        return encoded.cast(pa.string())  # checks all values in one pass
    except pa.ArrowInvalid:
        return to_texts([value.decode(errors="replace") for value in encoded.to_pylist()])
