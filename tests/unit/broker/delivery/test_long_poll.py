from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.delivery.long_poll import ParkedPull, ParkedPulls


def pull(
    name: str, topic: str = "t", queue_id: int = 0, offset: int = 0, tags: set[int] | None = None, deadline: int = 100
) -> ParkedPull[str]:
    codes = None if tags is None else frozenset(tags)
    return ParkedPull(topic, queue_id, offset, codes, deadline, connection=name[0], call=name)


def parked(*pulls: ParkedPull[str], count_max: int = 100) -> ParkedPulls[str]:
    polls: ParkedPulls[str] = ParkedPulls(count_max)
    for one in pulls:
        assert polls.park(one)
    return polls


def names(pulls: list[ParkedPull[str]]) -> list[str]:
    return [one.call for one in pulls]


def test_a_message_wakes_the_pulls_of_its_queue_that_want_its_tag() -> None:
    polls = parked(pull("a"), pull("b", queue_id=1), pull("c", tags={7}), pull("d", tags={8}), pull("e", topic="u"))

    assert polls.arrived("t", 0, 0, 7)
    assert not polls.arrived("t", 9, 0, 7)

    assert names(polls.take_ready()) == ["a", "c"]
    assert polls.take_ready() == []
    assert polls.count == 3


def test_a_message_before_the_wanted_offset_wakes_nobody() -> None:
    polls = parked(pull("a", offset=5))
    assert not polls.arrived("t", 0, 4, 0)
    assert polls.arrived("t", 0, 5, 0)


def test_only_the_first_arrival_of_a_turn_asks_for_a_wake_up() -> None:
    polls = parked(pull("a"), pull("b", queue_id=1))
    assert polls.arrived("t", 0, 0, 0)
    assert not polls.arrived("t", 1, 0, 0)
    assert names(polls.take_ready()) == ["a", "b"]


def test_a_pull_leaves_when_its_time_is_over() -> None:
    polls = parked(pull("a", deadline=10), pull("b", deadline=20))
    assert names(polls.take_expired(10)) == ["a"]
    assert names(polls.take_expired(19)) == []
    assert polls.count == 1


def test_a_pull_over_the_limit_is_not_parked() -> None:
    polls = parked(pull("a"), count_max=1)
    assert not polls.park(pull("b"))
    assert polls.count == 1


def test_the_pulls_of_a_closed_connection_are_forgotten_even_when_they_were_about_to_wake() -> None:
    polls = parked(pull("a1"), pull("a2", queue_id=1), pull("b"))
    polls.arrived("t", 0, 0, 0)
    polls.drop_connection("a")
    polls.drop_connection("z")
    assert names(polls.take_ready()) == ["b"]
    assert polls.count == 0


def test_a_lost_wake_up_is_found_by_the_sweep() -> None:
    polls = parked(pull("a", offset=5), pull("b", offset=6))
    assert names(polls.take_overtaken(lambda topic, queue_id: 6)) == ["a"]
    assert names(polls.take_topic("t")) == ["b"]
    assert polls.close() == []
    assert not polls.park(pull("c")), "a broker that stops lets nobody wait"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_no_pull_is_lost_or_answered_twice(steps: list[tuple[int, int, bool]]) -> None:
    polls: ParkedPulls[str] = ParkedPulls(1000)
    waiting: set[str] = set()
    for number, (queue_id, offset, is_arrival) in enumerate(steps):
        if is_arrival:
            polls.arrived("t", queue_id, offset, 0)
            for woken in polls.take_ready():
                assert woken.queue_offset <= offset
                waiting.remove(woken.call)
        else:
            polls.park(pull(str(number), queue_id=queue_id, offset=offset))
            waiting.add(str(number))
        assert polls.count == len(waiting)
    assert {one.call for one in polls.close()} == waiting
    assert not polls._by_queue
    assert not polls._by_connection
