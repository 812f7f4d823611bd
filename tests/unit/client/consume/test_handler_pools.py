"""The pool of handlers, and the order of queues and keys."""

import asyncio
import logging
from typing import Any

import pytest

from orbitmq.client.consume.handler_pools import HandlerPool, KeyQueues, ReadyQueues
from orbitmq.client.session.owning_loop import BackgroundTasks
from waiting import until


class FakeBatch:
    """A batch that notes how it was settled."""

    attempt = 3
    decode_error = None

    def __init__(self):
        self.settled = []

    def finish(self):
        self.settled.append("commit")

    def retry(self):
        self.settled.append("retry")

    def __repr__(self):
        return "<a batch>"


class FakeReady:
    """Batches that are ready, then none."""

    def __init__(self, count):
        self.batches = [FakeBatch() for _ in range(count)]
        self._left = list(self.batches)

    async def next_batch(self):
        return self._left.pop(0) if self._left else None

    @property
    def settled(self):
        return [batch.settled for batch in self.batches]


async def handle(handler, count=2, *, concurrency=1, timeout_ms=60_000):
    """Return how the batches were settled."""
    ready: Any = FakeReady(count)
    pool = HandlerPool("g", ready, handler, concurrency=concurrency, timeout_ms=timeout_ms, tasks=BackgroundTasks())
    pool.start()
    await pool.drain(20_000)
    return ready.settled


async def coroutine(_batch):
    await asyncio.sleep(0)


@pytest.mark.parametrize("handler", [coroutine, lambda _batch: None, lambda _batch: "anything"])
async def test_a_handler_that_returns_has_done_its_batch(handler):
    assert await handle(handler) == [["commit"]] * 2


async def fail(_batch):
    raise ValueError("not yet")


async def test_a_handler_that_raises_gets_its_batch_again_and_the_error_is_logged(caplog):
    assert await handle(fail) == [["retry"]] * 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert caplog.messages[0] == "group g: the handler failed on <a batch>, attempt 3"
    assert "not yet" in caplog.text


@pytest.mark.parametrize("concurrency", [1, 2, 5])
async def test_as_many_batches_are_handled_together_as_are_allowed(concurrency):
    running = most = 0

    async def count(_batch):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10):
            await asyncio.sleep(0)
        running -= 1

    await handle(count, 10, concurrency=concurrency)
    assert most == concurrency


async def test_draining_waits_for_running_handlers_but_not_for_ever():
    begun, may_end = asyncio.Event(), asyncio.Event()
    ready: Any = FakeReady(1)
    tasks = BackgroundTasks()

    async def wait(_batch):
        begun.set()
        await may_end.wait()

    pool = HandlerPool("g", ready, wait, concurrency=2, timeout_ms=60_000, tasks=tasks)
    pool.start()
    await begun.wait()
    await pool.drain(1)
    assert ready.settled == [[]]
    draining = asyncio.create_task(pool.drain(20_000))
    await asyncio.sleep(0)
    assert not draining.done()
    may_end.set()
    await draining
    assert ready.settled == [["commit"]]
    await tasks.close()


async def test_a_pool_that_never_started_is_drained_immediately():
    ready: Any = FakeReady(1)
    pool = HandlerPool("g", ready, coroutine, concurrency=1, timeout_ms=60_000, tasks=BackgroundTasks())
    await pool.drain(20_000)


async def test_a_cancelled_handler_settles_nothing():
    ready: Any = FakeReady(1)
    tasks = BackgroundTasks()
    begun = asyncio.Event()

    async def wait(_batch):
        begun.set()
        await asyncio.Event().wait()

    HandlerPool("g", ready, wait, concurrency=1, timeout_ms=60_000, tasks=tasks).start()
    await begun.wait()
    await tasks.close()
    await until(lambda: ready.settled == [[]])


async def test_a_handler_that_takes_too_long_is_cancelled_and_has_failed(caplog):
    cancelled = []

    async def hang(_batch):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    assert await handle(hang, 1, timeout_ms=1) == [["retry"]]
    assert cancelled == ["cancelled"]
    assert "TimeoutError" in caplog.text


class FakeQueue:
    """A queue with these batches."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.asked = []

    def next_batch(self, count_max):
        self.asked.append(count_max)
        return self.batches.pop(0) if self.batches else None


async def test_batches_come_in_the_order_in_which_their_queues_became_ready():
    ready: Any = ReadyQueues(32)
    first, second = FakeQueue("1"), FakeQueue("2")
    ready.put(first)
    ready.put(second)
    assert [await ready.next_batch(), await ready.next_batch()] == ["1", "2"]
    assert first.asked == [32]


async def test_a_batch_is_waited_for():
    ready: Any = ReadyQueues(32)
    waiting = asyncio.create_task(ready.next_batch())
    await asyncio.sleep(0)
    assert not waiting.done()
    ready.put(FakeQueue("1"))
    assert await waiting == "1"


async def test_a_queue_that_was_given_away_meanwhile_is_passed_over():
    ready: Any = ReadyQueues(32)
    ready.put(FakeQueue())
    ready.put(FakeQueue("1"))
    assert await ready.next_batch() == "1"


async def test_closing_ends_all_present_and_future_waiters():
    ready: Any = ReadyQueues(32)
    waiting = [asyncio.create_task(ready.next_batch()) for _ in range(3)]
    await asyncio.sleep(0)
    ready.close()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await ready.next_batch() is None


async def test_closing_hands_out_nothing_more():
    ready: Any = ReadyQueues(32)
    queue = FakeQueue("1")
    ready.put(queue)
    ready.close()
    assert await ready.next_batch() is None
    assert queue.asked == []


def test_items_of_a_key_have_their_turns_one_after_the_other():
    lanes: KeyQueues[int] = KeyQueues()
    assert lanes.put("a", 1)
    assert not lanes.put("a", 2)
    assert lanes.first("a") == 1
    assert lanes.advance("a")
    assert lanes.first("a") == 2
    assert not lanes.put("a", 3)
    assert lanes.advance("a")
    assert not lanes.advance("a")
    assert lanes.put("a", 4)


def test_keys_do_not_wait_for_one_another_and_leave_nothing_behind():
    lanes: KeyQueues[int] = KeyQueues()
    assert lanes.put("a", 1)
    assert lanes.put(("b", 2), 2)
    assert len(lanes) == 2
    assert not lanes.advance("a")
    assert not lanes.advance(("b", 2))
    assert len(lanes) == 0
