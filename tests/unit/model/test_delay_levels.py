from __future__ import annotations

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.model.delay_levels import DELAY_LEVELS, DELAY_LEVELS_MAX, DELAY_LEVELS_TEXT, parse_delay_levels


def test_delays_are_given_in_seconds_minutes_hours_and_days() -> None:
    levels = parse_delay_levels("0s 5s 2m 3h 1d 007s")
    assert [levels.delay_ms(level) for level in range(1, 7)] == [0, 5_000, 120_000, 10_800_000, 86_400_000, 7_000]
    assert len(levels) == 6


def test_a_level_above_the_highest_is_the_highest() -> None:
    levels = parse_delay_levels("1s 5s 10s")
    assert [levels.nearest(level) for level in (1, 3, 4, 999_999_999)] == [1, 3, 3, 3]
    assert levels.delay_ms(18) == 10_000


def test_out_of_the_box_there_are_18_up_to_two_hours() -> None:
    assert len(DELAY_LEVELS) == 18
    assert DELAY_LEVELS.delays_ms[-1] == 7_200_000
    assert parse_delay_levels(DELAY_LEVELS_TEXT) == DELAY_LEVELS


SMALL = [
    "",
    " ",
    "1s  5s",
    " 1s",
    "1s ",
    "1s\t5s",
    "s",
    "5",
    "5S",
    "5ms",
    "-5s",
    "+5s",
    "1.5s",
    "٣s",
    "1s,5s",
    "1s five",
]
LARGE = ["36501d", "9" * 14 + "s", "9" * 5_000 + "s", " ".join(["1s"] * (DELAY_LEVELS_MAX + 1))]


@pytest.mark.parametrize("text", [*SMALL, *LARGE])
def test_what_is_no_list_of_delays_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidArgument, match="messageDelayLevel") as refusal:
        parse_delay_levels(text)
    assert "36500d" in refusal.value.allowed


def test_the_limits_themselves_are_allowed() -> None:
    assert len(parse_delay_levels(" ".join(["36500d"] * DELAY_LEVELS_MAX))) == DELAY_LEVELS_MAX
