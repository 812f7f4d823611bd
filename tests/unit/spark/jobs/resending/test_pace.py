from __future__ import annotations

import pytest

from orbitmq.spark.jobs.resending.pace import PORTION_MAX, Pace


@pytest.mark.parametrize(
    ("rate", "portion"), [(1, 1), (9, 1), (10, 1), (99, 9), (4_990, 499), (1_000_000, PORTION_MAX)]
)
def test_a_portion_is_a_tenth_of_a_second_at_most(rate, portion):
    assert Pace(rate).portion == portion


def test_a_portion_waits_until_the_one_before_has_had_its_time():
    pace = Pace(100)
    assert pace.wait_s(10, 5.0) == 0
    assert pace.wait_s(10, 5.02) == pytest.approx(0.08)
    assert pace.wait_s(10, 5.1) == pytest.approx(0.1)


def test_time_that_was_lost_is_not_caught_up_with():
    pace = Pace(100)
    pace.wait_s(10, 0.0)
    assert pace.wait_s(10, 60.0) == 0
    assert pace.wait_s(10, 60.0) == pytest.approx(0.1)


def test_a_portion_of_messages_that_were_all_sent_before_takes_no_time():
    pace = Pace(1)
    pace.wait_s(0, 0.0)
    assert pace.wait_s(1, 0.0) == 0
