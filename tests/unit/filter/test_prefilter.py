"""Prefilters: what may match is never held back, and most of what cannot is."""

from __future__ import annotations

from cases import each_case
from orbitmq.filter.prefilter import list_prefilter, number_prefilter, text_prefilter

MESSAGES = [
    b"n\x011\x02",
    b"x\x01y\x02n\x013\x02",
    b"n\x013",
    b"",
    b"n\x0130\x02",
    b"n\x0103\x02",
    b"n\x01\x02",
    b"n\x013x",
]


def test_a_text_is_found_whole():
    assert text_prefilter(b"n", b"3").passing(MESSAGES) == [1, 2]
    assert text_prefilter(b"n", b"3").passing([]) == []
    assert text_prefilter(b"n", b".").passing(MESSAGES) == []


def test_a_number_is_found_however_it_may_be_written():
    assert number_prefilter(b"n", 3).passing(MESSAGES) == [1, 2, 5, 6, 7]
    assert number_prefilter(b"n", 3).passing([b"n\x010\x02", b"n\x010"]) == []
    assert number_prefilter(b"n", 0).passing([b"n\x010\x02", b"n\x0100", b"n\x0110"]) == [0, 1]
    assert number_prefilter(b"n", -3).passing([b"n\x01-3\x02", b"n\x013\x02"]) == [0]


def test_each_text_of_a_list_is_found():
    assert list_prefilter(b"n", [b"1", b"30"]).passing(MESSAGES) == [0, 4]
    assert list_prefilter(b"n", []).passing(MESSAGES) == []


def test_the_end_of_a_longer_name_passes_and_is_asked_afterwards():
    assert text_prefilter(b"n", b"3").passing([b"column\x013\x02"]) == [0]


def test_a_message_that_holds_it_twice_passes_once():
    assert text_prefilter(b"n", b"3").passing([b"n\x013\x02n\x013\x02"]) == [0]


@each_case([b"b\x02n\x01a", b"a"], [b"a", b"b\x02n\x01a"])
def test_a_text_that_no_value_can_be_hides_no_message(texts: list[bytes]):
    assert list_prefilter(b"n", texts).passing([b"n\x01b", b"n\x01a"]) == [1]
