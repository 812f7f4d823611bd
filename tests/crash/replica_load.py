"""The load on a master that has a slave, by our own clients, and what its answers promise."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import NamedTuple

from crash.replicas import Lost, Replicas, background
from orbitmq import (
    ClientError,
    Decision,
    Message,
    Producer,
    PullConsumer,
    SendResult,
    SendStatus,
    SimpleConsumer,
    StoredMessage,
    TransactionProducer,
)
from orbitmq.clock import now_ms
from orbitmq.wire.headers import ConsumerSendBack

KEYED, LATER, POPPED, DECIDED = TOPICS = ("keyed", "later", "popped", "decided")
QUEUES = range(2)
GROUP, READERS = "clerks", "readers"
RETRY, POP_RETRY = f"%RETRY%{GROUP}", f"%RETRY%{GROUP}_{POPPED}"
INVISIBLE_MS = 2_000
_PAUSE_S = 0.02
"""Of a job whose broker is away."""


class Place(NamedTuple):
    """Where a message is."""

    topic: str
    queue_id: int
    queue_offset: int


class Promises:
    """What brokers have answered since the beginning, and what consumers have seen. Bodies are never used twice."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: dict[Place, bytes] = {}
        """Acknowledged with SEND_OK since the last promotion."""
        self.alone: set[bytes] = set()
        """Answered 11 or 12: on the master alone, maybe."""
        self.seen: dict[Place, tuple[bytes, int]] = {}
        """What the reader was given since the last promotion, and when it was."""
        self.delivered_ms: dict[bytes, int] = {}
        """When the reader was first given a delayed or timed message."""
        self.later: set[bytes] = set()
        """Delayed and timed messages that were acknowledged with SEND_OK."""
        self.to_pop: set[bytes] = set()
        self.done: set[bytes] = set()
        """Popped messages whose ack was answered in time."""
        self.maybe_done: set[bytes] = set()
        """Those whose ack was not answered, or too late perhaps."""
        self.decisions: dict[str, Decision] = {}
        """Of transactions whose half message was acknowledged, by message id, each before the broker is told."""
        self.returned: set[bytes] = set()
        """Messages whose send-back was answered 0."""

    def sent(self, result: SendResult, topic: str, body: bytes) -> bool:
        """Note the answer to a send; say whether it is SEND_OK."""
        if result.status is not SendStatus.SEND_OK:
            self.alone.add(body)
            self.counts["on the master alone"] += 1
            return False
        self.counts["acknowledged"] += 1
        if topic in (KEYED, POPPED):
            self.kept[Place(topic, result.queue.queue_id, result.queue_offset)] = body
        return True

    def received(self, bodies: set[bytes]) -> None:
        """Note popped messages. Raises Lost: one of them was acknowledged before."""
        again = bodies & self.done
        if again:
            raise Lost(f"{len(again)} messages were acknowledged, and were popped again: {sorted(again)[:5]}")

    def acked(self, bodies: set[bytes], *, is_known: bool) -> None:
        """Note acks: answered in time, or not."""
        if is_known:
            # Of a message that came a second time while its first ack was under way it is unknown which ack counts.
            self.done |= bodies - self.maybe_done
        else:
            self.maybe_done |= bodies - self.done


