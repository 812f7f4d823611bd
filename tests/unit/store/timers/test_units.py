from __future__ import annotations

from cases import each_case
from orbitmq.store.timers.units import BLANK_MAGIC, LAYOUT, UNIT_SIZE, Unit, is_whole, parse_unit

UNIT = Unit(UNIT_SIZE, -1, 1, 1_000, 5_000, 77, 200, -3)


def test_a_unit_is_fifty_two_bytes_that_are_read_as_they_were_written() -> None:
    assert UNIT_SIZE == 52
    assert parse_unit(b"x" + LAYOUT.pack(*UNIT), 1) == UNIT
    assert BLANK_MAGIC == (0xBBCCDDEE ^ 1880681594) - (1 << 32)


def test_a_unit_says_when_it_is_due_and_what_it_adds_to_its_slot() -> None:
    assert (UNIT.due_ms, UNIT.weight) == (6_000, 1)
    assert [UNIT._replace(magic=magic).weight for magic in (3, 5, 7)] == [1, -1, -1]


@each_case(
    {"size": 51},
    {"magic": 16},
    {"magic": -1},
    {"previous": -2},
    {"previous": 104},
    {"physical_offset": -1},
    {"message_size": 0},
    {"delay_ms": -1_000},
)
def test_bytes_that_cannot_be_a_unit_of_their_place_are_none(change: dict[str, int]) -> None:
    assert is_whole(UNIT, 104)
    assert not is_whole(UNIT._replace(**change), 104)


def test_zeros_are_no_unit() -> None:
    assert not is_whole(parse_unit(bytes(UNIT_SIZE)), 104)
