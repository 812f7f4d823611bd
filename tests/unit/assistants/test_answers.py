"""Answers: whatever rows hold, the text is bounded and says what it left out."""

from __future__ import annotations

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.assistants.answers import (
    ITEMS_MAX,
    ROWS_MAX,
    SIZE_MAX,
    TEXT_LENGTH_MAX,
    Answer,
    Table,
    Untrusted,
    beginning,
    encode,
    fit,
    page,
    paged,
    time_text,
    wire_size,
)


def size_on_the_wire(text: str) -> int:
    return len(orjson.dumps(text))


def rows(count: int, text: str = "x") -> list[dict[str, Any]]:
    return [{"number": number, "text": text} for number in range(count)]


def test_an_answer_that_fits_is_whole() -> None:
    document = json.loads(encode(Answer({"topic": "orders"}, {"queues": page(rows(3), 0, 100)})))
    assert document == {"topic": "orders", "queues": rows(3), "total": {"queues": 3}, "cut": False}


def test_a_page_says_how_many_rows_there_are_and_how_to_go_on() -> None:
    document = json.loads(encode(Answer({}, {"topics": page(rows(120), 50, 20)})))
    assert (document["cut"], document["total"], document["next_start"]) == (True, {"topics": 120}, 70)
    assert [row["number"] for row in document["topics"]] == list(range(50, 70))


def test_the_last_page_is_not_cut() -> None:
    document = json.loads(encode(Answer({}, {"topics": page(rows(60), 50, 20)})))
    assert document["cut"] is False
    assert "next_start" not in document


def test_rows_that_do_not_fit_are_left_out_and_the_next_ones_are_asked_for_where_they_begin() -> None:
    document = json.loads(encode(Answer({}, {"topics": page(rows(200, "y" * 390), 10, 190)})))
    assert document["cut"] is True
    assert 100 < len(document["topics"]) < 190
    assert document["next_start"] == 10 + len(document["topics"])


def test_a_table_never_has_more_rows_than_the_limit() -> None:
    document = json.loads(encode(Answer({}, {"steps": Table(rows(ROWS_MAX + 1), ROWS_MAX + 1)})))
    assert (len(document["steps"]), document["cut"]) == (ROWS_MAX, True)


def test_a_total_that_is_not_known_is_null_and_cut_says_that_there_may_be_more() -> None:
    document = json.loads(encode(Answer({}, {"messages": Table(rows(2), None, has_more=True)})))
    assert (document["total"], document["cut"]) == ({"messages": None}, True)


def test_one_large_table_leaves_room_for_the_others() -> None:
    tables = {"first": paged(rows(200, "y" * 390), 200, 0), "second": paged(rows(10), 10, 0)}
    assert len(json.loads(encode(Answer({}, tables)))["second"]) == 10


def test_long_texts_and_collections_are_shortened_and_the_answer_says_so() -> None:
    long = {"text": "x" * (TEXT_LENGTH_MAX + 1), "many": list(range(ITEMS_MAX + 1)), "set": {"b", "a"}}
    document = json.loads(encode(Answer({}, {"rows": Table([long], 1)})))
    (row,) = document["rows"]
    assert row == {"text": "x" * TEXT_LENGTH_MAX + "…", "many": list(range(ITEMS_MAX)), "set": ["a", "b"]}
    assert document["cut"] is True


def test_a_text_that_a_client_chose_is_shorter_and_the_answer_says_that_it_is_cut() -> None:
    row = {"content": Untrusted(tag=beginning("x" * 300), pairs={"a": "y" * 300})}
    document = json.loads(encode(Answer({}, {"rows": Table([row], 1)})))
    content = {"is_untrusted": True, "tag": "x" * 256 + "…", "pairs": {"a": "y" * 256 + "…"}}
    assert document["rows"] == [{"content": content}]
    assert document["cut"] is True


texts = st.text(max_size=2_000) | st.sampled_from(['"\\' * 900, "\0" * 900, "\ud800" * 900, "漢" * 900])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=4,
)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=40),
    st.integers(1, 10),
    st.dictionaries(st.sampled_from(["problem", "topic"]), texts),
)
def test_no_answer_is_larger_than_the_limit(found: list[dict[str, Any]], times: int, named: dict[str, str]) -> None:
    many = found * times
    text = encode(Answer(named, {"rows": page(many, 0, len(many) or 1), "others": Table(found, None)}))
    assert size_on_the_wire(text) <= SIZE_MAX
    document = json.loads(text)
    assert document["cut"] or len(document["rows"]) == len(many)


@given(texts, st.integers(0, 3_000))
def test_a_text_is_cut_to_its_size_on_the_wire(text: str, size_max: int) -> None:
    shown = fit(text, size_max)
    assert wire_size(shown) - wire_size("") <= size_max
    assert text.encode("utf-8", "replace").decode().startswith(shown)


@each_case(
    (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
    (0, None),
    (None, None),
    (-1, None),
    (2**63 - 1, "9223372036854775807"),
)
def test_a_time_is_written_in_utc(at_ms: int | None, text: str | None) -> None:
    assert time_text(at_ms) == text
