import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.client.consume.assigned_queue import AssignedQueue, Consumption
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.model.route import MessageQueue
from unit.client.messages import stored
from waiting import until


class FakePuller:
    """A puller whose window the test fills."""

    def __init__(self, count):
        self.queue = MessageQueue("t", "a", 0)
        self.window = ProcessQueue(0)
        self.is_started = True
        self.resumed = 0
        self.window.add([stored(number) for number in range(count)], count)

    def resume(self):
        self.resumed += 1

    def seek(self, queue_offset):
        self.window.seek(queue_offset)


class FakeSendBacks:
    """Takes everything back."""

    def __init__(self):
        self.sent = []

    async def send(self, message, _queue, delay_level):
        self.sent.append((message.queue_offset, delay_level))
        return True


async def find_offset(_queue):
    return 0


class Parts:
    """A queue of some messages, and who is told of it."""

    def __init__(self, tasks, count, *, is_in_place=True, **consumption):
        self.ready = asyncio.Queue()
        self.send_backs = FakeSendBacks()
        self.is_held = True
        make_puller: Any = lambda *_: FakePuller(count)  # noqa: E731
        self.queue = AssignedQueue(
            make_puller,
            find_offset,
            Consumption(
                policy=RedeliveryPolicy(is_in_place=is_in_place, retry_delay_ms=1),
                send_backs=self.send_backs,
                tasks=tasks,
                on_ready=self.ready.put_nowait,
                **consumption,
            ),
            lambda _queue: self.is_held,
        )

    @property
    def window(self):
        return self.queue.puller.window


@asynccontextmanager
async def assigned(count=2, **settings):
    tasks = BackgroundTasks()
    parts = Parts(tasks, count, **settings)
    yield parts
    parts.queue.drop()
    await tasks.close()


async def test_a_batch_is_offered_once_and_again_after_the_commit():
    async with assigned() as parts:
        parts.queue.offer()
        parts.queue.offer()
        assert parts.ready.qsize() == 1
        batch = parts.queue.next_batch(1)
        parts.queue.offer()
        assert parts.ready.qsize() == 1
        assert parts.queue.next_batch(1) is None
        assert batch.commit()
        assert parts.ready.qsize() == 2
        assert parts.queue.puller.resumed == 1


async def test_a_queue_that_is_shared_hands_out_the_next_batch_next_to_the_first():
    async with assigned(3, is_shared=True) as parts:
        parts.queue.offer()
        first = parts.queue.next_batch(1)
        assert not first.is_started
        assert parts.ready.qsize() == 2
        second = parts.queue.next_batch(1)
        assert (first[0].queue_offset, second[0].queue_offset) == (0, 1)
        second.commit()
        assert parts.queue.offset_to_store == 0
        first.commit()
        assert parts.queue.offset_to_store == 2


async def test_a_batch_that_failed_in_place_is_offered_after_a_delay_and_counts_its_attempts():
    async with assigned(1) as parts:
        parts.queue.offer()
        await parts.ready.get()
        assert parts.queue.next_batch(1).retry()
        parts.queue.offer()
        assert parts.queue.next_batch(1) is None
        assert parts.ready.empty()
        await parts.ready.get()
        batch = parts.queue.next_batch(1)
        assert batch.attempt == 2
        batch.commit()
        assert not batch.retry()


async def test_a_message_that_goes_back_to_the_broker_lets_the_queue_go_on():
    async with assigned(3, is_in_place=False) as parts:
        batch = parts.queue.next_batch(2)
        batch.retry(batch[0])
        assert parts.queue.next_batch(1) is None
        batch.ack(batch[1])
        assert parts.queue.next_batch(1)[0].queue_offset == 2
        await until(lambda: parts.queue.offset_to_store == 2)
        assert parts.send_backs.sent == [(0, 0)]


async def test_in_place_or_to_the_dead_letters_when_that_is_asked_for():
    async with assigned(2, is_in_place=False) as parts:
        batch = parts.queue.next_batch(1)
        assert batch.suspend(0)
        assert parts.queue.next_batch(1) is None
        await parts.ready.get()
        batch = parts.queue.next_batch(1)
        assert (batch[0].queue_offset, batch.attempt) == (0, 2)
        assert batch.reject()
        await until(lambda: parts.window.consumed_offset == 1)
        assert parts.send_backs.sent == [(0, -1)]


