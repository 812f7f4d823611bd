from __future__ import annotations

import orjson

from orbitmq.clock import now_ms
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.headers import (
    GetAllProducers,
    HeartbeatRequest,
    QuerySubscription,
    QueryTopicsOfGroup,
    UpdateConsumerOffset,
)
from unit.broker.conftest import Harness


async def test_the_producers_of_all_groups_are_listed(harness: Harness) -> None:
    before_ms = now_ms()
    beat = Heartbeat(client_id="c", producer_groups=("p", "q"))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(beat))
    data = orjson.loads((await harness.ask(GetAllProducers())).body)["data"]
    assert data.keys() == {"p", "q"}
    (producer,) = data["p"]
    assert producer["clientId"] == "c"
    assert producer["remoteIP"].startswith("/127.0.0.1:")
    assert before_ms - 1_000 <= producer["lastUpdateTimestamp"] <= now_ms() + 1_000


async def test_the_topics_of_a_group_are_those_it_has_offsets_in(harness: Harness) -> None:
    await harness.make_group()
    await harness.send("t")
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1))
    found = decode_topic_list((await harness.ask(QueryTopicsOfGroup(group="g"))).body)
    assert (found.topics, found.broker_address) == (("t",), harness.broker.address)
    assert decode_topic_list((await harness.ask(QueryTopicsOfGroup(group="none"))).body).topics == ()


async def test_a_groups_subscription_is_told_while_it_is_online(harness: Harness) -> None:
    await harness.make_group()
    consumer = ConsumerInfo(group="g", subscriptions=(Subscription(topic="t", expression="red"),))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(consumer,))))
    found = orjson.loads((await harness.ask(QuerySubscription(group="g", topic="t"))).body)
    assert found["subscriptionData"]["subString"] == "red"
    for group, topic in (("g", "u"), ("none", "t")):
        found = orjson.loads((await harness.ask(QuerySubscription(group=group, topic=topic))).body)
        assert found == {"group": group, "topic": topic}
