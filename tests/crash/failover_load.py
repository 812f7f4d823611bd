"""The load on a group of brokers that fails over, and what its answers promise."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count
from random import Random
from typing import NamedTuple

from crash.failover_group import MEMBERS, FailoverGroup
from crash.replica_load import QUEUES, Place
from crash.replicas import Lost, background
from orbitmq import ClientError, Message, Producer, PullConsumer, PushConsumer, SendStatus
from orbitmq.clock import now_ms
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import OffsetResponse, QueryConsumerOffset, SendMessage, SendResponse

TOPIC, WORKERS, READERS = "numbered", "workers", "readers"
COMMITS_LOST_S = 1.5
"""So much of what was committed before a failure of the master may be missing after it: members ask for it every second."""
ALL_COMMITS_LOST_S = 5.0
"""After a failure of all members, one may lead whose files are the oldest: it asked a second before, wrote half a second later,
and what it wrote was from up to two rounds before, when the disk had the log up to there; the rest is for a busy machine."""
_PAUSE_S = 0.02
_PROBE_TIMEOUT_MS = 12_000
"""Longer than any member stands still: what it answers then is of interest."""


class Ack(NamedTuple):
    """A send that was answered with SEND_OK: when it began and ended, by which port, and where in the log (bytes) it is."""

    began_s: float
    answered_s: float
    port: int
    position: int
    by_producer: bool


class Notes:
    """What the brokers have answered since the beginning, and what consumers have seen."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: dict[Place, tuple[bytes, int]] = {}
        """Acknowledged: body, and the position in the log."""
        self.seen: dict[Place, bytes] = {}
        self.acks: list[Ack] = []
        self.longest_send_s = 0.0
        self.in_flight = 0
        self.failures_s: list[float] = []
        """When masters were killed, or stood still."""
        self.commits_lost_s = 0.0
        """How much the last failure may cost."""
        self.committed: dict[int, list[tuple[float, int]]] = {queue_id: [] for queue_id in QUEUES}

    def fails(self, commits_lost_s: float = COMMITS_LOST_S) -> None:
        """Note that the master fails now."""
        self.failures_s.append(time.monotonic())
        self.commits_lost_s = commits_lost_s

    def acknowledged(self, place: Place, body: bytes, began_s: float, message_id: str, *, by_producer: bool) -> None:
        """Note a SEND_OK. Raises Lost: another message was acknowledged at the same place."""
        port, position = int(message_id[8:16], 16), int(message_id[16:], 16)
        other, _ = self.kept.setdefault(place, (body, position))
        if other != body:
            raise Lost(f"{other[:20]!r} and {body[:20]!r} were both acknowledged at {place}")
        self.acks.append(Ack(began_s, time.monotonic(), port, position, by_producer))
        self.counts["acknowledged"] += 1

    def read(self, place: Place, body: bytes) -> None:
        """Note what a reader was given. Raises Lost: it was another message before."""
        before = self.seen.setdefault(place, body)
        if before != body:
            raise Lost(f"a reader was given {before[:20]!r} and then {body[:20]!r} at {place}")

    def is_committed(self, queue_id: int, asked_s: float, offset: int, end: int) -> None:
        """Note a committed offset. Raises Lost: it is beyond the queue's end, or went back too far.

        Args:
            asked_s: when it was asked for: what was noted since then may be newer.
        """
        noted, now_s = self.committed[queue_id], time.monotonic()
        before = [(at_s, known) for at_s, known in noted if at_s <= asked_s]
        if offset > end:
            raise Lost(f"{WORKERS} is at {offset} of queue {queue_id}, which ends at {end}")
        before_s = max(self.failures_s, default=now_s) - self.commits_lost_s
        least = max((known for at_s, known in before if at_s <= before_s), default=0)
        newest = max((known for _, known in before), default=0)
        if offset < newest:
            self.counts["commits that went back"] += 1
        if offset < (least if self.failures_s else newest):
            lost_s = next(now_s - at_s for at_s, known in before if known > offset)
            raise Lost(
                f"{WORKERS} went back from {newest} to {offset} in queue {queue_id}: "
                f"what it committed {lost_s:.1f} s before is lost"
            )
        if offset < newest:
            # Judged: the group handles these messages again, and a later failure does not lose their commits once more.
            noted[:] = [(at_s, known) for at_s, known in noted if known <= offset]
        noted.append((now_s, offset))

    def check_order(self) -> None:
        """Check that what was sent after an answer is behind it in the log: two masters would break this. Raises Lost."""
        answered = sorted(self.acks, key=lambda ack: ack.answered_s)
        newest: Ack | None = None
        at = 0
        for ack in sorted(self.acks, key=lambda ack: ack.began_s):
            while at < len(answered) and answered[at].answered_s < ack.began_s:
                if newest is None or answered[at].position > newest.position:
                    newest = answered[at]
                at += 1
            if newest is not None and newest.position >= ack.position:
                raise Lost(f"two masters: {ack} began after {newest} was answered")


