"""Messages that are older than their topic's `reserve.time` are not shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.topics.retention import TopicRetention
from orbitmq.errors import StoreUnavailable
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import FakeClock
from orbitmq.wire.headers import (
    CreateTopic,
    GetMinOffset,
    OffsetResponse,
    PopNotification,
    QueryMessage,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)

from ..handlers.support import ack_header, pop
from ..parts import Serve

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@each_case(
    ("", 0), ("-1", 0), ("0", 0), ("2", 10 * HOUR_MS), ("+2", 10 * HOUR_MS), ("12", 0), (str(2**63 - 1), 0), ("two", 0)
)
def test_the_attribute_is_a_number_of_hours(text: str, expected: int) -> None:
    topic = TopicConfig(topic="t", attributes={"reserve.time": text} if text else {})
    clock = FakeClock(12 * HOUR_MS)
    assert TopicRetention(clock, clock).shown_from_ms(topic) == expected


async def keep(harness: Any, hours: int) -> None:
    header = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG", attributes=f"+reserve.time={hours}",
    )  # fmt: skip
    assert await harness.code(header) == 0


async def look_again(harness: Any) -> None:
    """Do what a running broker does every ten seconds."""
    await harness.broker.running.housekeeping.do_due(10_000)


async def first_shown(harness: Any) -> int:
    offset: int = (await harness.answer(GetMinOffset(topic="t", queue_id=0), OffsetResponse)).offset
    return offset


async def test_what_is_older_than_its_topics_time_is_gone_for_pulls_searches_and_queries(serve: Serve) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        for number in range(3):
            await harness.send(body=b"%d" % number, properties=f"KEYS\x01k\x02UNIQ_KEY\x01U{number}\x02")
            clock.advance(HOUR_MS // 2)
        await look_again(harness)
        assert await first_shown(harness) == 1
        moved, _ = await harness.pull()
        assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (21, "1")
        assert [bytes(record.body) for record in (await harness.pull(queue_offset=1))[1]] == [b"1", b"2"]
        search = SearchOffset(topic="t", queue_id=0, timestamp_ms=0)
        assert (await harness.answer(search, OffsetResponse)).offset == 1
        for number, code in ((0, 22), (1, 0)):
            query = QueryMessage(topic="t", key=f"U{number}", count_max=8, begin_ms=0, end_ms=2**62, is_unique_key=True)
            assert await harness.code(query) == code
        assert await harness.code(ViewMessage(physical_offset=0)) == 1
        assert await harness.code(ViewMessage(physical_offset=0, for_slave=True)) == 0
        assert (
            await harness.code(ViewMessage(physical_offset=harness.broker.service.store.max_physical_offset // 3)) == 0
        )


async def test_a_longer_time_shows_again_what_the_log_still_has(serve: Serve) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        await harness.send()
        clock.advance(2 * HOUR_MS)
        await look_again(harness)
        assert await first_shown(harness) == 1
        await harness.send()
        assert await first_shown(harness) == 1
        await keep(harness, 3)
        await look_again(harness)
        assert await first_shown(harness) == 0
        await keep(harness, -1)
        clock.advance(2 * HOUR_MS)
        await look_again(harness)
        assert await first_shown(harness) == 0
        assert await harness.code(ViewMessage(physical_offset=0)) == 0


async def test_a_broker_that_starts_shows_nothing_that_was_hidden(serve: Serve) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        await harness.send()
    clock.advance(2 * HOUR_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        assert await first_shown(harness) == 1
        await harness.send(body=b"new")
        assert [bytes(record.body) for record in (await harness.pull(queue_offset=1))[1]] == [b"new"]


async def test_a_clock_that_is_set_ahead_hides_nothing_and_what_is_stored_then_gets_its_time(serve: Serve) -> None:
    clock, monotonic = FakeClock(DAY_MS), FakeClock(0)
    async with serve(clocks={"clock": clock, "monotonic": monotonic}) as harness:
        await keep(harness, 1)
        await harness.send()
        clock.advance(365 * DAY_MS)
        await look_again(harness)
        assert await first_shown(harness) == 0
        await harness.send()
        for passed_ms, first in ((HOUR_MS // 2, 0), (HOUR_MS, 2)):
            clock.advance(passed_ms)
            monotonic.advance(passed_ms)
            await look_again(harness)
            assert await first_shown(harness) == first


async def test_a_group_before_hidden_messages_is_not_told_to_pop_them(serve: Serve) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        await harness.make_group()
        await harness.send()
        assert await harness.code(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=0)) == 0
        for has_messages in ("true", "false"):
            told = await harness.ask(PopNotification(consumer_group="g", topic="t", queue_id=-1, poll_ms=0))
            assert told.ext_fields["hasMsg"] == has_messages
            clock.advance(2 * HOUR_MS)
            await look_again(harness)


@each_case(False, True)
async def test_messages_that_are_hidden_after_a_pop_can_be_acknowledged(order: bool, serve: Serve) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        await harness.make_group()
        await harness.send(body=b"hidden soon")
        clock.advance(HOUR_MS)
        await harness.send(body=b"shown")
        popped = await pop(harness, order=order, invisible_ms=3 * HOUR_MS)
        clock.advance(1)
        await look_again(harness)
        assert await first_shown(harness) == 1
        assert [await harness.code(ack_header(message)) for message in popped] == [0, 0]
        await harness.send(body=b"next")
        assert [bytes(message.body) for message in await pop(harness, order=order)] == [b"next"]


async def test_a_topic_that_cannot_be_read_keeps_no_other_one_from_being_hidden(serve: Serve, monkeypatch: Any) -> None:
    clock = FakeClock(DAY_MS)
    async with serve(clocks={"clock": clock, "monotonic": clock}) as harness:
        await keep(harness, 1)
        await harness.send()
        clock.advance(2 * HOUR_MS)
        store, topics = harness.broker.service.store, dict(harness.broker.service.tables.topics.table.all)
        topics = {"unreadable": replace(topics["t"], topic="unreadable"), "t": topics["t"]}
        hide_before = store.hide_before

        def hide(topic: str, stored_ms: int) -> None:
            if topic == "unreadable":
                raise StoreUnavailable("its file was cut from outside")
            hide_before(topic, stored_ms)

        monkeypatch.setattr(store, "hide_before", hide)
        with pytest.raises(StoreUnavailable):
            await TopicRetention(clock, clock).hide_expired(topics, store)
        assert await first_shown(harness) == 1
