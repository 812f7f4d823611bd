"""Claims about what the families of a broker's metrics have in common."""

from __future__ import annotations

import pytest

from orbitmq.broker.health.series import WORK_PER_PART, SeriesWork, by_topic, first_of, is_system_group, look
from orbitmq.errors import FileCut, StoreUnavailable


def test_a_part_ends_when_enough_was_looked_at() -> None:
    work = SeriesWork()
    assert [work.is_a_part_done(WORK_PER_PART - 1) for _ in range(3)] == [False, True, False]


def test_the_first_entries_stay_when_the_table_changes() -> None:
    table = {"a": 1, "b": 2, "c": 3}
    found = first_of(table, 2)
    table["d"] = 4
    assert list(found) == [("a", 1), ("b", 2)]


def test_many_topics_come_in_parts() -> None:
    rows = list(by_topic(dict.fromkeys(map(str, range(2 * WORK_PER_PART)), 7), 10_000))
    assert (rows.count(None), len(rows)) == (2, 2 * WORK_PER_PART + 2)
    assert rows[0] == (("0",), 7)


@pytest.mark.parametrize("error", [StoreUnavailable("fenced"), FileCut("cut"), OSError(24, "too many files")])
def test_a_store_that_cannot_be_read_tells_no_time(error: Exception) -> None:
    def ask() -> int:
        raise error

    assert look(ask) == 0
    assert look(lambda: 5) == 5


def test_javas_own_groups_are_known_in_any_case() -> None:
    assert is_system_group("CID_RMQ_SYS_x")
    assert not is_system_group("CID_x")
