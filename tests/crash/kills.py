"""kill -9 of a broker's process under a mixture of load: plain, delayed and returned messages, topics made and deleted, offsets.

Between two kills all clients work until the connection breaks. After each restart the broker is asked what it has, and that
is compared with what it had answered: nothing acknowledged is missing or out of order, nothing was made up, deleted
messages stay away, and no committed offset went back behind what the kill before had left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from random import Random

from crash.broker_process import BrokerProcess
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import (
    ConsumerSendBack,
    CreateTopic,
    DeleteTopicInBroker,
    PullMessage,
    PullSysFlag,
    QueryConsumerOffset,
    SendMessageV2,
    UpdateConsumerOffset,
)
from orbitmq.wire.messages.record import Record, iter_records

PLAIN, LATER, CHURN, GROUP = "orders", "later", "churn", "clerks"
RETRY = f"%RETRY%{GROUP}"
QUEUES = range(4)
IN_FLIGHT = 4
LATER_PER_S = 60
SETTINGS = {
    "mappedFileSizeCommitLog": 256 * 1024,  # several roll-overs between two kills
    "mappedFileSizeConsumeQueue": 400 * 20,
    "flushConsumerOffsetInterval": 1_000,
}
START_MAX_S = 0.6
"""Kills in the middle of a start come within this time."""
TIMEOUT_MS = 20_000
_SUCCESS, _NO_TOPIC, _NOT_FOUND, _MOVED = 0, 17, 19, 21


class Lost(AssertionError):
    """The broker broke its word."""


@dataclass(slots=True)
class Promise:
    """What the broker has answered about the messages of one queue, and what a reader has found."""

    acknowledged: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    offset: int = 0


KINDS = ("plain", "delayed", "returned", "deletions")
"""Of work, as `Kills.counts` names them."""


@dataclass(slots=True)
class Churn:
    """The topic that comes and goes: its messages are `<incarnation>:<number>`."""

    incarnation: int = 0
    acknowledged: list[str] = field(default_factory=list)
    is_deleting: bool = False


class Kills:
    """The load, and what it knows.

    Args:
        pace: messages that are sent between two kills, at most.
    """

    def __init__(self, broker: BrokerProcess, random: Random, pace: int = 500) -> None:
        self.counts: Counter[str] = Counter()
        self.repeated: list[int] = []
        """Delayed messages that came again, after each kill."""
        self._broker = broker
        self._random = random
        self._pace = pace
        self._numbers = count()
        self._plain = {queue_id: Promise() for queue_id in QUEUES}
        self._later, self._retry = Promise(), Promise()
        self._later_counts: Counter[int] = Counter()
        self._churn = Churn()
        self._committed = dict.fromkeys(QUEUES, 0)
        self._kept = dict.fromkeys(QUEUES, 0)

    async def run(self, kills: int) -> None:
        """Kill the running broker so many times. Raises Lost."""
        for left in reversed(range(kills)):
            await self._work(is_last=not left)
            await self._restart()
            await self._check()
        await self._drain()

    async def _work(self, *, is_last: bool) -> None:
        """Let all clients work, and kill the broker in the midst of it; the last time when each kind of work was done."""
        jobs: list[Callable[[ConnectionPool], Awaitable[None]]] = [
            *(partial(self._send_plain, queue_id, sender) for queue_id in QUEUES for sender in range(IN_FLIGHT)),
            self._send_later, self._come_and_go, self._consume,
        ]  # fmt: skip
        before = self.counts["plain"]
        enough = before + self._random.randrange(1, self._pace)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._until_broken(job)) for job in jobs]
            while (is_early := self._is_early(enough, is_last)) and not any(task.done() for task in tasks):
                await asyncio.sleep(0.001)
            if is_early:
                raise Lost(f"a connection broke by itself: {self._broker.log.read_text()[-2000:]}")
            self._broker.kill()
        self.counts["kills"] += 1

    def _is_early(self, enough: int, is_last: bool) -> bool:
        return self.counts["plain"] < enough or (is_last and not all(self.counts[kind] for kind in KINDS))

    async def _until_broken(self, job: Callable[[ConnectionPool], Awaitable[None]]) -> None:
        pool = ConnectionPool()
        try:
            with suppress(ClientError):
                await job(pool)
        finally:
            await pool.close()

    async def _restart(self) -> None:
        while self._random.random() < 0.4:
            self.counts["kills while starting"] += self._broker.start_and_kill(self._random.uniform(0, START_MAX_S))
        self._broker.start()

    async def _send(self, pool: ConnectionPool, topic: str, queue_id: int, body: bytes, properties: str = "") -> bool:
        header = SendMessageV2(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=len(QUEUES),
            queue_id=queue_id, sys_flag=0, born_at_ms=1, flag=0, properties=properties,
        )  # fmt: skip
        answer = await pool.request(self._broker.address, header, body, timeout_ms=TIMEOUT_MS)
        return answer.code == _SUCCESS

    async def _send_plain(self, queue_id: int, sender: int, pool: ConnectionPool) -> None:
        while True:
            number = next(self._numbers) * IN_FLIGHT + sender
            if await self._send(pool, PLAIN, queue_id, b"%d" % number + b" " * 100, "TAGS\x01a\x02"):
                self._plain[queue_id].acknowledged.append(number)
                self.counts["plain"] += 1

    async def _send_later(self, pool: ConnectionPool) -> None:
        while True:
            number = next(self._numbers)
            if await self._send(pool, LATER, 0, b"%d" % number, "DELAY\x011\x02"):
                self._later.acknowledged.append(number)
                self.counts["delayed"] += 1
            await asyncio.sleep(1 / LATER_PER_S)

    async def _come_and_go(self, pool: ConnectionPool) -> None:
        """Make a topic, send, delete it, and so on."""
        churn = self._churn
        while True:
            make = CreateTopic(
                topic=CHURN, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG"
            )  # fmt: skip
            answer = await pool.request(self._broker.address, make, timeout_ms=TIMEOUT_MS)
            for number in range(self._random.randrange(30) if answer.code == _SUCCESS else 0):
                text = f"{churn.incarnation}:{number}"
                if await self._send(pool, CHURN, 0, text.encode()):
                    churn.acknowledged.append(text)
            churn.is_deleting = True
            answer = await pool.request(self._broker.address, DeleteTopicInBroker(topic=CHURN), timeout_ms=TIMEOUT_MS)
            if answer.code == _SUCCESS:
                churn.is_deleting = False
                churn.acknowledged.clear()
                churn.incarnation += 1
                self.counts["deletions"] += 1

    async def _consume(self, pool: ConnectionPool) -> None:
        """Read what was sent, send some of it back, and commit how far that is."""
        while True:
            queue_id = self._random.choice(QUEUES)
            offset = self._committed[queue_id]
            records = [record async for record in self._pull(pool, PLAIN, queue_id, offset, 32)]
            for record in records[:: self._random.randrange(5, 20)]:
                back = ConsumerSendBack(physical_offset=record.physical_offset, group=GROUP, delay_level=1)
                answer = await pool.request(self._broker.address, back, timeout_ms=TIMEOUT_MS)
                if answer.code == _SUCCESS:
                    self._retry.acknowledged.append(_number(record))
                    self.counts["returned"] += 1
            commit = UpdateConsumerOffset(
                consumer_group=GROUP, topic=PLAIN, queue_id=queue_id, commit_offset=offset + len(records)
            )
            await pool.request(self._broker.address, commit, timeout_ms=TIMEOUT_MS)
            self._committed[queue_id] = offset + len(records)
            await asyncio.sleep(0.01)

    async def _pull(
        self, pool: ConnectionPool, topic: str, queue_id: int, offset: int, count_max: int
    ) -> AsyncIterator[Record]:
        header = PullMessage(
            consumer_group="reader", topic=topic, queue_id=queue_id, queue_offset=offset, count_max=count_max,
            sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0, subscription="*", sub_version=0,
        )  # fmt: skip
        answer = await pool.request(self._broker.address, header, timeout_ms=TIMEOUT_MS)
        if answer.code not in (_SUCCESS, _NO_TOPIC, _NOT_FOUND, _MOVED):
            raise Lost(f"a pull of {topic} at {offset} is answered {answer.code}: {answer.remark}")
        if answer.code == _SUCCESS:
            for record in iter_records(answer.body):
                yield record

    async def _read_on(self, pool: ConnectionPool, topic: str, queue_id: int, offset: int) -> list[Record]:
        """Read a queue to its end; its offsets are dense."""
        found: list[Record] = []
        while some := [record async for record in self._pull(pool, topic, queue_id, offset + len(found), 1000)]:
            found += some
        if [record.queue_offset for record in found] != list(range(offset, offset + len(found))):
            raise Lost(f"{topic} {queue_id}: the offsets from {offset} on have gaps")
        return found

    async def _check(self) -> None:
        pool = ConnectionPool()
        try:
            for queue_id, promise in self._plain.items():
                self._check_plain(queue_id, promise, await self._read_on(pool, PLAIN, queue_id, promise.offset))
            await self._check_churn(pool)
            await self._check_offsets(pool)
            await self._read_later(pool)
        finally:
            await pool.close()
        self.repeated.append(sum(times - 1 for times in self._later_counts.values()) - sum(self.repeated))

    def _check_plain(self, queue_id: int, promise: Promise, records: list[Record]) -> None:
        promise.offset += len(records)
        promise.found += map(_number, records)
        lost = sorted(set(promise.acknowledged) - set(promise.found))
        if lost:
            raise Lost(f"queue {queue_id}: lost {len(lost)} messages, the first is number {lost[0]}")
        for sender in range(IN_FLIGHT):
            # No producer sends a message before the answer to the one before.
            numbers = [number for number in promise.found if number % IN_FLIGHT == sender]
            if any(first >= second for first, second in pairwise(numbers)):
                raise Lost(f"queue {queue_id}: messages are out of order, or there twice")

    async def _check_churn(self, pool: ConnectionPool) -> None:
        churn = self._churn
        found = [bytes(record.body).decode() for record in await self._read_on(pool, CHURN, 0, 0)]
        if any(not text.startswith(f"{churn.incarnation}:") for text in found):
            raise Lost(f"deleted messages are back: {found[:5]}, the topic was made {churn.incarnation} times")
        missing = [text for text in churn.acknowledged if text not in found]
        if missing and not (churn.is_deleting and not found):
            raise Lost(f"the topic that was made again lost {missing[:5]} of {len(churn.acknowledged)}")
        # Whatever became of it: what is sent from now on is told from that.
        churn.incarnation += 1
        churn.acknowledged.clear()
        churn.is_deleting = False
        await pool.request(self._broker.address, DeleteTopicInBroker(topic=CHURN), timeout_ms=TIMEOUT_MS)

    async def _check_offsets(self, pool: ConnectionPool) -> None:
        for queue_id in QUEUES:
            ask = QueryConsumerOffset(consumer_group=GROUP, topic=PLAIN, queue_id=queue_id)
            answer = await pool.request(self._broker.address, ask, timeout_ms=TIMEOUT_MS)
            offset = int((answer.ext_fields or {}).get("offset", 0)) if answer.code == _SUCCESS else 0
            if not self._kept[queue_id] <= offset <= self._committed[queue_id]:
                raise Lost(
                    f"queue {queue_id}: the group is at {offset}, was at {self._kept[queue_id]} after the kill before, "
                    f"and committed {self._committed[queue_id]}"
                )
            self._kept[queue_id] = self._committed[queue_id] = offset

    async def _read_later(self, pool: ConnectionPool) -> None:
        for topic, promise in ((LATER, self._later), (RETRY, self._retry)):
            records = await self._read_on(pool, topic, 0, promise.offset)
            promise.offset += len(records)
            promise.found += map(_number, records)
        self._later_counts = Counter(self._later.found)

    async def _drain(self) -> None:
        """Wait until everything that was to come later has come."""
        pool = ConnectionPool()
        try:
            while set(self._later.acknowledged) - set(self._later.found) or set(self._retry.acknowledged) - set(
                self._retry.found
            ):
                await self._read_later(pool)
                await asyncio.sleep(0.1)
        finally:
            await pool.close()


def _number(record: Record) -> int:
    return int(bytes(record.body))
