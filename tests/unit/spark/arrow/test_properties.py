"""Properties of many records are those that `orbitmq.wire.messages.properties` reads one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.spark.arrow import properties as module
from orbitmq.spark.arrow.properties import Properties
from orbitmq.spark.schema import PROPERTIES
from orbitmq.wire.messages.properties import parse_properties

pieces = st.sampled_from(["a", "b", "TAGS", "\x01", "\x02", "v", "é"])
rows = st.lists(st.lists(pieces, max_size=10).map("".join), max_size=8)


def parse(texts: list[str]) -> Properties:
    return Properties.parse(pa.array([text.encode() for text in texts], pa.binary()))


@given(rows)
@example([])
@example(["a\x01v", "\x02a\x01v"])
@example(["", "a\x01v\x02", ""])
def test_maps_and_values_are_read_as_one_by_one(texts):
    found = parse(texts)
    expected = [parse_properties(text) for text in texts]

    maps = found.as_map()
    maps.validate(full=True)
    assert maps.type == PROPERTIES
    assert [dict(pairs) for pairs in maps.to_pylist()] == expected
    for name in ("a", "TAGS", "nobody"):
        assert found.find(name).to_pylist() == [row.get(name) for row in expected]


@pytest.mark.parametrize("cells_max", [0, 1 << 23])
def test_of_equal_names_in_one_record_the_last_wins(cells_max, monkeypatch):
    monkeypatch.setattr(module, "_CELLS_MAX", cells_max)

    found = parse(["a\x01one\x02b\x01x\x02a\x01two\x02", "a\x01three\x02"])

    assert found.as_map().to_pylist() == [[("b", "x"), ("a", "two")], [("a", "three")]]
    assert found.find("a").to_pylist() == ["two", "three"]


@pytest.mark.parametrize("cells_max", [0, 1 << 23])
def test_records_without_equal_names_keep_all_their_pairs(cells_max, monkeypatch):
    monkeypatch.setattr(module, "_CELLS_MAX", cells_max)

    assert parse(["a\x011\x02b\x012", "b\x013"]).as_map().to_pylist() == [[("a", "1"), ("b", "2")], [("b", "3")]]


def test_text_that_is_no_utf_8_is_shown_with_replacement_characters():
    found = Properties.parse(pa.array([b"a\x01\xff\x02", b"a\x01ok\x02"]))

    assert found.find("a").to_pylist() == ["\ufffd", "ok"]
