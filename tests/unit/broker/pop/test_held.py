"""Held pops: one of each group for each message, within limits."""

from __future__ import annotations

from typing import Any

from orbitmq.broker.pop.held import ANY_QUEUE, HeldPop, HeldPops


def pop(queue_id: int = ANY_QUEUE, group: str = "g", **fields: Any) -> HeldPop[str]:
    settings: dict[str, Any] = {"tag_codes": None, "connection": "c", "call": ""}
    return HeldPop(("t", group, queue_id), **settings | fields)


def held(*pops: HeldPop[str], count_max: int = 100, place_max: int = 100) -> HeldPops[str]:
    found: HeldPops[str] = HeldPops(count_max, place_max)
    for one in pops:
        assert found.hold(one)
    return found


def test_a_message_wakes_one_of_each_group_in_the_order_of_their_coming():
    first, second, other = pop(), pop(), pop(group="h")
    pops = held(first, second, other)
    assert pops.take_arrived("t", 3, 0) == [first, other]
    assert pops.take_arrived("t", 3, 0) == [second]
    assert pops.take_arrived("t", 3, 0) == []
    assert pops.count == 0


def test_who_waits_at_a_queue_is_woken_by_that_queue_alone():
    at_three = pop(3)
    pops = held(at_three)
    assert pops.take_arrived("t", 2, 0) == []
    assert pops.take_arrived("t", 3, 0) == [at_three]


def test_who_waits_for_any_queue_comes_before_who_waits_for_one():
    anywhere, at_three = pop(), pop(3)
    pops = held(at_three, anywhere)
    assert pops.take_arrived("t", 3, 0) == [anywhere]
    assert pops.take_arrived("t", 3, 0) == [at_three]


def test_a_retry_wakes_the_pops_that_wait_for_the_topic_in_the_group():
    at_three, other = pop(3), pop(group="h")
    pops = held(at_three, other)
    assert pops.take_arrived("%RETRY%g_t", 0, 0) == [at_three]
    assert pops.take_arrived("%RETRY%h+t", 0, 0) == [other]


def test_a_message_wakes_no_pull_of_other_tags():
    red, blue = pop(tag_codes=frozenset({1})), pop(tag_codes=frozenset({2}))
    pops = held(red, blue)
    assert pops.take_arrived("t", 0, 2) == [blue]
    assert pops.take_arrived("t", 0, 3) == []
    assert pops.take_one(("t", "g", ANY_QUEUE)) is red


def test_a_request_leaves_once():
    one = pop()
    pops = held(one)
    assert pops.remove(one)
    assert not pops.remove(one)
    assert (pops.count, pops.places, pops.take_arrived("t", 0, 0)) == (0, [], [])


def test_all_together_one_connection_and_one_place_have_limits():
    pops = held(pop(), pop(), pop(), count_max=4)
    assert not pops.hold(pop())  # three quarters of all
    assert pops.hold(pop(connection="d"))
    assert not pops.hold(pop(connection="e"))
    assert pops.over_count == 2
    full = held(pop(), pop(), place_max=2)
    assert not full.hold(pop(connection="d"))
    assert full.hold(pop(0))
    assert full.count_at(("t", "g", ANY_QUEUE)) == 2


def test_a_closed_connection_takes_its_requests_along_some_at_a_time():
    mine, other = [pop() for _ in range(5)], pop(connection="d")
    pops = held(*mine, other)
    pops.drop_connection("c")
    assert len(pops.forget_some(2)) == 2
    assert (pops.count, pops.has_closed) == (4, True)
    assert set(pops.forget_some(10)) <= set(mine)
    assert (pops.count, pops.has_closed) == (1, False)
    assert pops.take_arrived("t", 0, 0) == [other]


def test_a_client_without_an_answer_is_told_apart_before_and_after_it_is_forgotten():
    woken, waiting = pop(), pop()
    pops = held(woken, waiting)
    assert pops.take_arrived("t", 0, 0) == [woken]
    pops.drop_connection("c")
    assert pops.take_arrived("t", 0, 0) == [waiting]
    assert not pops.leave(woken)
    assert pops.forget_some(10) == [waiting]
    assert not pops.leave(waiting)
    assert pops.forget_some(10) == []
    assert not pops.has_closed
    again = pop()
    assert pops.hold(again)
    assert pops.remove(again)


def test_a_connection_that_left_nothing_is_not_remembered():
    pops = held()
    pops.drop_connection("c")
    assert not pops.has_closed


def test_a_deleted_topic_gives_up_its_requests_and_no_other():
    any_queue, at_three, other = pop(), pop(3, "h"), HeldPop(("u", "g", 0), None, "c", "")
    pops = held(any_queue, at_three, other)
    assert set(pops.take_topic("t")) == {any_queue, at_three}
    assert pops.take_topic("%RETRY%g_u") == []
    assert pops.count == 1


def test_the_end_takes_all_and_lets_no_request_in():
    pops = held(pop(), pop(2))
    assert len(pops.close()) == 2
    assert not pops.hold(pop())
