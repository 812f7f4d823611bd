"""Acks and changed times over a connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orbitmq.broker.handlers.pop import PopTables
from orbitmq.broker.handlers.pop_acks import acknowledge_batch
from orbitmq.model.message import StoredMessage
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import BatchAckMessages, ChangeInvisibleTimeResponse
from orbitmq.wire.pop.batch_acks import BatchAck, encode_batch_acks
from orbitmq.wire.pop.handles import format_handle, parse_handle
from unit.broker.handlers.support import ack_header, change_header, handle_of, pop, pop_header
from unit.broker.parts import FakePeer, Serve, call


async def revived(harness: Any) -> None:
    """Let all times be over, and revive what is left."""
    service = harness.broker.service.delivery.pop
    for entry in list(service.revive_log.checkpoints._due):
        entry[2].due_at_ms = 0
    service.revive_log.checkpoints._due = [
        (0, number, entry[2]) for number, entry in enumerate(service.revive_log.checkpoints._due)
    ]
    while service.revival.revive_due():
        pass


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_what_is_acknowledged_never_comes_again(serve: Serve, flush: str) -> None:
    async with serve(flush_disk_type=flush) as harness:
        for body in (b"0", b"1", b"2"):
            await harness.send(body=body)
        messages = await pop(harness)
        assert await harness.code(ack_header(messages[1])) == 0
        await revived(harness)
        again = await pop(harness, poll_ms=60_000)
        assert [message.body for message in again] == [b"0", b"2"]
        for message in again:
            assert await harness.code(ack_header(message)) == 0
        await revived(harness)
        assert await harness.code(pop_header()) == 210


async def test_handles_with_the_commit_log_offset_behind_them_are_taken(harness: Any) -> None:
    """Java's proxy appends it; at the start of the log it reads as the message's offset does."""
    for body in (b"0", b"1", b"2"):
        await harness.send(body=body)
    messages = await pop(harness)
    longer = [f"{handle_of(message)} {message.physical_offset}" for message in messages]
    assert longer[0].endswith(" 0 0")
    for message, handle in zip(messages[:2], longer, strict=False):
        assert await harness.code(ack_header(message, handle=handle)) == 0
    changed = await harness.answer(change_header(messages[2], 5_000, handle=longer[2]), ChangeInvisibleTimeResponse)
    assert changed.invisible_ms == 5_000
    assert harness.broker.service.delivery.pop.revive_log.checkpoints.in_flight == {("t", "g", 0): 1}


async def test_acks_outlast_a_restart(serve: Serve) -> None:
    async with serve() as harness:
        await harness.send(body=b"0")
        await harness.send(body=b"1")
        first, _ = await pop(harness)
        assert await harness.code(ack_header(first)) == 0
    async with serve() as harness:
        assert await harness.code(pop_header()) == 210
        assert harness.broker.service.delivery.pop.revive_log.checkpoints.count == 1
        await revived(harness)
        assert [message.body for message in await pop(harness)] == [b"1"]


async def test_a_late_ack_is_taken_and_changes_nothing(harness: Any) -> None:
    await harness.send()
    (message,) = await pop(harness)
    await revived(harness)
    assert await harness.code(ack_header(message)) == 0
    assert len(await pop(harness)) == 1


async def test_hostile_handles_are_refused_by_name(harness: Any) -> None:
    await harness.send()
    (message,) = await pop(harness)
    own = parse_handle(handle_of(message))
    for fields, code, said in (
        ({"handle": "nonsense"}, 29, "extraInfo"),
        ({"handle": "9" * 200_000}, 29, "200000 characters"),
        ({"handle": "-1 1 1 1 0 a 0 0"}, 29, "checkpoint offset"),
        ({"handle": format_handle(own._replace(broker_name="other"))}, 29, "brokerName: 'other'"),
        ({"queue_offset": -1}, 208, "offset is illegal"),
        ({"queue_offset": 2**62}, 208, "store:0~1"),
        ({"queue_id": 99}, 13, "queueId[99]"),
        ({"topic": "nowhere"}, 17, "topic[nowhere]"),
    ):
        answer = await harness.ask(ack_header(message, **fields))
        assert answer.code == code, fields
        assert said in (answer.remark or "")
        assert len(answer.remark or "") < 500
    # Numbers of another consumer's checkpoint name none: nothing is acknowledged by them.
    for handle in (
        own._replace(start_offset=5),
        own._replace(pop_time_ms=2**62),
        own._replace(revive_queue_id=10**9),
    ):
        assert await harness.code(ack_header(message, handle=format_handle(handle), consumer_group="h")) == 0
    assert harness.broker.service.delivery.pop.revive_log.checkpoints.count == 1


async def test_a_batch_acknowledges_messages_of_many_checkpoints(harness: Any) -> None:
    for number in range(4):
        await harness.send(body=b"%d" % number)
    messages = [*(await pop(harness, count_max=3)), *(await pop(harness, count_max=1))]
    handles = [parse_handle(handle_of(message)) for message in messages]
    acks = [
        BatchAck("g", "t", "0", handle.start_offset, 0, handle.revive_queue_id, handle.pop_time_ms, 1, offsets)
        for handle, offsets in ((handles[0], [0, 2, 99]), (handles[3], [3]))
    ]
    assert await harness.code(BatchAckMessages(), encode_batch_acks("a", acks)) == 0
    await revived(harness)
    assert [message.body for message in await pop(harness)] == [b"1"]


async def test_acks_of_many_checkpoints_are_noted_step_by_step(harness: Any) -> None:
    acks = [BatchAck("g", "t", "0", number, 0, 0, 5, 60_000, [number]) for number in range(250)]
    body, peer = encode_batch_acks("a", acks), FakePeer()
    await harness.send()
    assert acknowledge_batch(PopTables.of(harness.broker.service), call(BatchAckMessages(), body, peer=peer)) is LATER
    assert (peer.turns, [reply.code for reply in peer.replies]) == (4, [0])


async def test_a_batch_of_retries_names_the_topic_that_was_popped(harness: Any) -> None:
    await harness.send()
    await pop(harness)
    await revived(harness)
    (message,) = await pop(harness)
    handle = parse_handle(handle_of(message))
    ack = BatchAck("g", "t", "1", handle.start_offset, 0, handle.revive_queue_id, handle.pop_time_ms, 1, [0])
    assert await harness.code(BatchAckMessages(), encode_batch_acks("a", [ack])) == 0
    assert harness.broker.service.delivery.pop.revive_log.checkpoints.count == 0


async def test_a_batch_that_says_nothing_or_nonsense_is_refused(harness: Any) -> None:
    assert await harness.code(BatchAckMessages()) == 208
    assert await harness.code(BatchAckMessages(), b'{"acks":[]}') == 208
    assert await harness.code(BatchAckMessages(), b"nonsense") == 1
    ack = BatchAck("g", "t", "0", 0, 0, 0, 0, 0, [0])
    assert await harness.code(BatchAckMessages(), encode_batch_acks("other", [ack])) == 29


async def test_a_changed_time_begins_again_under_a_new_handle(harness: Any) -> None:
    await harness.send(body=b"0")
    await harness.send(body=b"1")
    kept, other = await pop(harness)
    response = await harness.answer(change_header(kept, 5_000), ChangeInvisibleTimeResponse)
    old = parse_handle(handle_of(kept))
    assert (response.invisible_ms, response.revive_queue_id) == (5_000, old.revive_queue_id)
    assert response.pop_time_ms > old.pop_time_ms
    assert await harness.code(change_header(kept, 5_000)) == 208  # the old handle has no message any more
    new = format_handle(old._replace(start_offset=0, pop_time_ms=response.pop_time_ms, invisible_ms=5_000))
    kept = replace(kept, properties={**kept.properties, "POP_CK": new})
    assert await harness.code(ack_header(kept)) == 0
    await revived(harness)
    assert [message.body for message in await pop(harness)] == [other.body]


async def test_a_time_of_nothing_gives_a_message_back_immediately(harness: Any) -> None:
    await harness.send(body=b"0")
    (message,) = await pop(harness)
    assert await harness.code(change_header(message, 0)) == 0
    (again,) = await pop(harness, poll_ms=60_000)
    assert (again.body, again.reconsume_times) == (b"0", 1)


async def test_a_time_that_no_message_may_have_is_refused(harness: Any) -> None:
    await harness.send()
    (message,) = await pop(harness)
    assert await harness.code(change_header(message, -1)) == 29
    assert await harness.code(ack_header(message)) == 0
    assert await harness.code(change_header(message, 5_000)) == 208


async def test_acks_and_checkpoints_are_counted_whichever_way_they_come(harness: Any) -> None:
    for _ in range(4):
        await harness.send()
    first, second, third, fourth = await pop(harness, count_max=4)
    for _ in range(2):  # the second time nothing is left to be done
        assert await harness.code(ack_header(first)) == 0
    handle = parse_handle(handle_of(second))
    offsets = [second.queue_offset, third.queue_offset]
    ack = BatchAck("g", "t", "0", handle.start_offset, 0, handle.revive_queue_id, handle.pop_time_ms, 1, offsets)
    nobodys = BatchAck("g", "nobody", "0", 0, 0, 0, 1, 1, [0])
    assert await harness.code(BatchAckMessages(), encode_batch_acks("a", [nobodys, ack])) == 0
    assert await harness.code(change_header(fourth, 60_000)) == 0
    stats = harness.broker.service.monitoring.stats
    assert (stats.acks.total(("t", "g")), stats.ack_count) == (4, 4)
    assert (stats.checkpoints.total(("t", "g")), stats.checkpoint_count) == (2, 2)


def ordered_ack(message: StoredMessage, *offsets: int) -> BatchAck:
    handle = parse_handle(handle_of(message))
    return BatchAck("g", "t", "0", handle.start_offset, 0, 999, handle.pop_time_ms, 1, offsets)


async def test_in_order_a_batch_of_acks_ends_what_it_holds_and_names_what_it_does_not(harness: Any) -> None:
    for body in (b"0", b"1", b"2"):
        await harness.send(body=body)
    first, _ = await pop(harness, order=True, count_max=2)
    refused = await harness.ask(BatchAckMessages(), encode_batch_acks("a", [ordered_ack(first, 2)]))
    assert (refused.code, "offset is illegal" in refused.remark) == (13, True)
    assert (await harness.ask(pop_header(order=True))).code == 210
    assert await harness.code(BatchAckMessages(), encode_batch_acks("a", [ordered_ack(first, 0, 1)])) == 0
    (third,) = await pop(harness, order=True)
    assert third.body == b"2"
    # Done already, or of a pop that is over: taken, and nothing changes.
    assert await harness.code(BatchAckMessages(), encode_batch_acks("a", [ordered_ack(first, 0, 1, 2)])) == 0
    assert (await harness.ask(pop_header(order=True))).code == 210


async def test_in_order_the_time_of_what_is_done_or_anothers_does_not_change(harness: Any) -> None:
    await harness.send()
    (message,) = await pop(harness, order=True)
    answer = await harness.ask(change_header(message, 5_000))
    changed = decode_header(ChangeInvisibleTimeResponse, answer.ext_fields)
    handle = parse_handle(handle_of(message))
    new = format_handle(handle._replace(invisible_ms=changed.invisible_ms))
    assert changed.invisible_ms >= 5_000
    assert await harness.code(ack_header(message, handle=new)) == 0
    assert await harness.code(change_header(message, 5_000)) == 208
