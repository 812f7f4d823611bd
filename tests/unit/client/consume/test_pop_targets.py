from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.client.consume.pop_targets import PopTargets
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.errors import ClientError, InvalidArgument, RouteNotFound
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.model.topic import Perm


def route(*names, perm=Perm.READ, count=1):
    return TopicRoute(
        queues=tuple(
            QueueData(broker_name=name, read_queue_count=count, write_queue_count=1, perm=perm) for name in names
        )
    )


class Routes:
    """Knows some topics, and looks for the others in vain."""

    def __init__(self, routes):
        self.known = SimpleNamespace(routes=routes)
        self.asked = []

    async def find(self, topic):
        self.asked.append(topic)
        raise RouteNotFound(f"topic {topic} has no route")


def targets_of(*topics, **routes):
    session: Any = SimpleNamespace(routes=Routes(routes))
    return PopTargets(session, {topic: parse_subscription(topic, "*", 1) for topic in topics or routes}), session.routes


async def names(targets):
    return [(target.subscription.topic, target.broker_name) for target in await targets.find()]


async def test_each_broker_of_each_topic_is_the_first_in_its_turn():
    targets, _ = targets_of(t=route("b", "a"), u=route("a"))
    found = [await names(targets) for _ in range(4)]
    assert found[0] == [("t", "b"), ("u", "a"), ("t", "a")]
    assert [first for first, *_ in found] == [("t", "b"), ("u", "a"), ("t", "a"), ("t", "b")]


@pytest.mark.parametrize("unreadable", [route("a", perm=Perm.WRITE), route("a", count=0), route()])
async def test_brokers_without_readable_queues_are_none(unreadable):
    targets, _ = targets_of(t=unreadable)
    with pytest.raises(ClientError, match="no broker allows reading of t"):
        await targets.find()


async def test_without_a_subscription_there_is_nothing_to_find():
    targets, _ = targets_of()
    with pytest.raises(InvalidArgument, match="at least one"):
        await targets.find()


async def test_topics_of_which_none_has_a_route_are_an_error_each_time():
    targets, routes = targets_of("t")
    for count in (1, 2):
        with pytest.raises(RouteNotFound, match="topic t"):
            await targets.find()
        assert len(routes.asked) == count


async def test_a_topic_without_a_route_is_asked_for_now_and_then_and_told_of_once(caplog):
    targets, routes = targets_of("t", "nowhere", t=route("a"))
    for _ in range(3):
        assert await names(targets) == [("t", "a")]
    assert routes.asked == ["nowhere"]
    targets._asks_again_s = 0
    await targets.find()
    assert routes.asked == ["nowhere"] * 2
    assert caplog.messages == ["topic nowhere has no route"]
    targets.forget("nowhere")
    targets._asks_again_s = 0
    await targets.find()
    assert caplog.messages == ["topic nowhere has no route"] * 2
