"""kill -9 of a broker's process in the midst of keyed messages, timers, pops, transactions and requests, by our own clients.

After each restart every message that was acknowledged is found by its key and by its id. In the end every timer has come, none
before its time, and each once more at most for each kill; every message to be popped has been acknowledged, and none came
after the broker had taken its ack; every transaction that was committed has been delivered once, and no other has. Each reply
belongs to its request.
"""

from __future__ import annotations

import asyncio
from bisect import bisect
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from crash.kills import Lost
from orbitmq import (
    Batch,
    ClientError,
    Decision,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    StoredMessage,
    TransactionProducer,
)
from orbitmq.admin.client import AdminClient
from orbitmq.clock import now_ms
from orbitmq.errors import ConnectionFailed, RequestTimeout, RouteNotFound
from orbitmq.testing import LocalCluster

T = TypeVar("T")

KEYED, LATER, POPPED, DECIDED, QUESTIONS, GROUP = "keyed", "later", "popped", "decided", "questions", "clerks"
DELAYS_MS = (1_000, 2_000, 3_000)
TIMERS_PER_S = 60
INVISIBLE_MS = 1_500
ASKED = 40
"""Messages that are asked for after each kill: the newest, and others by chance."""
TIMEOUT_S = 60
"""A look-up that is refused as too early, or not answered, is asked again for so long."""
SETTINGS = {
    "mapped_file_size_commit_log": 256 * 1024,
    "mapped_file_size_consume_queue": 400 * 20,
    "mapped_file_size_timer_log": 65_536,
    "max_hash_slot_num": 64,
    "max_index_num": 500,
    "flush_consumer_offset_interval": 500,
    "transaction_time_out": 100,
    "transaction_check_interval": 200,
    "transaction_check_max": 1_000_000,
}
REPLY_TIMEOUT_MS = 2_000


