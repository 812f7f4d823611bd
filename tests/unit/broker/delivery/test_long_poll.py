from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.delivery.long_poll import HeldPull, HeldPulls


def pull(
    name: str, topic: str = "t", queue_id: int = 0, offset: int = 0, tags: set[int] | None = None, deadline: int = 100
) -> HeldPull[str]:
    codes = None if tags is None else frozenset(tags)
    return HeldPull(topic, queue_id, offset, codes, deadline, connection=name[0], call=name)


def held(*pulls: HeldPull[str], count_max: int = 100, size_max: int = 100) -> HeldPulls[str]:
    polls: HeldPulls[str] = HeldPulls(count_max, size_max)
    for one in pulls:
        assert polls.hold(one)
    return polls


def names(pulls: list[HeldPull[str]]) -> list[str]:
    return [one.call for one in pulls]


def test_a_message_wakes_the_pulls_of_its_queue_that_want_its_tag() -> None:
    polls = held(pull("a"), pull("b", queue_id=1), pull("c", tags={7}), pull("d", tags={8}), pull("e", topic="u"))

    assert polls.arrived("t", 0, 0, 7)
    assert not polls.arrived("t", 9, 0, 7)

    assert names(polls.take_ready()) == ["a", "c"]
    assert polls.take_ready() == []
    assert polls.count == 3


def test_a_message_before_the_wanted_offset_wakes_no_pull() -> None:
    polls = held(pull("a", offset=5))
    assert not polls.arrived("t", 0, 4, 0)
    assert polls.arrived("t", 0, 5, 0)


def test_only_the_first_arrival_of_a_turn_asks_for_a_wake_up() -> None:
    polls = held(pull("a"), pull("b", queue_id=1))
    assert polls.arrived("t", 0, 0, 0)
    assert not polls.arrived("t", 1, 0, 0)
    assert names(polls.take_ready()) == ["a", "b"]


def test_a_pull_leaves_when_its_time_is_over() -> None:
    polls = held(pull("a", deadline=10), pull("b", deadline=20))
    polls.wake_expired(10)
    assert names(polls.take_ready()) == ["a"]
    polls.wake_expired(19)
    assert names(polls.take_ready()) == []
    assert polls.count == 1


def test_a_pull_over_the_limit_is_not_held() -> None:
    polls = held(pull("a"), count_max=1)
    assert not polls.hold(pull("b"))
    assert (polls.count, polls.over_count, polls.over_size) == (1, 1, 0)


def sized(name: str, size: int) -> HeldPull[str]:
    one = pull(name)
    one.size = size
    return one


def test_a_pull_for_which_there_is_no_memory_is_not_held() -> None:
    polls = held(sized("a", 60), sized("b", 30))
    assert not polls.hold(sized("c", 11))
    assert polls.hold(sized("c", 10))
    assert (polls.size, polls.count, polls.over_count, polls.over_size) == (100, 3, 0, 1)
    polls.drop_connection("a")
    assert not polls.forget_some(10)
    assert polls.hold(sized("d", 60))


def test_one_connection_leaves_a_quarter_to_the_others() -> None:
    polls = held(*(pull(f"a{number}") for number in range(75)))
    assert not polls.hold(pull("a"))
    assert polls.hold(pull("b"))
    polls = held(sized("a1", 50), sized("a2", 25))
    assert not polls.hold(sized("a3", 1))
    assert polls.hold(sized("b", 25))
    assert polls.over_size == 1


def test_a_quiet_queue_does_not_wait_for_the_crowd_of_a_busy_one() -> None:
    polls = held(*(pull(f"a{number}") for number in range(5)), pull("quiet", topic="u"), pull("b", topic="v"))
    for topic in ("t", "u", "v"):
        polls.arrived(topic, 0, 0, 0)
    assert names(polls.take_ready()) == ["a0", "quiet", "b", "a1", "a2", "a3", "a4"]


def test_no_more_pulls_are_put_off_than_may_wait() -> None:
    polls = held(pull("a"), count_max=1)
    assert not polls.postpone(pull("b"))
    assert polls.over_count == 1


def test_a_message_that_no_tag_wants_is_compared_with_no_pull() -> None:
    class Codes(frozenset[int]):
        def __contains__(self, code: object) -> bool:
            raise AssertionError("a pull was looked at")

    polls = held(pull("a", tags={7}), pull("b", tags={8, 9}))
    for waiting in polls._by_queue.values():
        for one in waiting:
            one.tag_codes = Codes(one.tag_codes or ())
    assert not polls.arrived("t", 0, 0, 1)
    assert polls.arrived("t", 0, 0, 9)
    assert not polls.arrived("t", 0, 0, 8)
    assert names(polls.take_ready()) == ["b"]


def test_a_pull_that_is_put_off_is_woken_by_no_message_and_goes_with_its_connection() -> None:
    polls = held(pull("a"), pull("b"), pull("c"))
    polls.arrived("t", 0, 0, 0)
    for one in polls.take_ready():
        polls.postpone(one)
    assert polls.count == 3
    assert not polls.arrived("t", 0, 0, 0)
    polls.drop_connection("b")
    assert polls.resume(2)
    assert names(polls.take_ready()) == ["a"]
    assert not polls.resume(2)
    assert names(polls.take_ready()) == ["c"]
    assert polls.postpone(pull("d"))
    assert names(polls.close()) == ["d"]
    assert polls.count == 0


def test_the_pulls_of_a_closed_connection_are_forgotten_even_when_they_were_about_to_wake() -> None:
    polls = held(pull("a1"), pull("a2", queue_id=1), pull("b"))
    polls.arrived("t", 0, 0, 0)
    polls.drop_connection("a")
    polls.drop_connection("z")
    assert names(polls.take_ready()) == ["b"]
    assert not polls.forget_some(10)
    assert polls.count == 0


@each_case(None, {7})
def test_the_pulls_of_a_closed_connection_are_forgotten_some_at_a_time_and_none_is_woken_meanwhile(
    tags: set[int] | None,
) -> None:
    polls = held(*(pull(f"a{number}", tags=tags) for number in range(9)), pull("b"))
    polls.drop_connection("a")
    assert polls.forget_some(4)
    assert polls.count == 6
    polls.arrived("t", 0, 0, 7)
    assert names(polls.take_ready()) == ["b"]
    assert not polls.forget_some(9)
    assert polls.count == polls.size == 0


def test_a_lost_wake_up_is_found_by_the_sweep() -> None:
    polls = held(pull("a", offset=5), pull("b", offset=6))
    polls.wake_overtaken(lambda topic, queue_id: 6)
    assert names(polls.take_ready()) == ["a"]
    polls.wake_topic("other")
    assert not polls.has_ready
    polls.wake_topic("t")
    assert names(polls.take_ready()) == ["b"]
    assert polls.close() == []
    assert not polls.hold(pull("c")), "a broker that stops lets nobody wait"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_no_pull_is_lost_or_answered_twice(steps: list[tuple[int, int, bool]]) -> None:
    polls: HeldPulls[str] = HeldPulls(1000, 1000)
    waiting: set[str] = set()
    for number, (queue_id, offset, is_arrival) in enumerate(steps):
        if is_arrival:
            polls.arrived("t", queue_id, offset, 0)
            for woken in polls.take_ready():
                assert woken.queue_offset <= offset
                waiting.remove(woken.call)
        else:
            polls.hold(pull(str(number), queue_id=queue_id, offset=offset))
            waiting.add(str(number))
        assert polls.count == len(waiting)
    assert {one.call for one in polls.close()} == waiting
    assert not polls._by_queue
    assert not polls._by_connection
