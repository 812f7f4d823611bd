"""NOTIFICATION, POLLING_INFO, PEEK_MESSAGE and POP_ROLLBACK over a connection."""

from __future__ import annotations

import asyncio
from typing import Any

from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetPollingCount,
    PeekMessage,
    PollingCountResponse,
    PopNotification,
    PopNotificationResponse,
    PopResponse,
    RollBackPops,
)
from orbitmq.wire.messages.record import iter_records
from unit.broker.conftest import Harness
from unit.broker.handlers.support import change_header, pop, pop_header
from unit.broker.parts import Serve
from waiting import until


def notice(**fields: Any) -> PopNotification:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": -1, "poll_ms": 0}
    return PopNotification(**settings | fields)


async def test_a_notification_says_whether_there_are_messages_and_takes_none(harness: Harness) -> None:
    await harness.send()
    yes, no = PopNotificationResponse(has_message=True), PopNotificationResponse(has_message=False)
    assert await harness.answer(notice(), PopNotificationResponse) == yes
    assert await harness.answer(notice(queue_id=3), PopNotificationResponse) == no
    assert len(await pop(harness)) == 1
    assert await harness.answer(notice(), PopNotificationResponse) == no
    assert await harness.answer(notice(poll_ms=20), PopNotificationResponse) == no


async def test_a_notification_waits_for_a_message_next_to_the_pops(harness: Harness) -> None:
    await harness.send()
    await pop(harness)
    service = harness.broker.service.delivery.pop
    told = asyncio.ensure_future(harness.answer(notice(poll_ms=60_000), PopNotificationResponse))
    await until(lambda: service.notices.held.count)
    await harness.send()
    assert (await told).has_message


async def test_too_many_notifications_do_not_wait(serve: Serve) -> None:
    async with serve(max_pop_polling_size=0) as harness:
        await harness.send()
        await pop(harness)
        answer = await harness.answer(notice(poll_ms=60_000), PopNotificationResponse)
        assert answer == PopNotificationResponse(has_message=False, polling_full=True)


async def test_waiting_pops_are_counted(harness: Harness) -> None:
    await harness.send()
    await pop(harness)
    waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000)))
    await until(lambda: harness.broker.service.delivery.pop.waiting.held.count)
    count = GetPollingCount(consumer_group="g", topic="t", queue_id=-1)
    assert await harness.answer(count, PollingCountResponse) == PollingCountResponse(polling_count=1)
    await harness.send()
    assert (await waiting).code == 0
    assert await harness.answer(count, PollingCountResponse) == PollingCountResponse(polling_count=0)
    assert await harness.code(GetPollingCount(consumer_group="g", topic="nowhere", queue_id=-1)) == 17


async def test_in_order_a_notification_says_nothing_of_a_queue_that_is_blocked(harness: Harness) -> None:
    await harness.send()
    order: dict[str, Any] = {"order": True}
    assert (await harness.answer(notice(**order), PopNotificationResponse)).has_message
    (message,) = await pop(harness, **order, attempt_id="a", invisible_ms=60_000)
    assert not (await harness.answer(notice(**order), PopNotificationResponse)).has_message
    assert (await harness.answer(notice(**order, attempt_id="a"), PopNotificationResponse)).has_message
    told = asyncio.ensure_future(harness.answer(notice(**order, poll_ms=60_000), PopNotificationResponse))
    await until(lambda: harness.broker.service.delivery.pop.notices.held.count)
    assert (await harness.ask(change_header(message, 30))).code == 0
    assert (await told).has_message
    assert await harness.code(notice(**order, attempt_id="a" * 257)) == 29


async def test_in_order_the_second_notification_of_the_attempt_that_holds_the_queue_is_told_too(
    harness: Harness,
) -> None:
    await harness.send()
    await pop(harness)
    order: dict[str, Any] = {"order": True, "attempt_id": "a"}
    asked = notice(**order, poll_ms=60_000)
    both = [asyncio.ensure_future(harness.answer(asked, PopNotificationResponse)) for _ in range(2)]
    notices = harness.broker.service.delivery.pop.notices
    while notices.held.count < 2:
        await asyncio.sleep(0)
    await harness.send()
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    assert len(await pop(harness, **order, invisible_ms=60_000)) == 1
    notices.close()  # as when the time of a request is over
    assert [(await told).has_message for told in both] == [True, True]
    other = notice(order=True, attempt_id="b")
    assert not (await harness.answer(other, PopNotificationResponse)).has_message


def peek_header(**fields: Any) -> PeekMessage:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": -1, "count_max": 32}
    return PeekMessage(**settings | fields)


async def peek(harness: Any, **fields: Any) -> tuple[int, int, list[bytes]]:
    answer = await harness.ask(peek_header(**fields))
    header = decode_header(PopResponse, answer.ext_fields)
    assert (header.pop_time_ms, header.invisible_ms, header.start_offset_info) == (0, 0, None)
    return answer.code, header.rest_count, [bytes(record.body) for record in iter_records(answer.body)]


async def test_a_peek_shows_what_waits_and_takes_nothing(harness: Harness) -> None:
    for body in (b"0", b"1", b"2"):
        await harness.send(body=body)
    assert await peek(harness, count_max=2) == (0, 3, [b"0", b"1"])
    assert await peek(harness, count_max=2**31 - 1) == (0, 3, [b"0", b"1", b"2"])
    await pop(harness, count_max=1)
    assert await peek(harness, queue_id=0) == (0, 2, [b"1", b"2"])
    for count_max in (0, -5):
        assert await peek(harness, count_max=count_max) == (19, 2, [])
    await pop(harness)
    assert await peek(harness) == (19, 0, [])
    assert (await harness.ask(peek_header(topic="nowhere"))).code == 17
    assert (await harness.ask(peek_header(queue_id=4))).code == 29


async def test_nothing_is_there_to_be_rolled_back(harness: Harness) -> None:
    answer = await harness.ask(RollBackPops())
    assert (answer.code, answer.body) == (0, b"")
