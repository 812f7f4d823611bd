"""The bytes of the index's files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store.index.layout import (
    HEADER,
    NO_ENTRIES,
    IndexHeader,
    IndexNote,
    IndexSizes,
    flaw_of,
    format_note,
    parse_header,
    parse_note,
)

SIZES = IndexSizes(10, 20)
GOOD = IndexHeader(begin_ms=1000, end_ms=2000, begin_offset=0, end_offset=500, used_slots=3, next_number=5)
NUMBERS = st.integers(-(2**62), 2**62)


def test_sizes_are_javas() -> None:
    assert IndexSizes().file_size == 420_000_040
    assert (SIZES.entries_at, SIZES.file_size) == (80, 480)


@pytest.mark.parametrize("count", [0, 1, -5])
def test_a_file_without_entries_begins_with_number_1(count: int) -> None:
    assert parse_header(HEADER.pack(0, 0, 0, 0, 0, count)) == NO_ENTRIES


def test_a_header_comes_back() -> None:
    assert parse_header(HEADER.pack(*GOOD)) == GOOD


def test_a_good_header_has_no_flaw() -> None:
    assert flaw_of(GOOD, SIZES, 0, 501) is None


@pytest.mark.parametrize(
    "change",
    [
        {"next_number": 21},
        {"used_slots": -1},
        {"used_slots": 5},
        {"next_number": 20, "used_slots": 11},
        {"begin_offset": 501},
        {"begin_offset": -1},
        {"next_number": 1, "used_slots": 0},
        {"end_offset": 501},
    ],
)
def test_a_header_that_cannot_be_has_a_flaw(change: dict[str, int]) -> None:
    assert flaw_of(GOOD._replace(**change), SIZES, 0, 501)


@given(st.text(), st.lists(NUMBERS, min_size=6, max_size=6), NUMBERS, st.booleans())
def test_a_note_comes_back(file: str, header: list[int], position: int, is_whole: bool) -> None:
    note = IndexNote(file, IndexHeader(*header), position, is_whole)
    if len(file) < 17:
        assert parse_note(format_note(note)) == note


def test_a_note_always_has_the_same_size_and_fits_into_a_sector() -> None:
    largest = IndexNote("9" * 17, IndexHeader(*[-(2**63)] * 6), -(2**63), False)
    assert len(format_note(largest)) == len(format_note(IndexNote("", NO_ENTRIES, 0, True))) <= 512


@given(st.binary(max_size=100))
def test_anything_else_is_no_note(content: bytes) -> None:
    assert parse_note(content) is None or content.strip().startswith(b"{")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"file": "a", "header": [1, 2], "position": 3, "whole": true}',
        b'{"file": "a", "header": [1, 2, 3, 4, 5, 6.5], "position": 3, "whole": true}',
        b'{"file": "a", "header": [1, 2, 3, 4, 5, 6], "position": "3", "whole": true}',
        b'{"file": "a", "header": 7, "position": 3, "whole": true}',
        b'{"file": "a", "header": [1, 2, 3, 4, 5, 6], "position": 3}',
        format_note(IndexNote("a", GOOD, 3, True))[:40],
    ],
)
def test_a_damaged_note_covers_nothing(content: bytes) -> None:
    assert parse_note(content) is None
