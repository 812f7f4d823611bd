"""Parts of a byte string are gathered where they are asked for, however many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.spark.gather import (
    gather_bytes,
    gather_fields,
    gather_slices,
    repeat_text,
    to_arrow,
    to_text,
    to_texts,
)

FIELDS = np.dtype([("big", ">i4"), ("small", "u1")])


def positions(*values: int):
    return np.array(values, np.int64)


@given(st.binary(min_size=8, max_size=60), st.data())
def test_bytes_are_those_at_the_positions(raw, data):
    wanted = data.draw(st.lists(st.integers(0, len(raw) - 5), max_size=6))

    found = gather_bytes(np.frombuffer(raw, np.uint8), positions(*wanted), 5)

    assert [bytes(row) for row in found] == [raw[at : at + 5] for at in wanted]


def test_fields_are_read_at_odd_positions():
    data = np.frombuffer(b"\xff\x00\x00\x00\x07\x09\xff\xff\xff\xfe\x01", np.uint8)

    found = gather_fields(data, positions(1, 6), FIELDS)

    assert found.tolist() == [(7, 9), (-1 * 2, 1)]


def test_no_positions_need_no_bytes():
    nothing = np.empty(0, np.uint8)

    assert gather_bytes(nothing, positions(), 4).shape == (0, 4)
    assert gather_fields(nothing, positions(), FIELDS).tolist() == []
    assert gather_slices(pa.py_buffer(b""), positions(), positions()).type == pa.binary()
    assert gather_slices(pa.py_buffer(b""), positions(), positions(), pa.string()).type == pa.string()


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), min_size=1, max_size=6))
def test_slices_are_those_between_the_bounds(parts):
    raw, starts, ends = b"", [], []
    for gap, wanted in parts:
        starts.append(len(raw) + len(gap))
        raw += gap + wanted
        ends.append(len(raw))

    found = gather_slices(pa.py_buffer(raw), positions(*starts), positions(*ends))

    found.validate(full=True)
    assert found.to_pylist() == [wanted for _, wanted in parts]


def test_slices_may_be_text():
    found = gather_slices(pa.py_buffer(b"one,two"), positions(0, 4), positions(3, 7), pa.string())

    assert (found.type, found.to_pylist()) == (pa.string(), ["one", "two"])


def test_bytes_that_are_no_text_are_shown_with_replacement_characters():
    assert to_text(pa.array([b"ok", "ключ".encode()])).to_pylist() == ["ok", "ключ"]
    assert to_text(pa.array([b"ok", b"\xff!"])).to_pylist() == ["ok", "\ufffd!"]


def test_numbers_are_arrows_with_nulls_where_they_are_missing():
    numbers = np.arange(20, dtype=np.int64)[::2]
    is_missing = np.arange(10) % 3 == 0

    whole, holed = to_arrow(numbers, pa.int64()), to_arrow(numbers, pa.timestamp("us"), is_missing)

    holed.validate(full=True)
    assert whole.to_pylist() == list(range(0, 20, 2))
    assert holed.cast(pa.int64()).to_pylist() == [None if n % 3 == 0 else 2 * n for n in range(10)]


@given(st.lists(st.text(max_size=4), max_size=5))
def test_strings_are_arrows(texts):
    found = to_texts(texts)

    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (pa.string(), texts)


def test_a_string_is_repeated():
    assert repeat_text("é!", 3).to_pylist() == ["é!"] * 3
    assert repeat_text("é!", 0).to_pylist() == []
    assert repeat_text("", 2).to_pylist() == ["", ""]


def test_no_bytes_at_each_position_are_a_row_each() -> None:
    assert gather_bytes(np.zeros(3, np.uint8), np.array([0, 3]), 0).shape == (2, 0)