class FailoverLoad:
    """All clients, until the block ends: `async with load.running()`; sends rest while `may_send` is not set."""

    def __init__(self, group: FailoverGroup, notes: Notes, random: Random, producers: int = 3) -> None:
        self.may_send = asyncio.Event()
        self._group = group
        self._notes = notes
        self._random = random
        self._producers = producers
        self._numbers = count(1)

    def running(self):
        """Return the context in which the load runs."""
        return background(
            *(self._produce() for _ in range(self._producers)),
            *(self._probe(member) for member in MEMBERS for _ in range(2)),
            self._work(),
            self._read(),
            self._watch_commits(),
        )

    def _body(self) -> bytes:
        return b"%d " % next(self._numbers) + b"x" * self._random.randrange(300)

    async def _produce(self) -> None:
        notes = self._notes
        async with Producer("makers", self._group.cluster.name_servers) as producer:
            while True:
                await self.may_send.wait()
                body, began_s = self._body(), time.monotonic()
                notes.in_flight += 1
                try:
                    sent = await producer.send(Message(TOPIC, body, keys=[body.split()[0].decode()]))
                except ClientError:
                    notes.counts["sends that failed"] += 1
                    await asyncio.sleep(_PAUSE_S)
                else:
                    if sent.status is SendStatus.SEND_OK:
                        place = Place(TOPIC, sent.queue.queue_id, sent.queue_offset)
                        notes.acknowledged(place, body, began_s, sent.offset_message_id, by_producer=True)
                    else:
                        notes.counts["sends answered late"] += 1
                finally:
                    notes.in_flight -= 1
                    notes.longest_send_s = max(notes.longest_send_s, time.monotonic() - began_s)
                await asyncio.sleep(0.005)

    async def _probe(self, member: str) -> None:
        """Send to one member, whether it leads or not, and wait long for its answer."""
        notes = self._notes
        while True:
            await self.may_send.wait()
            body, began_s = self._body(), time.monotonic()
            header = SendMessage(
                producer_group="probers", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=2,
                queue_id=self._random.choice(QUEUES), sys_flag=0, born_at_ms=now_ms(), flag=0, properties="",
            )  # fmt: skip
            notes.in_flight += 1
            try:
                answer = await self._group.ask(member, header, body, timeout_ms=_PROBE_TIMEOUT_MS)
            except ClientError:
                notes.counts["probes that failed"] += 1
            else:
                if answer.code == 0:
                    sent = decode_header(SendResponse, answer.ext_fields)
                    place = Place(TOPIC, sent.queue_id, sent.queue_offset)
                    notes.acknowledged(place, body, began_s, sent.message_id, by_producer=False)
                else:
                    notes.counts[f"probes answered {answer.code}"] += 1
            finally:
                notes.in_flight -= 1
            await asyncio.sleep(_PAUSE_S)

    async def _work(self) -> None:
        async def handle(message) -> None:
            self._notes.counts["handled"] += 1

        servers = self._group.cluster.name_servers
        async with PushConsumer(WORKERS, servers, message_handler=handle, commit_interval_ms=200) as consumer:
            consumer.subscribe(TOPIC)
            await asyncio.Event().wait()

    async def _read(self) -> None:
        """Note everything that is readable."""
        async with PullConsumer(READERS, self._group.cluster.name_servers) as reader:
            while True:
                try:
                    reader.assign(await reader.queues(TOPIC))
                    break
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)
            while True:
                try:
                    for message in await reader.poll(timeout_ms=200):
                        place = Place(message.topic, message.queue_id, message.queue_offset)
                        self._notes.read(place, message.body)
                except ClientError:
                    await asyncio.sleep(_PAUSE_S)

    async def _watch_commits(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            try:
                before = await self._group.state()
                member = await self._group.master()
                found = [await self.committed(member, queue_id) for queue_id in QUEUES]
                after = await self._group.state()
            except ClientError:
                continue
            if before.master == after.master and before.master_epoch == after.master_epoch:
                for queue_id, known in zip(QUEUES, found, strict=True):
                    if known is not None:
                        self._notes.is_committed(queue_id, *known)

    async def committed(self, member: str, queue_id: int) -> tuple[float, int, int] | None:
        """Return when a member was asked, its committed offset and end of a queue, None before there is one.

        Raises:
            ClientError: it does not answer.
        """
        asked_s = time.monotonic()
        header = QueryConsumerOffset(consumer_group=WORKERS, topic=TOPIC, queue_id=queue_id)
        answer = await self._group.ask(member, header)
        if answer.code != 0:
            return None
        offset = decode_header(OffsetResponse, answer.ext_fields).offset
        return asked_s, offset, await self._group.end(member, TOPIC, queue_id)
