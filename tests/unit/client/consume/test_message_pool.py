import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.handler_pools import MessagePool, ReadyQueues
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.model.route import MessageQueue
from unit.client.messages import stored
from waiting import until


class FakeQueue:
    """A shared queue that hands out its messages, and notes in which order they are settled, and how."""

    def __init__(self, number, messages, settled):
        self.queue = MessageQueue("t", "a", number)
        self.waiting = list(messages)
        self.settled = settled
        self.is_over = False

    def next_batch(self, count_max):
        assert count_max == 1
        return Batch(self.queue, [self.waiting.pop(0)], self, is_started=False)

    def begun(self, batch):
        pass

    def done(self, messages):
        self.settled.append(("done", messages[0].queue_offset))
        return True

    def failed(self, messages, delay_level):
        self.settled.append(("failed", messages[0].queue_offset))
        return True

    def suspended(self, messages, delay_ms):
        raise AssertionError("the pool itself holds what failed in place")

    def rejected(self, messages):
        raise AssertionError("the pool itself gives up")

    def deferred(self, batch):
        raise AssertionError("nobody has the batch to defer it")

    def batch_ended(self, batch):
        pass


class FakeSendBacks:
    """Takes every message but the first `refused` ones."""

    def __init__(self):
        self.sent = []
        self.refused = 0

    async def send(self, message, _queue, delay_level):
        self.sent.append((message.queue_offset, message.attempt, delay_level))
        self.refused -= 1
        return self.refused < 0


class Pool:
    """A pool with its neighbours."""

    def __init__(self, handler, tasks, *, concurrency=4, timeout_ms=60_000, key=None, **policy):
        self.settled = []
        self.send_backs = FakeSendBacks()
        self.ready: Any = ReadyQueues(1)
        self.pool = MessagePool(
            "g",
            self.ready,
            handler,
            key=key,
            policy=RedeliveryPolicy(**{"retry_delay_ms": 1, **policy}),
            send_backs=self.send_backs,
            concurrency=concurrency,
            timeout_ms=timeout_ms,
            tasks=tasks,
        )
        self.pool.start()

    def put(self, *keys, queue=0):
        """Put a message of each key into a queue, at offsets 0, 1 ..."""
        messages = [replace(stored(number), properties={"key": key}) for number, key in enumerate(keys)]
        found = FakeQueue(queue, messages, self.settled)
        for _ in messages:
            self.ready.put(found)
        return found


@asynccontextmanager
async def pool(handler, **settings):
    tasks = BackgroundTasks()
    found = Pool(handler, tasks, **settings)
    yield found
    if isinstance(handler, Handling):
        handler.end_all()
    found.ready.close()
    await found.pool.drain(20_000)
    await tasks.close()


def key_of(message):
    return message.properties["key"] or None


async def idle():
    for _ in range(50):
        await asyncio.sleep(0)


class Handling:
    """A handler whose messages wait until the test lets each of them end."""

    def __init__(self):
        self.begun = []
        self.ends = []
        self.is_over = False

    async def __call__(self, message):
        self.begun.append(message.queue_offset)
        if not self.is_over:
            end = asyncio.get_running_loop().create_future()
            self.ends.append((message.queue_offset, end))
            await end

    def end(self, offset, error=None):
        """Let the last message that was begun with this offset end."""
        at = max(at for at, (begun, _) in enumerate(self.ends) if begun == offset)
        end = self.ends.pop(at)[1]
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)

    def end_all(self):
        """Let every message end, those to come, too."""
        self.is_over = True
        for _, end in self.ends:
            if not end.done():
                end.set_result(None)


async def test_keys_go_on_next_to_one_another_and_each_stays_in_order():
    handle = Handling()
    async with pool(handle, key=key_of) as found:
        found.put("a", "a", "b", "a", "b")
        await idle()
        assert handle.begun == [0, 2]
        handle.end(0)
        await idle()
        assert handle.begun == [0, 2, 1]
        handle.end(2)
        await idle()
        assert handle.begun == [0, 2, 1, 4]
        for offset in (4, 1):
            handle.end(offset)
        await idle()
        handle.end(3)
        await until(lambda: found.settled == [("done", offset) for offset in (0, 2, 4, 1, 3)])


