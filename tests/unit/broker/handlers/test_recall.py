"""Recalls of timers, and the progress of their wheel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store.timers.checkpoint import parse_timer_checkpoint
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    DeleteTopicInBroker,
    GetTimerCheckpoint,
    GetTimerMetrics,
    RecallMessage,
    RecallResponse,
    SendResponse,
)
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.recall_handle import RecallHandle, format_recall_handle, parse_recall_handle
from unit.broker.conftest import Harness, send_header
from unit.broker.parts import Serve

FAST: dict[str, Any] = {"timer_precision_ms": 100, "recall_message_enable": True, "timer_max_delay_sec": 1_000}


@pytest.fixture
def harness(serve: Serve) -> Any:
    return serve(**FAST)


async def pulled(harness: Any, count: int, topic: str = "t") -> list[Any]:
    """Pull until so many messages are there."""
    while True:
        _, records = await harness.pull(topic, suspend_timeout_ms=200, sys_flag=6)
        if len(records) >= count:
            return list(records)


async def handle_of(harness: Any, delay_ms: int, body: bytes = b"x", key: str = "K1") -> str:
    """Send a timer and return its recall handle."""
    answer = await harness.send(body=body, properties=f"TIMER_DELAY_MS\x01{delay_ms}\x02UNIQ_KEY\x01{key}\x02")
    assert answer.code == 0, answer.remark
    return decode_header(SendResponse, answer.ext_fields).recall_handle or ""


def recall(handle: str, topic: str = "t") -> RecallMessage:
    return RecallMessage(producer_group="p", topic=topic, recall_handle=handle)


async def test_a_timer_is_delivered_at_its_time_under_its_own_topic_and_queue(harness: Any) -> None:
    asked_ms = time.time() * 1000
    answer = await harness.send(body=b"later", properties="TIMER_DELAY_MS\x01300\x02UNIQ_KEY\x01K1\x02", flag=7)
    assert answer.code == 0, answer.remark
    response = decode_header(SendResponse, answer.ext_fields)
    assert (response.queue_id, response.queue_offset) == (0, 0)
    handle = parse_recall_handle(response.recall_handle or "")
    assert (handle.topic, handle.broker_name, handle.unique_key) == ("t", "a", "K1")
    (record,) = await pulled(harness, 1)
    found = parse_properties(record.properties)
    assert (bytes(record.body), record.flag, record.queue_id) == (b"later", 7, 0)
    assert record.stored_at_ms >= asked_ms + 300
    assert int(found["TIMER_OUT_MS"]) + 1 == int(handle.time)
    assert found["TIMER_DELAY_MS"] == "300"


async def test_a_timer_survives_a_restart(serve: Serve) -> None:
    async with serve(**FAST) as harness:
        await handle_of(harness, 1_000, b"later")
    async with serve(**FAST) as harness:
        (record,) = await pulled(harness, 1)
        assert bytes(record.body) == b"later"


async def test_a_message_that_is_taken_back_is_not_delivered(harness: Any) -> None:
    await handle_of(harness, 3_000, b"kept", "K0")
    handle = await handle_of(harness, 3_000, b"taken back")
    response = await harness.answer(recall(handle), RecallResponse)
    assert (response.message_id, response.region_id) == ("K1", "DefaultRegion")
    await handle_of(harness, 3_300, b"last", "K2")
    assert [bytes(record.body) for record in await pulled(harness, 2)] == [b"kept", b"last"]


def _handle(**changes: str) -> str:
    fields = {"topic": "t", "broker_name": "a", "time": str(int(time.time() * 1000) + 5_000), "unique_key": "K"}
    return format_recall_handle(RecallHandle(**fields | changes))


@each_case(
    (lambda: recall(_handle(), "u"), 17, r"the topic\[u\] not exist"),
    (lambda: recall("%%"), 604, "recall handle is invalid"),
    (lambda: recall("x" * 100_000), 604, "recall handle is invalid"),
    (lambda: recall(_handle(topic="u")), 604, "topic not match"),
    (lambda: recall(_handle(broker_name="b")), 604, "broker service not available"),
    (lambda: recall(_handle(time="1")), 604, "timestamp invalid"),
    (lambda: recall(_handle(time="soon")), 604, "timestamp invalid: soon"),
    (lambda: recall(_handle(time="9" * 300)), 604, "within the next 1000 s"),
    (lambda: recall(_handle(time=str(int(time.time() * 1000) + 1_001_000))), 604, "timerMaxDelaySec"),
    (lambda: recall(_handle(unique_key="a\x02b")), 604, "recall failed"),
)
async def test_what_cannot_be_taken_back_is_refused(
    header: Callable[[], RecallMessage], code: int, remark: str, harness: Any
) -> None:
    assert await harness.code(send_header()) == 0
    answer = await harness.ask(header())
    assert (answer.code, answer.ext_fields["MSG_REGION"]) == (code, "DefaultRegion")
    assert len(answer.remark) < 400
    assert re.search(remark, answer.remark)


async def test_recalls_are_forbidden_unless_they_are_allowed(serve: Serve) -> None:
    async with serve() as harness:
        assert await harness.code(send_header()) == 0
        assert await harness.code(recall(_handle())) == 16
    async with serve(broker_permission=4, **FAST, allow_recall_when_broker_not_writeable=False) as harness:
        assert await harness.code(recall(_handle())) == 14
    async with serve(broker_permission=4, **FAST) as harness:
        assert await harness.code(recall(_handle())) == 0


@each_case(
    ("TIMER_DELAY_SEC\x011001\x02", 13, "TIMER_DELAY_SEC: 1001 is not allowed"),
    ("TIMER_DELAY_SEC\x019223372036854775807\x02", 13, "at most 1000 s"),
    ("TIMER_DELAY_MS\x01soon\x02", 13, "'soon' is not allowed, expected a number"),
    ("TIMER_DELIVER_MS\x0199999999999999999999\x02", 13, "expected a number"),
    ("TIMER_DELIVER_MS\x011\x02TIMER_DEL_UNIQKEY\x01t+K\x02", 13, "a time to come"),
)
async def test_a_time_that_is_none_is_refused_with_its_name_and_value(
    properties: str, code: int, remark: str, harness: Any
) -> None:
    answer = await harness.send(properties=properties)
    assert (answer.code, remark in answer.remark) == (code, True), answer.remark
    assert harness.broker.service.store.max_offset(TIMER_TOPIC, 0) == 0


@each_case("TIMER_DELAY_SEC\x010\x02", "TIMER_DELAY_MS\x01-9\x02", "TIMER_DELIVER_MS\x015\x02")
async def test_a_time_that_is_over_is_now(properties: str, harness: Any) -> None:
    before = harness.broker.service.store.max_offset("t", 0)
    answer = await harness.send(properties=properties)
    assert answer.code == 0
    assert "recallHandle" not in answer.ext_fields
    assert harness.broker.service.store.max_offset("t", 0) == before + 1


async def test_a_delay_level_wins_over_a_time(harness: Any) -> None:
    assert (await harness.send(properties="TIMER_DELAY_SEC\x015\x02DELAY\x011\x02")).code == 0
    assert harness.broker.service.store.max_offset(TIMER_TOPIC, 0) == 0
    (record,) = await pulled(harness, 1)
    assert "TIMER_DELAY_SEC" not in parse_properties(record.properties)


async def test_a_timer_that_was_delivered_and_is_sent_again_is_a_plain_message(harness: Any) -> None:
    assert (await harness.send(properties="TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x015\x02")).code == 0
    assert harness.broker.service.store.max_offset("t", 0) == 1


async def test_without_a_wheel_and_with_too_many_at_one_time_a_timer_is_refused(serve: Serve) -> None:
    async with serve(timer_wheel_enable=False) as harness:
        answer = await harness.send(properties="TIMER_DELAY_SEC\x015\x02")
        assert (answer.code, answer.remark) == (1, "accurate timer message is not enabled, timerWheelEnable is false")
    async with serve(timer_congest_num_each_slot=1) as harness:
        due_ms = int(time.time() * 1000) + 50_000
        for _ in range(2):
            assert (await harness.send(properties=f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
        timers = harness.broker.service.sends.timers
        timers.timers.enqueue(int(time.time() * 1000))
        answer = await harness.send(properties=f"TIMER_DELIVER_MS\x01{due_ms}\x02")
        assert answer.code == 1
        assert "timerCongestNumEachSlot is 1" in answer.remark


async def test_the_timers_topic_itself_takes_no_sends(harness: Harness) -> None:
    assert await harness.code(send_header(TIMER_TOPIC)) == 16


async def test_the_checkpoint_and_the_counts_are_told(serve: Serve) -> None:
    async with serve() as harness:
        assert (await harness.send(properties="TIMER_DELAY_SEC\x01500\x02")).code == 0
        harness.broker.service.sends.timers.timers.enqueue(int(time.time() * 1000))
        counts = orjson.loads((await harness.ask(GetTimerMetrics())).body)
        assert counts["timingCount"]["t"]["count"] == 1
        assert len((await harness.ask(GetTimerCheckpoint())).body) == 56
    async with serve() as harness:
        checkpoint = parse_timer_checkpoint((await harness.ask(GetTimerCheckpoint())).body)
        assert (checkpoint.queue_offset, checkpoint.master_queue_offset, checkpoint.log_position) == (1, 1, 52)
        assert orjson.loads((await harness.ask(GetTimerMetrics())).body)["timingCount"]["t"]["count"] == 1


async def test_a_deleted_topic_takes_its_counts_along(harness: Harness) -> None:
    for topic in ("t", "u"):
        assert (await harness.send(topic, properties="TIMER_DELAY_SEC\x01500\x02")).code == 0
    timers = harness.broker.service.sends.timers
    timers.timers.enqueue(int(time.time() * 1000))
    assert await harness.code(DeleteTopicInBroker(topic="t")) == 0
    counts = orjson.loads((await harness.ask(GetTimerMetrics())).body)["timingCount"]
    assert counts.keys() == timers.metrics.enqueued.keys() == {"u"}
