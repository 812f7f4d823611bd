import asyncio
from typing import Any, cast

import pytest

from orbitmq.client.send.accumulator import InFlight, QueueBuffer
from orbitmq.client.send.batch import EncodedBatch
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import RequestTimeout, SendFailed
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.batch import ITEM_SIZE_MIN
from waiting import until

QUEUE = MessageQueue("t", "a", 0)
TARGET = Target("t")


class FakeSender:
    """Keeps the batches; sends them when `may_send` is set, or fails with `error`."""

    def __init__(self):
        self.batches = []
        self.calls = []
        self.error = None
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def send(self, batch, target, *, first):
        if isinstance(batch, EncodedBatch):
            batch = [batch]
        self.batches.append([message.body for message in batch])
        self.calls.append((target, first))
        await self.may_send.wait()
        if self.error is not None:
            raise self.error
        return [SendResult(message.body, "", QUEUE, 0, SendStatus.SEND_OK) for message in batch]


class Parts:
    """A buffer with its neighbours."""

    def __init__(self, batch_size_max=10_000):
        self.sender = cast(Any, FakeSender())
        self.tasks = BackgroundTasks()
        self.in_flight = InFlight(count_max=10_000, size_max=10**9)
        self.buffer = QueueBuffer(self.sender, self.in_flight, self.tasks, QUEUE, TARGET, batch_size_max)

    def append(self, *bodies, is_batchable=True):
        return [self.buffer.append(encoded(body), is_batchable) for body in bodies]


def encoded(body):
    return encode_message(Message("t", body), "ID", compress_over=10**6)


async def test_a_lonely_message_is_sent_immediately_to_the_buffers_queue():
    parts = Parts()
    (future,) = parts.append(b"1")
    assert (await future).message_id == b"1"
    assert parts.sender.calls == [(TARGET, QUEUE)]
    await parts.in_flight.flush()


async def test_messages_gather_while_one_request_is_under_way_and_keep_their_order():
    parts = Parts()
    parts.sender.may_send.clear()
    futures = parts.append(b"1")
    await until(lambda: parts.sender.batches)
    futures += parts.append(b"2", b"3", b"4")
    for _ in range(5):
        await asyncio.sleep(0)
    assert parts.sender.batches == [[b"1"]]
    parts.sender.may_send.set()
    assert [result.message_id for result in await asyncio.gather(*futures)] == [b"1", b"2", b"3", b"4"]
    assert parts.sender.batches == [[b"1"], [b"2", b"3", b"4"]]


async def test_a_buffer_that_was_empty_begins_again():
    parts = Parts()
    await parts.append(b"1")[0]
    await parts.in_flight.flush()
    await asyncio.sleep(0)
    await parts.append(b"2")[0]
    assert parts.sender.batches == [[b"1"], [b"2"]]


async def test_messages_that_travel_alone_part_the_others_but_keep_their_turn():
    parts = Parts()
    futures = [*parts.append(b"1", b"2"), *parts.append(b"3", b"4", is_batchable=False), *parts.append(b"5", b"6")]
    await asyncio.gather(*futures)
    assert parts.sender.batches == [[b"1", b"2"], [b"3"], [b"4"], [b"5", b"6"]]


@pytest.mark.parametrize(("spare", "sizes"), [(0, [2, 1]), (-1, [1, 1, 1])])
async def test_a_batch_is_no_larger_than_a_request_may_be(spare, sizes):
    item_size = encoded(b"x").size + ITEM_SIZE_MIN
    parts = Parts(batch_size_max=2 * item_size + spare)
    await asyncio.gather(*parts.append(b"x", b"x", b"x"))
    assert [len(batch) for batch in parts.sender.batches] == sizes


async def test_a_batch_has_a_thousand_messages_at_most():
    parts = Parts(batch_size_max=10**9)
    await asyncio.gather(*parts.append(*(b"" for _ in range(1_001))))
    assert [len(batch) for batch in parts.sender.batches] == [1_000, 1]


async def test_a_failed_batch_fails_its_messages_and_the_next_flush_and_the_others_go_on():
    parts = Parts()
    parts.sender.error = RequestTimeout("no answer")
    failed = parts.append(b"1", b"2")
    await asyncio.wait(failed)
    assert [future.exception() for future in failed] == [parts.sender.error] * 2
    parts.sender.error = None
    await parts.append(b"3")[0]
    with pytest.raises(SendFailed, match=r"^2 messages"):
        await parts.in_flight.flush()


async def test_what_is_answered_or_failed_is_in_flight_no_more():
    in_flight = InFlight(count_max=2, size_max=10**9)
    parts = Parts()
    buffer = QueueBuffer(parts.sender, in_flight, parts.tasks, QUEUE, TARGET, 10_000)
    for error in (None, RequestTimeout("no answer")):
        parts.sender.error = error
        futures = [buffer.append(encoded(b"x"), True) for _ in range(2)]
        assert not in_flight.has_room
        await asyncio.wait(futures)
        await in_flight.wait_for_room()


async def test_a_caller_that_cancelled_its_future_does_no_harm():
    parts = Parts()
    parts.sender.may_send.clear()
    first, second = parts.append(b"1", b"2")
    await until(lambda: parts.sender.batches)
    first.cancel()
    parts.sender.may_send.set()
    assert (await second).message_id == b"2"
    parts.sender.error = RequestTimeout("no answer")
    parts.sender.may_send.clear()
    third, fourth = parts.append(b"3", b"4")
    await until(lambda: len(parts.sender.batches) == 2)
    third.cancel()
    parts.sender.may_send.set()
    await asyncio.wait([fourth])
    assert isinstance(fourth.exception(), RequestTimeout)


async def test_when_the_client_closes_no_caller_waits_for_ever():
    parts = Parts()
    parts.sender.may_send.clear()
    futures = parts.append(b"1")
    await until(lambda: parts.sender.batches)
    futures += parts.append(b"2", b"3")
    await parts.tasks.close()
    assert all(future.cancelled() for future in futures)
    await parts.in_flight.flush()


async def test_messages_that_were_encoded_together_keep_their_place_and_go_alone():
    parts = Parts()
    parts.sender.may_send.clear()
    parts.append(b"1")
    await until(lambda: parts.sender.batches)
    parts.append(b"2")
    together = parts.buffer.append_batch(EncodedBatch("t", b"34", 2, "ID"))
    parts.append(b"5", b"6")
    parts.sender.may_send.set()
    result: Any = await together
    assert result.message_id == b"34"
    await parts.in_flight.flush()
    assert parts.sender.batches == [[b"1"], [b"2"], [b"34"], [b"5", b"6"]]


async def test_of_messages_that_were_encoded_together_each_one_counts_as_failed():
    parts = Parts()
    parts.sender.error = RequestTimeout("no answer")
    future = parts.buffer.append_batch(EncodedBatch("t", b"34", 2, "ID"))
    await asyncio.wait([future])
    assert isinstance(future.exception(), RequestTimeout)
    with pytest.raises(SendFailed, match="2 messages"):
        await parts.in_flight.flush()


async def test_when_the_client_closes_no_caller_waits_for_messages_that_were_encoded_together():
    parts = Parts()
    parts.sender.may_send.clear()
    future = parts.buffer.append_batch(EncodedBatch("t", b"34", 2, "ID"))
    await until(lambda: parts.sender.batches)
    await parts.tasks.close()
    assert future.cancelled()
    await parts.in_flight.flush()
