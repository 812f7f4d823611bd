"""Positions in a log, entries, and settings that cannot work."""

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.raft import Entry, Position, Settings

VOTERS = frozenset({1, 2, 3})


@pytest.mark.parametrize(
    ("mine", "yours", "is_as_new"),
    [
        (Position(1, 2), Position(9, 1), True),
        (Position(9, 1), Position(1, 2), False),
        (Position(5, 2), Position(5, 2), True),
        (Position(4, 2), Position(5, 2), False),
        (Position(6, 2), Position(5, 2), True),
    ],
)
def test_a_log_is_newer_by_its_last_term_and_then_by_its_length(mine, yours, is_as_new):
    assert mine.is_as_new_as(yours) is is_as_new


def test_only_a_leaders_mark_has_no_data():
    assert Entry(1, 1, b"").is_mark
    assert not Entry(1, 1, b"x").is_mark
    assert Entry(7, 3, b"x").position == Position(7, 3)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"voters": frozenset()}, "voters"),
        ({"voters": frozenset({0, 1})}, "voters"),
        ({"id": 4}, "id"),
        ({"heartbeat_ticks": 0}, "heartbeat_ticks"),
        ({"heartbeat_ticks": 10}, "heartbeat_ticks"),
        ({"batch_size_max": 0}, "batch_size_max"),
        ({"inflight_max": 0}, "inflight_max"),
        ({"uncommitted_size_max": 0}, "uncommitted_size_max"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(changes, field):
    with pytest.raises(InvalidArgument) as refusal:
        Settings(**({"id": 1, "voters": VOTERS} | changes))
    assert refusal.value.field == field


def test_the_least_of_everything_works():
    Settings(
        id=1,
        voters=frozenset({1}),
        election_ticks=2,
        heartbeat_ticks=1,
        batch_size_max=1,
        inflight_max=1,
        uncommitted_size_max=1,
    )
