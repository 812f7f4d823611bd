"""Queues of consumers that leave it to the broker."""

from __future__ import annotations

import pytest

from orbitmq.broker.assignments.allocation import STRATEGIES, allocate_to_pop
from orbitmq.model.route import MessageQueue

QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(3)]


def numbers(found: list[MessageQueue]) -> list[int]:
    return [QUEUES.index(queue) for queue in found]


def pop(members: list[str], member: str, share: int, queues: list[MessageQueue] = QUEUES) -> list[MessageQueue]:
    return allocate_to_pop(queues, members, member, share, STRATEGIES["AVG"])


def test_strategies_share_as_javas_do():
    assert numbers(STRATEGIES["AVG"](QUEUES, ["m", "n"], "n")) == [3, 4, 5]
    assert numbers(STRATEGIES["AVG_BY_CIRCLE"](QUEUES, ["m", "n"], "n")) == [1, 3, 5]


@pytest.mark.parametrize("share", [-1, 0, 1, 2, 99])
def test_few_who_pop_read_any_queue_of_every_broker(share: int):
    assert pop(["m", "n"], "m", share) == [MessageQueue("t", "a", -1), MessageQueue("t", "b", -1)]


def test_many_who_pop_read_their_share_and_those_that_follow():
    members = ["m", "n", "o", "p"]
    assert numbers(pop(members, "m", 1)) == [0, 1, 2, 3]
    assert numbers(pop(members, "p", 1)) == [5, 0, 1]
    assert pop(members, "q", 1) == []


def test_more_members_than_queues_have_one_each():
    members = list("mnopq")
    assert [numbers(pop(members, member, 1, QUEUES[:2])) for member in members] == [[0], [1], [0], [1], [0]]
