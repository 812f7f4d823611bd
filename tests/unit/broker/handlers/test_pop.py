"""Checks that the handlers of POP share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cases import each_case
from orbitmq.client.consume.popped_messages import decode_popped
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.model.topic import Perm
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ChangeInvisibleTimeResponse,
    CreateTopic,
    DeleteTopicInBroker,
    GetPollingCount,
    PopNotification,
    PopResponse,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
    ViewMessage,
)
from orbitmq.wire.messages.record import iter_records, parse_record
from orbitmq.wire.pop.handles import parse_handle
from orbitmq.wire.pop.ordered_batches import OrderedBatch, format_ordered_batches
from unit.broker.conftest import Harness
from unit.broker.handlers.support import ack_header, change_header, handle_of, pop, pop_header
from unit.broker.parts import Serve

PLACE: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": -1}
REQUESTS = [pop_header(), PopNotification(**PLACE, poll_ms=0), GetPollingCount(**PLACE)]


@each_case(*REQUESTS)
async def test_a_group_that_is_switched_off_gets_nothing(header: object, harness: Harness) -> None:
    await harness.send()
    config = GroupConfig(group="g", consume_enable=False)
    assert await harness.code(UpdateSubscriptionGroup(), encode_group_config(config)) == 0
    assert await harness.code(header) == 16


@each_case(*REQUESTS)
async def test_a_topic_that_may_not_be_read_gives_nothing(header: object, harness: Harness) -> None:
    create = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=int(Perm.WRITE),
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    assert await harness.code(create) == 0
    assert await harness.code(header) == 16


PRIORITIES = CreateTopic(
    topic="t", default_topic="TBW102", read_queue_nums=3, write_queue_nums=3, perm=6, topic_filter_type="SINGLE_TAG",
    attributes="+message.type=PRIORITY",
)  # fmt: skip


def prioritized(priority: object, more: str = "") -> str:
    return f"UNIQ_KEY\x01U\x02_SYS_MSG_PRIORITY_\x01{priority}\x02{more}"


async def test_a_message_lies_in_the_queue_of_its_priority_and_higher_ones_are_popped_first(harness: Any) -> None:
    assert await harness.code(PRIORITIES) == 0
    for priority in (0, 2, 1, 9, 0, 2, 1, 9):  # the second time on the fast path, if it took them
        sent = await harness.send(body=b"%d" % priority, properties=prioritized(priority))
        assert sent.ext_fields["queueId"] == str(min(priority, 2))
    for expected in (b"2", b"9", b"2", b"9", b"1", b"1", b"0", b"0"):
        answer = await harness.ask(pop_header(count_max=1))
        assert [bytes(record.body) for record in iter_records(answer.body)] == [expected]


@each_case("__SHARDINGKEY\x01k\x02", "DELAY\x0118\x02", "DELAY\x010\x02", "TIMER_DELAY_MS\x0160000\x02")
async def test_a_message_of_another_type_has_no_priority(more: str, harness: Any) -> None:
    assert await harness.code(PRIORITIES) == 0
    sent = await harness.send(properties=prioritized(2, more))
    assert sent.ext_fields["queueId"] == "0"
    record = parse_record((await harness.ask(ViewMessage(physical_offset=0))).body)
    assert b"PRIORITY" not in record.properties


@each_case("-1", "x", "", "2147483648", "9" * 5_000)
async def test_what_is_not_a_priority_stays_in_the_queue_of_its_producer(priority: str, harness: Any) -> None:
    assert await harness.code(PRIORITIES) == 0
    sent = await harness.send(properties=prioritized(priority), queue_id=1)
    assert sent.ext_fields["queueId"] == "1"


async def held(harness: Any, count: int = 1) -> None:
    while harness.broker.service.delivery.pop.waiting.held.count < count:
        await asyncio.sleep(0)


async def test_messages_come_with_what_makes_their_handles(harness: Any) -> None:
    await harness.send(body=b"0")
    await harness.send(body=b"1")
    answer = await harness.ask(pop_header())
    header = decode_header(PopResponse, answer.ext_fields)
    assert (header.start_offset_info, header.message_offset_info, header.rest_count) == ("0 0 0", "0 0 0,1", 0)
    assert header.invisible_ms == 60_000
    first, second = decode_popped(answer, "t", "a")[0]
    time_ms, queue = header.pop_time_ms, header.revive_queue_id
    assert handle_of(first) == f"0 {time_ms} 60000 {queue} 0 a 0 0"
    assert handle_of(second) == f"0 {time_ms} 60000 {queue} 0 a 0 1"
    assert (await harness.ask(pop_header())).code == 210


async def test_a_pop_waits_for_the_first_message(harness: Any) -> None:
    await harness.send()
    await pop(harness)
    waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000)))
    await held(harness)
    await harness.send(body=b"now")
    (message,) = decode_popped(await waiting, "t", "a")[0]
    assert message.body == b"now"


async def test_a_pop_that_waits_hears_of_retries(harness: Any) -> None:
    await harness.send(body=b"again")
    await pop(harness, invisible_ms=0)
    waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000)))
    (message,) = decode_popped(await waiting, "t", "a")[0]
    assert (message.body, message.reconsume_times, message.topic) == (b"again", 1, "t")


async def test_a_pop_is_answered_with_nothing_when_its_time_is_over(harness: Any) -> None:
    await harness.send()
    await pop(harness)
    answer = await harness.ask(pop_header(poll_ms=20))
    assert answer.code == 210
    assert decode_header(PopResponse, answer.ext_fields).rest_count == 0


async def test_too_many_pops_do_not_wait(serve: Serve) -> None:
    async with serve(pop_polling_size=1) as harness:
        await harness.send()
        await pop(harness)
        waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000)))
        await held(harness)
        assert (await harness.ask(pop_header(poll_ms=60_000))).code == 209
        await harness.send()
        assert (await waiting).code == 0


async def test_more_than_one_answer_holds_wakes_the_next_who_waits(harness: Any) -> None:
    await harness.send()
    await pop(harness)
    asked = [asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000, count_max=1))) for _ in range(2)]
    await held(harness, 2)
    service = harness.broker.service
    # Two messages in one batch of the loop: one wake-up may stand for both.
    for body in (b"0", b"1"):
        service.sends.sending.store.append(service.sends.sending.store.message_at("t", 0, 0) and _draft(body))
    answers = await asyncio.gather(*asked)
    assert [answer.code for answer in answers] == [0, 0]


def _draft(body: bytes) -> Any:
    from orbitmq.store import Draft

    return Draft("t", 0, body)


async def test_expressions_filter_and_wait(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        await harness.send(body=b"cheap", properties="price\x011\x02")
        sql = {"expression": "price > 5", "expression_type": "SQL92"}
        waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000, **sql)))
        await held(harness)
        await harness.send(body=b"cheap again", properties="price\x012\x02")
        await harness.send(body=b"dear", properties="price\x019\x02")
        (message,) = decode_popped(await waiting, "t", "a")[0]
        assert message.body == b"dear"


async def test_what_no_pop_may_ask_is_refused_by_name(harness: Any) -> None:
    await harness.send()
    for fields, code, said in (
        ({"count_max": 33}, 29, "greater than 32"),
        ({"count_max": -1}, 29, "maxMsgNums"),
        ({"invisible_ms": -1}, 29, "invisibleTime: -1"),
        ({"invisible_ms": 2**62}, 29, "expected 0 to 259200000 ms"),
        ({"queue_id": 4}, 29, "queueId[4]"),
        ({"queue_id": -2}, 29, "queueId[-2]"),
        ({"topic": "nowhere"}, 17, "topic[nowhere]"),
        ({"order": True, "attempt_id": "a" * 257}, 29, "attemptId: 257 characters"),
        ({"expression": "||", "expression_type": "TAG"}, 23, ""),
    ):
        answer = await harness.ask(pop_header(**fields))
        assert answer.code == code, fields
        assert said in (answer.remark or "")


async def test_who_pops_no_message_gets_none_and_takes_none(harness: Any) -> None:
    await harness.send()
    answer = await harness.ask(pop_header(count_max=0, poll_ms=60_000))
    assert (answer.code, answer.body) == (ResponseCode.POLLING_TIMEOUT, b"")
    assert len(await pop(harness)) == 1


async def test_a_group_that_may_not_be_made_is_refused(serve: Serve) -> None:
    async with serve(auto_create_subscription_group=False) as harness:
        await harness.send()
        assert (await harness.ask(pop_header())).code == 26


async def test_a_broker_that_may_not_be_read_gives_nothing(serve: Serve) -> None:
    async with serve(broker_permission=2) as harness:
        assert (await harness.ask(pop_header())).code == 16


async def test_too_many_checkpoints_are_told_of(serve: Serve) -> None:
    async with serve(pop_checkpoints_max=1) as harness:
        await harness.send()
        await harness.send()
        await pop(harness, count_max=1)
        answer = await harness.ask(pop_header())
        assert answer.code == 215
        assert "popCheckpointsMax" in (answer.remark or "")


async def test_pops_of_a_deleted_topic_are_told(harness: Any) -> None:
    await harness.send()
    await pop(harness)
    waiting = asyncio.ensure_future(harness.ask(pop_header(poll_ms=60_000)))
    await held(harness)
    assert await harness.code(DeleteTopicInBroker(topic="t")) == 0
    assert (await waiting).code == 17


async def test_a_store_that_takes_nothing_gives_nothing(harness: Any) -> None:
    await harness.send()
    harness.broker.service.store._change(full="no room")
    answer = await harness.ask(pop_header())
    harness.broker.service.store._change(full=None)
    assert (answer.code, answer.remark) == (14, "no room")
    assert len(await pop(harness)) == 1


async def test_in_order_a_pop_waits_until_the_messages_before_are_acknowledged(harness: Any) -> None:
    await harness.send(body=b"0")
    await harness.send(body=b"1")
    order: dict[str, Any] = {"order": True, "count_max": 1}
    answer = await harness.ask(pop_header(**order, attempt_id="a"))
    header = decode_header(PopResponse, answer.ext_fields)
    assert (header.revive_queue_id, header.order_count_info) == (999, "0 0 0")
    (first,) = decode_popped(answer, "t", "a")[0]
    nothing = decode_header(PopResponse, (await harness.ask(pop_header(**order))).ext_fields)
    assert (nothing.revive_queue_id, nothing.rest_count, nothing.order_count_info) == (999, 0, "")
    waiting = asyncio.ensure_future(harness.ask(pop_header(**order, poll_ms=60_000)))
    await held(harness)
    assert await harness.code(ack_header(first)) == 0
    (second,) = decode_popped(await waiting, "t", "a")[0]
    assert second.body == b"1"


async def test_in_order_a_pop_waits_until_the_time_of_those_before_is_over(harness: Any) -> None:
    await harness.send(body=b"0")
    order: dict[str, Any] = {"order": True, "count_max": 1}
    harness.broker.service.delivery.pop.waiting.wake_overtaken = lambda: None  # the net under lost wake-ups
    (first,) = await pop(harness, **order, invisible_ms=40)
    waiting = asyncio.ensure_future(harness.ask(pop_header(**order, poll_ms=10_000)))
    await held(harness)
    (again,) = decode_popped(await waiting, "t", "a")[0]
    assert (again.body, again.reconsume_times, first.reconsume_times) == (b"0", 1, 0)
    # Given back by its consumer, it comes immediately.
    waiting = asyncio.ensure_future(harness.ask(pop_header(**order, poll_ms=60_000)))
    await held(harness)
    answer = await harness.ask(change_header(again, 0))
    changed = decode_header(ChangeInvisibleTimeResponse, answer.ext_fields)
    assert (changed.pop_time_ms, changed.revive_queue_id) == (parse_handle(handle_of(again)).pop_time_ms, 999)
    (third,) = decode_popped(await waiting, "t", "a")[0]
    assert (third.body, third.reconsume_times) == (b"0", 2)


async def test_in_order_batches_outlast_a_restart(serve: Serve) -> None:
    async with serve() as harness:
        for body in (b"0", b"1", b"2"):
            await harness.send(body=body)
        first, _ = await pop(harness, order=True, count_max=2, attempt_id="a")
        assert await harness.code(ack_header(first)) == 0
    async with serve() as harness:
        assert (await harness.ask(pop_header(order=True))).code == 210
        again = await pop(harness, order=True, attempt_id="a")
        assert [message.body for message in again] == [b"1", b"2"]


async def test_in_order_an_offset_that_was_set_is_not_moved_by_acks_of_what_was_out(harness: Any) -> None:
    for body in (b"0", b"1", b"2"):
        await harness.send(body=body)
    (first,) = await pop(harness, order=True, count_max=1)
    assert await harness.code(ack_header(first)) == 0
    (second,) = await pop(harness, order=True, count_max=1)
    waiting = asyncio.ensure_future(harness.ask(pop_header(order=True, poll_ms=60_000)))
    await held(harness)
    place: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": second.queue_id}
    assert await harness.code(UpdateConsumerOffset(**place, commit_offset=1)) == 0  # where it is: nothing is set
    assert harness.broker.service.delivery.pop.ordered.count == 1
    assert await harness.code(UpdateConsumerOffset(**place, commit_offset=0)) == 0
    assert await harness.code(ack_header(second)) == 0
    again = decode_popped(await waiting, "t", "a")[0]
    assert [message.body for message in again] == [b"0", b"1", b"2"]


async def test_in_order_a_batch_with_messages_that_a_power_cut_took_is_out_no_longer(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as harness:
        await harness.send(body=b"0")
    lost, kept = (OrderedBatch(offsets, now_ms(), 60_000, now_ms()) for offsets in ((0, 1), (0,)))
    content = format_ordered_batches([(("t", "g", 0), lost), (("t", "h", 0), kept)])
    (tmp_path / "store" / "config" / "consumerOrderInfo.json").write_bytes(content)
    async with serve() as harness:
        assert harness.broker.service.delivery.pop.ordered.count == 1
        (found,) = await pop(harness, order=True)
        assert found.body == b"0"


async def test_a_pop_whose_messages_could_not_be_stored_again_is_refused(harness: Any) -> None:
    await harness.send()
    for length, code in ((246, 0), (247, 29)):  # %RETRY%, the group's name, _, and t: 255 at most
        answer = await harness.ask(pop_header(consumer_group="g" * length))
        assert answer.code == code, answer.remark
    assert "consumerGroup: 247 characters are not allowed, expected at most 246" in str(answer.remark)