class Kills:
    """The load, and what it knows.

    Args:
        pace: messages that are popped and acknowledged between two kills, at most.
    """

    def __init__(self, home: Path, random: Random, *, flush: str, pace: int) -> None:
        self.counts: Counter[str] = Counter()
        self._random = random
        self._pace = pace
        self._cluster = LocalCluster(processes=True, data_dir=home, settings={**SETTINGS, "flush_disk_type": flush})
        self._keyed: list[tuple[str, str]] = []
        """(key, id) of each acknowledged message."""
        self._due_ms: dict[bytes, int] = {}
        """When each acknowledged timer is due, as its sender counts: no earlier than that."""
        self._maybe_due_ms: dict[bytes, int] = {}
        """The same of timers whose answer a kill has cut off."""
        self._to_pop: set[bytes] = set()
        self._done: set[bytes] = set()
        self._maybe_done: set[bytes] = set()
        """Messages whose ack a kill has cut off, or that came too late perhaps."""
        self._decisions: dict[str, Decision] = {}
        """Of transactions, by message id, each before the broker is told."""
        self._is_over = False
        self._may_send_keyed = asyncio.Event()
        """Cleared while messages are looked up: each small index file waits for the disk, and may be slower than the sender."""
        self._may_send_keyed.set()
        self._killed_ms: list[int] = []
        self.repeated = 0
        """Timers that came again after one kill, at most."""

    async def run(self, kills: int) -> None:
        """Kill the broker so often, and compare. Raises Lost."""
        async with self._cluster as cluster:
            async with asyncio.TaskGroup() as group:
                jobs = [self._send_keyed, self._send_timers, self._send_popped, self._ask_question]
                senders = [group.create_task(self._go_on(job)) for job in jobs]
                senders += [group.create_task(job()) for job in (self._decide, self._answer_questions)]
                consumer = group.create_task(self._pop())
                for _ in range(kills):
                    enough = len(self._done) + self._random.randrange(1, self._pace)
                    while len(self._done) < enough:
                        await asyncio.sleep(0.001)
                    await cluster.kill_broker()
                    self._killed_ms.append(now_ms())
                    await cluster.start_broker()
                    self.counts["kills"] += 1
                    self._may_send_keyed.clear()
                    await self._look_up()
                    self._may_send_keyed.set()
                while not self.counts["replies"]:  # on a busy machine the answerers may find their topic late
                    await asyncio.sleep(0.001)
                for sender in senders:
                    sender.cancel()
                self._is_over = True
                await consumer
            await self._judge_timers(kills)
            await self._judge_transactions()
        self.counts |= {
            "transactions": len(self._decisions),
            "keyed": len(self._keyed),
            "timers": len(self._due_ms),
            "popped": len(self._to_pop),
        }

    async def _go_on(self, job: Callable[[Producer, int], Awaitable[None]]) -> None:
        number = 0
        async with Producer("makers", self._cluster.name_servers, retries=0) as producer:
            while True:
                number += 1
                try:
                    await job(producer, number)
                except ClientError:
                    await asyncio.sleep(0.02)  # the broker is away: nothing to wait for but it

    async def _send_keyed(self, producer: Producer, number: int) -> None:
        await self._may_send_keyed.wait()
        key = f"k{number // 3}"
        sent = await producer.send(Message(KEYED, b"x" * 200, keys=[key, f"other{number}"]))
        self._keyed.append((key, sent.message_id))

    async def _send_timers(self, producer: Producer, number: int) -> None:
        body, delay_ms = b"%d" % number, self._random.choice(DELAYS_MS)
        # Timers come when their second is over, and one of a full second with the second before.
        self._maybe_due_ms[body] = due_ms = (now_ms() + delay_ms - 1) // 1_000 * 1_000
        await producer.send(Message(LATER, body, delay_ms=delay_ms))
        self._due_ms[body] = due_ms
        await asyncio.sleep(1 / TIMERS_PER_S)

    async def _send_popped(self, producer: Producer, number: int) -> None:
        body = b"%d" % number
        await producer.send(Message(POPPED, body))
        self._to_pop.add(body)
        await asyncio.sleep(0.005)

    async def _ask_question(self, producer: Producer, number: int) -> None:
        body = b"%d" % number
        reply = await producer.request(Message(QUESTIONS, body), timeout_ms=REPLY_TIMEOUT_MS)
        if reply.body != body[::-1]:
            raise Lost(f"request {body!r} was answered with {reply.body!r}")
        self.counts["replies"] += 1
        await asyncio.sleep(0.02)

    async def _answer_questions(self) -> None:
        async def answer(batch: Batch) -> None:
            for message in batch:
                with suppress(ClientError):  # its asker has gone on, or the broker is away
                    await consumer.reply(message, message.body[::-1])

        consumer = PushConsumer("answerers", self._cluster.name_servers, handler=answer)
        consumer.subscribe(QUESTIONS)
        async with consumer:
            await asyncio.Event().wait()

    def _deciding(self) -> TransactionProducer:
        def check(message: StoredMessage) -> Decision:
            return self._decisions.get(message.message_id, Decision.ROLLBACK)

        return TransactionProducer("deciders", self._cluster.name_servers, check=check, topics=[DECIDED], retries=0)

    async def _decide(self) -> None:
        """Begin transactions and end them by chance; the broker asks about those whose end it was not told."""
        async with self._deciding() as producer:
            while True:
                try:
                    async with producer.transaction(Message(DECIDED, b"x" * 100)) as transaction:
                        decision = self._random.choice([Decision.COMMIT, Decision.ROLLBACK])
                        self._decisions[transaction.sent.message_id] = decision
                        transaction.decide(decision if self._random.random() < 0.8 else Decision.UNKNOWN)
                except ClientError:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.005)

    async def _pop(self) -> None:
        """Receive and acknowledge until everything is done; one message of four is left for another time."""
        loop = asyncio.get_running_loop()
        async with SimpleConsumer(GROUP, self._cluster.name_servers, invisible_ms=INVISIBLE_MS) as consumer:
            consumer.subscribe(POPPED)
            while not (self._is_over and self._to_pop <= self._done | self._maybe_done):
                began_s = loop.time()
                try:
                    messages = await consumer.receive(self._random.randint(1, 32), timeout_ms=500)
                except ClientError:
                    await asyncio.sleep(0.02)
                    continue
                again = {message.body for message in messages} & self._done
                if again:
                    raise Lost(f"{sorted(again)[:5]} were acknowledged, and came again")
                done = [message for message in messages if self._is_over or self._random.random() < 0.75]
                bodies = {message.body for message in done}
                try:
                    await consumer.ack(done)
                    is_known = loop.time() - began_s < INVISIBLE_MS / 1_000
                except ClientError:
                    is_known = False
                if is_known:
                    # Of a message that came a second time while its first ack was on its way it is unknown which ack counts.
                    self._done |= bodies - self._maybe_done
                else:
                    self._maybe_done |= bodies - self._done

    async def _look_up(self) -> None:
        """Find acknowledged messages by key and by id."""
        keyed = list(self._keyed)
        wanted = keyed[-ASKED // 2 :] + self._random.sample(keyed, min(ASKED // 2, len(keyed)))
        async with AdminClient(self._cluster.name_servers) as admin:
            for key, message_id in wanted:
                found = await self._ask(partial(admin.messages_by_key, KEYED, key))
                if message_id not in {message.message_id for message in found.messages}:
                    raise Lost(f"message {message_id} is not found by its key {key}")
                if await self._ask(partial(admin.message_by_id, KEYED, message_id)) is None:
                    raise Lost(f"message {message_id} is not found by its id")
                self.counts["look-ups"] += 2

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Ask until it is answered: the broker registers, builds its index, or counts slots. Raises Lost: it never is."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TIMEOUT_S
        while True:
            try:
                return await question()
            except ClientError as error:
                if loop.time() > until_s:
                    raise Lost(f"no answer to a look-up in {TIMEOUT_S} s: {error}") from error
                self.counts["look-ups asked again"] += not isinstance(error, ConnectionFailed | RouteNotFound)
                self.counts["look-ups unanswered"] += isinstance(error, RequestTimeout)
                await asyncio.sleep(0.05)

    async def _judge_transactions(self) -> None:
        """Wait until all that was committed has come. Raises Lost: something has not, or came twice, or was not committed."""
        committed = {message_id for message_id, decision in self._decisions.items() if decision is Decision.COMMIT}
        loop = asyncio.get_running_loop()
        until_s, came = loop.time() + TIMEOUT_S, Counter[str]()
        async with self._deciding(), PullConsumer("readers", self._cluster.name_servers) as reader:
            queues = await reader.queues(DECIDED)
            reader.assign(queues)
            for queue in queues:
                reader.seek(queue, 0)
            while not came.keys() >= committed and loop.time() < until_s:
                came.update(message.message_id for message in await reader.poll(timeout_ms=500))
            came.update(message.message_id for message in await reader.poll(timeout_ms=1_000))
        lost, wrong = committed - came.keys(), came.keys() - committed
        twice = [message_id for message_id, times in came.items() if times > 1]
        if lost or wrong or twice:
            raise Lost(
                f"of {len(committed)} transactions that were committed {len(lost)} were lost and {len(twice)} came twice; "
                f"{len(wrong)} came that were not"
            )

    async def _judge_timers(self, kills: int) -> None:
        came: dict[bytes, list[int]] = {}
        async with PullConsumer("readers", self._cluster.name_servers) as reader:
            queues = await reader.queues(LATER)
            reader.assign(queues)
            for queue in queues:
                reader.seek(queue, 0)
            while not came.keys() >= self._due_ms.keys():
                for message in await reader.poll(timeout_ms=500):
                    due_ms = self._maybe_due_ms.get(message.body)
                    if due_ms is None or message.stored_at_ms < due_ms:
                        raise Lost(f"timer {message.body!r} came at {message.stored_at_ms}, and was due at {due_ms}")
                    came.setdefault(message.body, []).append(message.stored_at_ms)
        most = max(map(len, came.values()), default=0)
        if most > 1 + kills:
            raise Lost(f"a timer came {most} times over {kills} kills")
        again = Counter(bisect(self._killed_ms, at_ms) for times in came.values() for at_ms in sorted(times)[1:])
        if again[0]:
            raise Lost(f"{again[0]} timers came again before the first kill")
        self.counts["timers again"] = again.total()
        self.repeated = max(again.values(), default=0)