async def test_without_the_lock_nothing_is_handed_out():
    async with assigned() as parts:
        parts.is_held = False
        parts.queue.offer()
        assert parts.ready.empty()
        assert parts.queue.next_batch(1) is None
        parts.is_held = True
        parts.queue.offer()
        assert parts.ready.qsize() == 1


async def test_what_is_not_settled_in_time_counts_as_failed():
    async with assigned(3, is_in_place=False, expires_ms=1) as parts:
        batch = parts.queue.next_batch(2)
        batch.ack(batch[0])
        await until(lambda: parts.window.consumed_offset == 2)
        assert parts.send_backs.sent == [(1, 0)]
        assert batch.is_settled


async def test_a_revoked_queue_hands_out_nothing_but_what_is_worked_on_may_be_settled():
    async with assigned(3) as parts:
        batch = parts.queue.next_batch(1)
        parts.queue.revoke()
        ended = asyncio.create_task(parts.queue.settled(20_000))
        parts.queue.offer()
        await asyncio.sleep(0)
        assert parts.ready.empty()
        assert not ended.done()
        assert batch.commit()
        await ended
        assert parts.queue.next_batch(1) is None
        assert parts.queue.offset_to_store == 1


async def test_what_waits_for_its_turn_is_abandoned_when_its_queue_is_revoked():
    async with assigned(3, is_shared=True) as parts:
        running, waiting = parts.queue.next_batch(1), parts.queue.next_batch(1)
        assert running.start()
        parts.queue.revoke()
        assert not waiting.start()
        assert running.commit()
        await parts.queue.settled(20_000)
        assert parts.queue.offset_to_store == 1


async def test_waiting_for_the_end_of_a_batch_has_its_own_end():
    async with assigned() as parts:
        batch = parts.queue.next_batch(1)
        await parts.queue.settled(1)
        await parts.queue.sent_back(1)
        assert not batch.is_settled


async def test_a_dropped_queue_gives_and_settles_nothing():
    async with assigned(3, expires_ms=1) as parts, assigned(1) as other:
        batch = parts.queue.next_batch(3)
        other.queue.next_batch(1).retry()
        other.queue.drop()
        parts.queue.drop()
        assert not batch.ack(batch[0])
        assert not batch.retry(batch[1])
        assert not batch.reject(batch[2])
        assert parts.queue.next_batch(1) is None
        parts.queue.offer()
        assert parts.ready.empty()
        await parts.queue.settled(20_000)
        assert parts.send_backs.sent == []
        assert parts.queue.offset_to_store == 0


async def test_only_offsets_that_the_store_lacks_are_to_be_stored():
    async with assigned() as parts:
        found = parts.queue
        assert found.offset_to_store == 0
        found.mark_stored(0)
        assert found.offset_to_store is None
        found.next_batch(1).commit()
        assert found.offset_to_store == 1
        found.puller.is_started = False
        assert found.offset_to_store is None


@pytest.mark.parametrize("way", [AssignedQueue.go_on_at, AssignedQueue.reset_by_broker])
async def test_after_a_reset_nothing_is_begun_that_only_waited_for_its_turn(way):
    async with assigned(3, is_shared=True) as parts:
        begun, waiting = parts.queue.next_batch(1), parts.queue.next_batch(1)
        assert begun.start()
        parts.window.seek(3)
        way(parts.queue, 3)
        assert not waiting.start()
        assert not begun.commit()
        assert parts.window.consumed_offset == 3
        assert parts.queue.offset_to_store == 3, "what a batch of before has stored in between is overwritten"


async def test_a_deferred_batch_that_is_not_settled_comes_again():
    async with assigned(1, is_in_place=False, deferred_ms=1) as parts:
        batch = parts.queue.next_batch(1)
        batch.defer()
        batch.finish()
        await until(lambda: batch.is_settled)
        await until(lambda: parts.send_backs.sent == [(0, 0)])


async def test_a_batch_that_is_settled_after_its_handler_does_not_come_again():
    async with assigned(1, is_in_place=False, deferred_ms=3_600_000) as parts:
        batch = parts.queue.next_batch(1)
        batch.defer()
        batch.finish()
        (timer,) = parts.queue._out.values()
        assert batch.commit()
        assert timer.cancelled()
        parts.queue.deferred(batch)  # it is over
        assert parts.queue._out == {}