class Load:
    """All clients, until the block ends: `async with load.running()`.

    Args:
        numbers: of all loads of one run together.
    """

    def __init__(self, replicas: Replicas, promises: Promises, random: Random, numbers: count[int]) -> None:
        self._replicas = replicas
        self._promises = promises
        self._random = random
        self._numbers = numbers
        self._to_return: asyncio.Queue[StoredMessage] = asyncio.Queue()

    def running(self):
        """Return the context in which the load runs."""
        return background(
            *(self._produce(job) for job in (self._send_keyed, self._send_keyed, self._send_later, self._send_popped)),
            self._decide(),
            self.pop(),
            self._read(),
            self._send_back(),
        )

    async def _produce(self, job: Callable[[Producer, bytes], Awaitable[None]]) -> None:
        async with Producer("makers", self._replicas.name_servers, retries=0) as producer:
            while True:
                try:
                    await job(producer, b"%d" % next(self._numbers))
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)

    async def _send_keyed(self, producer: Producer, body: bytes) -> None:
        size = self._random.randrange(300)
        body += b"x" * size
        self._promises.sent(await producer.send(Message(KEYED, body, keys=[f"k{size}"])), KEYED, body)
        await asyncio.sleep(0.005)

    async def _send_later(self, producer: Producer, body: bytes) -> None:
        if self._random.random() < 0.5:
            message = Message(LATER, body, delay_level=1)
        else:
            message = Message(LATER, body, delay_ms=self._random.choice([1_000, 2_000]))
        if self._promises.sent(await producer.send(message), LATER, body):
            self._promises.later.add(body)
        await asyncio.sleep(0.01)

    async def _send_popped(self, producer: Producer, body: bytes) -> None:
        if self._promises.sent(await producer.send(Message(POPPED, body)), POPPED, body):
            self._promises.to_pop.add(body)
        await asyncio.sleep(0.005)

    def deciding(self) -> TransactionProducer:
        """Return a producer that knows how every transaction was to end."""

        def check(message: StoredMessage) -> Decision:
            return self._promises.decisions.get(message.message_id, Decision.ROLLBACK)

        return TransactionProducer("deciders", self._replicas.name_servers, check=check, topics=[DECIDED], retries=0)

    async def _decide(self) -> None:
        async with self.deciding() as producer:
            while True:
                try:
                    async with producer.transaction(Message(DECIDED, b"x" * 100)) as transaction:
                        decision = self._random.choice([Decision.COMMIT, Decision.ROLLBACK])
                        self._promises.decisions[transaction.sent.message_id] = decision
                        transaction.decide(decision if self._random.random() < 0.8 else Decision.UNKNOWN)
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)
                await asyncio.sleep(0.01)

    async def pop(self, *, is_last: bool = False) -> None:
        """Receive and acknowledge, one of four messages another time; the last one takes all, and ends with them.

        Raises:
            Lost: an acknowledged message has come again.
        """
        loop, promises = asyncio.get_running_loop(), self._promises
        async with SimpleConsumer(GROUP, self._replicas.name_servers, invisible_ms=INVISIBLE_MS) as consumer:
            consumer.subscribe(POPPED)
            while not (is_last and promises.to_pop <= promises.done | promises.maybe_done):
                began_s = loop.time()
                try:
                    messages = await consumer.receive(self._random.randint(1, 32), timeout_ms=500)
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                promises.received({message.body for message in messages})
                chosen = [message for message in messages if is_last or self._random.random() < 0.75]
                bodies, is_known = {message.body for message in chosen}, False
                try:
                    await consumer.ack(chosen)
                    is_known = loop.time() - began_s < INVISIBLE_MS / 1_000 * 0.8
                except ClientError:
                    promises.counts["acks refused"] += len(chosen)
                finally:
                    promises.acked(bodies, is_known=is_known)

    async def _read(self) -> None:
        """Read what is readable, note it, and commit how far that is."""
        promises = self._promises
        async with PullConsumer(READERS, self._replicas.name_servers) as reader:
            queues = [queue for topic in (KEYED, POPPED, LATER) for queue in await self._known_queues(reader, topic)]
            reader.assign(queues)
            while True:
                try:
                    messages = await reader.poll(timeout_ms=200)
                    now = now_ms()
                    for message in messages:
                        if message.topic == LATER:
                            promises.delivered_ms.setdefault(message.body, now)
                        else:
                            place = Place(message.topic, message.queue_id, message.queue_offset)
                            promises.seen[place] = (message.body, now)
                        if message.topic == KEYED and self._random.random() < 0.1:
                            self._to_return.put_nowait(message)
                    await reader.commit()
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)

    async def _known_queues(self, reader: PullConsumer, topic: str):
        while True:
            try:
                return await reader.queues(topic)
            except ClientError:
                await asyncio.sleep(_PAUSE_S)

    async def _send_back(self) -> None:
        """Return messages that the reader was given to the group."""
        while True:
            message = await self._to_return.get()
            header = ConsumerSendBack(
                physical_offset=message.physical_offset, group=GROUP, delay_level=1, origin_topic=KEYED,
                origin_msg_id=message.message_id,
            )  # fmt: skip
            try:
                answer = await self._replicas.ask(self._replicas.master, header)
            except ClientError:
                await asyncio.sleep(_PAUSE_S)
                continue
            if answer.code == 0:
                self._promises.returned.add(message.body)
