from __future__ import annotations

from typing import Any

import pytest

from orbitmq.broker.handlers import stats as handlers
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.stats import decode_stats
from orbitmq.wire.headers import CreateTopic, GetBrokerConsumeStats, UpdateConsumerOffset, ViewBrokerStats


async def test_what_was_counted_of_a_topic_is_told(harness: Any) -> None:
    for topic in ("t", "t", "u"):
        await harness.send(topic, body=b"x" * 100)
    await harness.send("t", properties="KEYS\x01k\x02")  # the slow path
    harness.broker.service.monitoring.stats.sample_flows(harness.broker.service.context.monotonic() + 10_000)
    answer = await harness.ask(ViewBrokerStats(stats_name="TOPIC_PUT_NUMS", stats_key="t"))
    stats_of = decode_stats(answer.body)
    assert (stats_of.minute.sum, stats_of.minute.mean) == (3, 1.0)
    sizes = decode_stats((await harness.ask(ViewBrokerStats(stats_name="TOPIC_PUT_SIZE", stats_key="u"))).body)
    assert sizes.minute.sum > 100
    whole = await harness.ask(ViewBrokerStats(stats_name="BROKER_PUT_NUMS", stats_key="DefaultCluster"))
    assert decode_stats(whole.body).minute.sum == 4
    answer = await harness.ask(ViewBrokerStats(stats_name="TOPIC_PUT_NUMS", stats_key="none"))
    assert (answer.code, answer.remark) == (1, "The stats <TOPIC_PUT_NUMS> <none> not exist")


async def test_how_far_all_groups_are_behind_is_told(harness: Any) -> None:
    await harness.make_group()
    await harness.make_group("idle")
    for topic in ("t", "ordered"):
        create = CreateTopic(
            topic=topic, default_topic="x", read_queue_nums=2, write_queue_nums=2, perm=6,
            topic_filter_type="SINGLE_TAG", order=topic == "ordered",
        )  # fmt: skip
        await harness.ask(create)
        await harness.send(topic)
        await harness.send(topic)
        await harness.ask(UpdateConsumerOffset(consumer_group="g", topic=topic, queue_id=0, commit_offset=1))
    document = fastjson.loads((await harness.ask(GetBrokerConsumeStats(is_order=False))).body)
    groups = {name: topics for listed in document["consumeStatsList"] for name, topics in listed.items()}
    assert (document["totalDiff"], document["brokerAddr"]) == (2, harness.broker.address)
    assert [len(topic["offsetTable"]) for topic in groups["g"]] == [2, 2]
    assert groups["idle"] == []
    document = fastjson.loads((await harness.ask(GetBrokerConsumeStats(is_order=True))).body)
    assert document["totalDiff"] == 1


async def test_many_queues_are_looked_at_in_turns_and_too_many_not_at_all(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:

    await harness.make_group()
    for number in range(3):
        await harness.send(f"t{number}")
        await harness.ask(UpdateConsumerOffset(consumer_group="g", topic=f"t{number}", queue_id=0, commit_offset=0))
    monkeypatch.setattr(handlers, "QUEUES_PER_TURN", 1)
    document = fastjson.loads((await harness.ask(GetBrokerConsumeStats(is_order=False))).body)
    assert document["totalDiff"] == 3
    monkeypatch.setattr(handlers, "QUEUES_MAX", 5)
    answer = await harness.ask(GetBrokerConsumeStats(is_order=False))
    assert answer.code == 1
    assert "more than 5 queues" in answer.remark
