from __future__ import annotations

import time

import orjson

from orbitmq.store.timers.checkpoint import parse_timer_checkpoint
from orbitmq.wire.headers import DeleteTopicInBroker, GetTimerCheckpoint, GetTimerMetrics

from ...parts import Serve


async def test_the_checkpoint_and_the_counts_are_told(serve: Serve) -> None:
    async with serve() as rig:
        assert (await rig.send(properties="TIMER_DELAY_SEC\x01500\x02")).code == 0
        rig.broker.service.timers.timers.enqueue(int(time.time() * 1000))
        counts = orjson.loads((await rig.ask(GetTimerMetrics())).body)
        assert counts["timingCount"]["t"]["count"] == 1
        assert len((await rig.ask(GetTimerCheckpoint())).body) == 56
    async with serve() as rig:
        checkpoint = parse_timer_checkpoint((await rig.ask(GetTimerCheckpoint())).body)
        assert (checkpoint.queue_offset, checkpoint.master_queue_offset, checkpoint.log_position) == (1, 1, 52)
        assert orjson.loads((await rig.ask(GetTimerMetrics())).body)["timingCount"]["t"]["count"] == 1


async def test_a_deleted_topic_takes_its_counts_along(serve: Serve) -> None:
    async with serve() as rig:
        for topic in ("t", "u"):
            assert (await rig.send(topic, properties="TIMER_DELAY_SEC\x01500\x02")).code == 0
        timers = rig.broker.service.timers
        timers.timers.enqueue(int(time.time() * 1000))
        assert await rig.code(DeleteTopicInBroker(topic="t")) == 0
        counts = orjson.loads((await rig.ask(GetTimerMetrics())).body)["timingCount"]
        assert counts.keys() == timers.metrics.enqueued.keys() == {"u"}
