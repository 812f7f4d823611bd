"""A topic that gets fewer queues while messages wait: what was stored, or accepted, stays in view."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.wire.bodies.topics import decode_consume_stats, decode_topic_stats
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CreateTopic,
    GetConsumeStats,
    GetTopicStats,
    QueryConsumeTimeSpan,
    ResetGroupOffset,
    SendResponse,
    UpdateConsumerOffset,
)
from waiting import until

from ..handlers.test_transactions import HALF, end_header
from ..parts import Serve


async def set_queues(harness: Any, count: int) -> None:
    header = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=count, write_queue_nums=count, perm=6,
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    assert await harness.code(header) == 0


async def test_messages_of_queues_that_are_gone_are_counted_and_read_as_before(harness: Any) -> None:
    await set_queues(harness, 8)
    for queue_id in range(8):
        assert (await harness.send(queue_id=queue_id)).code == 0
    await harness.make_group()
    await set_queues(harness, 2)
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1)
    assert await harness.code(commit) == 0
    stats = decode_topic_stats(bytes((await harness.ask(GetTopicStats(topic="t"))).body))
    assert sum(queue.max_offset - queue.min_offset for queue in stats.values()) == 8
    lag = decode_consume_stats(bytes((await harness.ask(GetConsumeStats(consumer_group="g", topic="t"))).body))
    assert sum(queue.broker_offset - queue.consumer_offset for queue in lag.values()) == 7
    answer = await harness.ask(QueryConsumeTimeSpan(topic="t", group="g"))
    assert bytes(answer.body).count(b'"queueId"') == 8
    assert len((await harness.pull(queue_id=7))[1]) == 1
    assert (await harness.pull(queue_id=8))[0].code == 29
    reset = ResetGroupOffset(topic="t", group="g", timestamp_ms=-1, is_force=True, queue_id=-1)
    answer = await harness.ask(reset)
    assert bytes(answer.body).count(b":1") >= 8, answer


@pytest.mark.parametrize("waits", ["DELAY\x011\x02", "TIMER_DELAY_MS\x01100\x02", HALF], ids=["delay", "timer", "half"])
async def test_a_message_that_waited_goes_to_a_queue_that_consumers_read(serve: Serve, waits: str) -> None:
    async with serve(timer_precision_ms=100) as harness:
        await set_queues(harness, 8)
        store = harness.broker.service.store
        answer = await harness.send(queue_id=7, properties=waits, sys_flag=4 if waits == HALF else 0)
        assert answer.code == 0, answer
        await set_queues(harness, 4)
        if waits == HALF:
            assert await harness.code(end_header(decode_header(SendResponse, answer.ext_fields))) == 0
        await until(lambda: store.max_offset("t", 3))
        assert not store.max_offset("t", 7)
