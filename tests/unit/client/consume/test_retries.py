import asyncio
from contextlib import asynccontextmanager

from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.retries import Retries
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.model.route import MessageQueue
from unit.client.messages import stored
from waiting import until

QUEUE = MessageQueue("t", "a", 0)


class FakeSendBacks:
    """Notes what is sent back; takes it when `gate` is open, and as long as `is_taking`."""

    def __init__(self):
        self.sent = []
        self.is_taking = True
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, message, queue, delay_level):
        assert queue == QUEUE
        self.sent.append((message.queue_offset, delay_level))
        await self.gate.wait()
        return self.is_taking


class Parts:
    """Retries with their neighbours; `batch` has been handed out."""

    def __init__(self, tasks, **policy):
        self.window = ProcessQueue(0)
        self.window.add([stored(number) for number in range(4)], 4)
        self.batch = self.window.next_batch(3)
        self.send_backs = FakeSendBacks()
        self.changes = 0
        self.retries = Retries(
            QUEUE,
            self.window,
            RedeliveryPolicy(**{"retry_delay_ms": 1, **policy}),
            self.send_backs,
            tasks,
            self.changed,
        )

    def changed(self):
        self.changes += 1

    def next(self):
        return [(message.queue_offset, message.attempt) for message in self.window.next_batch(9)]


@asynccontextmanager
async def retries(**policy):
    tasks = BackgroundTasks()
    parts = Parts(tasks, **policy)
    yield parts
    parts.retries.close()
    await tasks.close()


async def test_a_message_that_goes_back_holds_the_offset_until_the_broker_has_it():
    async with retries() as parts:
        parts.send_backs.gate.clear()
        first, *others = parts.batch
        assert parts.retries.retry([first], 0)
        assert parts.window.settle(others)
        await until(lambda: parts.send_backs.sent == [(0, 0)])
        assert parts.window.consumed_offset == 0
        assert not parts.retries.is_suspended
        assert parts.next() == [(3, 1)]
        parts.send_backs.gate.set()
        await parts.retries.sent(20_000)
        assert parts.window.consumed_offset == 3
        assert parts.changes == 1


async def test_what_the_broker_does_not_take_comes_again_from_here_and_the_queue_goes_on():
    async with retries() as parts:
        parts.send_backs.is_taking = False
        parts.retries.retry(parts.batch[:1], 0)
        assert parts.next() == [(3, 1)]
        await until(lambda: parts.window.is_ready)
        assert parts.next() == [(0, 2)]


async def test_a_level_that_was_asked_for_is_told_and_giving_up_has_its_own():
    async with retries() as parts:
        parts.retries.retry(parts.batch[:1], 7)
        parts.retries.reject(parts.batch[1:2])
        await until(lambda: parts.window.consumed_offset == 2)
        assert parts.send_backs.sent == [(0, 7), (1, -1)]


async def test_in_place_messages_come_again_before_the_rest_after_a_pause():
    async with retries(is_in_place=True, retry_delay_ms=60_000) as parts:
        assert parts.retries.retry(parts.batch, 0)
        assert parts.retries.is_suspended
        assert parts.send_backs.sent == []
    async with retries(is_in_place=True) as parts:
        parts.retries.retry(parts.batch, 0)
        await until(lambda: not parts.retries.is_suspended)
        assert parts.changes >= 1
        assert [parts.next() for _ in range(4)] == [[(0, 2)], [(1, 2)], [(2, 2)], [(3, 1)]]


async def test_two_suspensions_end_with_the_longer_one():
    async with retries(is_in_place=True) as parts:
        parts.retries.suspend(parts.batch[:1], 60_000)
        parts.retries.suspend(parts.batch[1:], 0)
        await until(lambda: parts.changes)
        assert parts.retries.is_suspended


async def test_in_place_the_last_attempt_ends_with_the_dead_letters_and_the_others_come_again():
    async with retries(is_in_place=True, max_attempts=2) as parts:
        parts.retries.retry(parts.batch, 0)
        await until(lambda: not parts.retries.is_suspended)
        again = parts.window.next_batch(1)
        parts.retries.retry(again, 0)
        assert parts.retries.is_suspended
        await until(lambda: not parts.retries.is_suspended)
        assert parts.send_backs.sent == [(0, -1)]
        assert parts.window.consumed_offset == 1
        assert parts.next() == [(1, 2)]


async def test_in_place_what_cannot_become_a_dead_letter_comes_again():
    async with retries(is_in_place=True, max_attempts=1) as parts:
        parts.send_backs.is_taking = False
        parts.retries.retry(parts.batch[:1], 0)
        await until(lambda: not parts.retries.is_suspended)
        assert parts.next() == [(0, 2)]


async def test_in_place_giving_up_holds_the_queue_until_the_letter_is_stored():
    async with retries(is_in_place=True) as parts:
        parts.send_backs.gate.clear()
        parts.retries.reject(parts.batch[:1])
        assert parts.retries.is_suspended
        parts.send_backs.gate.set()
        await until(lambda: not parts.retries.is_suspended)
        assert parts.window.consumed_offset == 1


async def test_a_message_that_is_not_ours_any_more_is_left_alone():
    async with retries() as parts:
        parts.window.settle(parts.batch[:1])
        assert not parts.retries.retry(parts.batch[:2], 0)
        await until(lambda: parts.window.consumed_offset == 2)
        assert parts.send_backs.sent == [(1, 0)]
        parts.window.seek(0)
        assert not parts.retries.suspend(parts.batch, None)


async def test_waiting_for_what_is_on_its_way_ends_in_time():
    async with retries() as parts:
        await parts.retries.sent(0)
        parts.send_backs.gate.clear()
        parts.retries.retry(parts.batch, 0)
        await parts.retries.sent(1)
        assert parts.window.consumed_offset == 0


async def test_after_the_end_nothing_comes_again():
    async with retries(is_in_place=True) as parts:
        parts.retries.retry(parts.batch, 0)
        parts.retries.close()
        parts.retries.suspend(parts.window.next_batch(1), 0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert parts.retries.is_suspended
        assert parts.changes == 0