async def test_messages_without_a_key_wait_for_none():
    handle = Handling()
    async with pool(handle, key=key_of) as found:
        found.put("", "", "a", "a", "")
        await idle()
        assert handle.begun == [0, 1, 2, 4]
        for offset in (0, 1, 2, 4):
            handle.end(offset)
        await idle()
        handle.end(3)


async def test_concurrency_bounds_the_handlers():
    handle = Handling()
    async with pool(handle, key=key_of, concurrency=2) as found:
        found.put("", "", "")
        await idle()
        assert handle.begun == [0, 1]
        handle.end(1)
        await idle()
        assert handle.begun == [0, 1, 2]
        handle.end(0)
        handle.end(2)


@pytest.mark.parametrize("key", [None, key_of])
async def test_in_order_messages_without_a_key_stay_in_their_queues_order(key):
    handle = Handling()
    async with pool(handle, key=key, is_in_place=True) as found:
        found.put("", "")
        found.put("", queue=1)
        await idle()
        assert handle.begun == [0, 0]
        handle.end(0)
        await idle()


async def test_a_message_that_fails_goes_back_and_its_key_goes_on(caplog):
    async def handle(message):
        if message.queue_offset == 0:
            raise ValueError("poison")

    async with pool(handle, key=key_of) as found:
        found.put("a", "a", "b")
        await until(lambda: len(found.settled) == 3)
        assert sorted(found.settled) == [("done", 1), ("done", 2), ("failed", 0)]
    assert "the handler failed on message" in caplog.messages[0]
    assert "poison" in caplog.text


async def test_in_place_a_message_that_fails_holds_its_key_and_no_other():
    attempts = []

    async def handle(message):
        attempts.append((message.queue_offset, message.attempt))
        if message.queue_offset == 0 and message.attempt < 3:
            raise ValueError("not yet")

    async with pool(handle, key=key_of, is_in_place=True) as found:
        found.put("a", "a", "b")
        await until(lambda: len(found.settled) == 3)
        assert [offset for _, offset in found.settled] == [2, 0, 1]
    assert [attempt for attempt in attempts if attempt[0] == 0] == [(0, 1), (0, 2), (0, 3)]


async def test_in_place_the_last_attempt_ends_with_the_dead_letters_and_the_key_goes_on():
    async def handle(message):
        if message.queue_offset == 0:
            raise ValueError("poison")

    async with pool(handle, is_in_place=True, max_attempts=3) as found:
        found.send_backs.refused = 1
        found.put("a", "a")
        await until(lambda: len(found.settled) == 2)
        assert found.settled == [("done", 0), ("done", 1)]
        assert found.send_backs.sent == [(0, 3, -1), (0, 4, -1)]  # the first one was refused


@pytest.mark.parametrize("key", [lambda message: message.properties["no such"], lambda _message: []])
async def test_a_key_that_cannot_be_told_is_none(key, caplog):
    async with pool(lambda _message: None, key=key) as found:
        found.put("a", "b")
        await until(lambda: len(found.settled) == 2)
    assert "no key for message" in caplog.text


async def test_what_was_given_away_before_its_turn_is_not_begun():
    handle = Handling()
    async with pool(handle) as found:
        queue = found.put("a", "b")
        await idle()
        queue.is_over = True
        handle.end(0, ValueError("late"))
        await until(lambda: found.settled == [("failed", 0)])
        assert queue.waiting == []


async def test_in_place_a_message_whose_queue_goes_is_not_begun_again():
    handle = Handling()
    async with pool(handle, is_in_place=True) as found:
        queue = found.put("a")
        await idle()
        queue.is_over = True
        handle.end(0, ValueError("late"))
        await idle()
        assert handle.begun == [0]
        assert found.settled == []


async def test_the_end_waits_for_running_handlers_and_begins_no_others():
    handle = Handling()
    tasks = BackgroundTasks()
    found = Pool(handle, tasks, concurrency=1)
    found.put("a", "b")
    await idle()
    found.ready.close()
    draining = asyncio.create_task(found.pool.drain(20_000))
    await idle()
    assert not draining.done()
    handle.end(0)
    await draining
    assert handle.begun == [0]
    assert found.settled == [("done", 0)]
    await tasks.close()
