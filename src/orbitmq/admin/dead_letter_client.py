"""The client for dead letters: which groups have some, what they are, and sending them again.

async with DeadLetters("127.0.0.1:9876") as dead_letters:
for found in await dead_letters.groups():
print(found.group, found.count)
async for letter, sent in dead_letters.resend("billing"):
print(letter.place, sent.message_id)
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from orbitmq.admin.client import AdminClient
from orbitmq.admin.dead_letters import DeadLetter, DeadLetterSelection
from orbitmq.admin.each_master import ask_about
from orbitmq.client.base import Client
from orbitmq.client.consume.start_offsets import OffsetRange
from orbitmq.client.producer import Producer
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.client.send.result import SendResult
from orbitmq.client.session.arguments import flag, instance
from orbitmq.client.session.validation import INTERVAL_MS, checked
from orbitmq.errors import ClientError, InvalidArgument, RequestTimeout, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, GROUP_LENGTH_MAX, Perm, check_name
from orbitmq.wire.signature import Credentials

READER_GROUP = "orbitmq-dlq"
"""Its offset in a queue of dead letters is where the next one is that was not sent again yet."""
_EVERYTHING = DeadLetterSelection()
_SELECTION = {"selection": instance(DeadLetterSelection, allowed="a Selection")}
READ_TIMEOUT_MS = 10_000
"""How long a broker may take to give the next letters, which it said are there."""
_POLL_COUNT_MAX = 256
WINDOW_SIZE = 8 * 1024 * 1024
"""Bytes of letters that are read ahead, while those before are sent or written to a file."""


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """A group with a dead-letter topic; `problem` says why the figures are not known, or the letters cannot be read."""

    group: str
    count: int | None
    newest_at_ms: int | None
    problem: str | None = None


@checked(
    init={"timeout_ms": INTERVAL_MS},
    read=_SELECTION | {"only_unsent": flag},
    resend=_SELECTION | {"again": flag, "only_existing": flag},
)
class DeadLetters:
    """Reads the dead letters of one cluster, and sends them again.

    Args:
        name_servers: `"host:port;host:port"` or a list of addresses.
        timeout_ms: for each administrative request.
        credentials: sign every request.
        tls: connect with TLS.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._name_servers = name_servers if isinstance(name_servers, str) else tuple(name_servers)
        self._credentials = credentials
        self._tls = tls
        self._clients: set[Client] = set()
        """Those of readings and sendings under way."""
        self._admin = AdminClient(self._name_servers, timeout_ms=timeout_ms, credentials=credentials, tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, those of readings that were left in the middle, too."""
        # An unfinished generator is closed when the loop ends: too late for connections.
        for client in tuple(self._clients):
            await client.close()
        self._clients.clear()
        await self._admin.close()

    async def groups(self) -> list[DeadLetterGroup]:
        """Return the groups that have dead letters, sorted; also those of which it cannot be told.

        Raises:
            NoNameServer: none of them answers.
        """
        topics = [topic for topic in await self._admin.topic_list() if topic.startswith(DLQ_PREFIX)]
        found = await ask_about(topics, self._look)
        return [group for group in found if group.count or group.problem]

    async def missing_masters(self) -> dict[str, str]:
        """Return the names of brokers that have no master now, and why: their dead letters are not read (`ClusterAdmin`)."""
        return await self._admin.missing_masters()

    async def read(
        self, group: str, selection: DeadLetterSelection = _EVERYTHING, *, only_unsent: bool = False
    ) -> AsyncGenerator[DeadLetter, None]:
        """Yield a group's dead letters, queue by queue, up to where the queues end now.

        Args:
            only_unsent: not those that `resend` has sent again.

        Raises:
            RouteNotFound: the group has no dead-letter topic.
            ClientError: a broker does not allow reading the topic.
        """
        ranges = await self._ranges(dead_letter_topic(group), selection)
        consumer = self._reader()
        async with self._opened(consumer):
            if only_unsent:
                ranges = _behind(ranges, await _marks(consumer, ranges))
            async with aclosing(_read(consumer, ranges, selection)) as letters:
                async for letter in letters:
                    yield letter

    async def resend(
        self,
        group: str,
        selection: DeadLetterSelection = _EVERYTHING,
        *,
        topic: str | None = None,
        again: bool = False,
        only_existing: bool = False,
    ) -> AsyncGenerator[tuple[DeadLetter, SendResult], None]:
        """Send a group's dead letters again, one after the other; yield each one when its broker has it.

        The letters stay where they are, and how far they were sent is kept on their brokers, as the offsets of the group
        `orbitmq-dlq`: the next call goes on there. A stopped call leaves no letter out then, and sends at most one twice.

        Args:
            selection: which ones; where it names ids, or where to begin, letters are sent whether they were sent before or not.
            topic: where to, instead of the topic that each one came from.
            again: send also those that were sent before.
            only_existing: send none to a topic that does not exist, which a broker may make.

        Raises:
            InvalidArgument: at the end: a letter does not tell where it came from, cannot be decoded, or has no topic to go to;
                the others are sent.
            SendFailed, RemoteRefused, RouteNotFound: a letter could not be sent; none behind it was tried.
        """
        ranges = await self._ranges(dead_letter_topic(group), selection)
        producer = Producer(READER_GROUP, self._name_servers, credentials=self._credentials, tls=self._tls)
        consumer = self._reader()
        async with self._opened(producer), self._opened(consumer):
            marks = await _marks(consumer, ranges)
            if not again and selection.is_from_the_beginning:
                ranges = _behind(ranges, marks)
            problem: InvalidArgument | None = None
            existing: set[str] = set()
            async with aclosing(_read(consumer, ranges, selection)) as letters:
                async for letter in letters:
                    try:
                        message = letter.again(topic)
                    except InvalidArgument as error:
                        problem = problem or error
                        continue
                    if only_existing and message.topic not in existing:
                        if not await self._exists(message.topic):
                            place = f"the dead letter {letter.place}"
                            problem = problem or InvalidArgument(
                                place, message.topic, "a topic that exists to send it to"
                            )
                            continue
                        existing.add(message.topic)
                    sent = await producer.send(message)
                    queue, offset = letter.queue, letter.place.queue_offset
                    # A mark moves over what was sent in one go, and never over a gap.
                    if not selection.ids and ranges[queue].begin <= marks[queue] <= offset:
                        await consumer.commit({queue: offset + 1})
                        marks[queue] = offset + 1
                    yield letter, sent
            if problem is not None:
                raise problem

    async def _exists(self, topic: str) -> bool:
        try:
            await self._admin.topic_route(topic)
        except RouteNotFound:
            return False
        return True

    def _reader(self) -> PullConsumer:
        return PullConsumer(
            READER_GROUP,
            self._name_servers,
            window_size_max=WINDOW_SIZE,
            credentials=self._credentials,
            tls=self._tls,
        )

    @asynccontextmanager
    async def _opened(self, client: Client) -> AsyncGenerator[None, None]:
        self._clients.add(client)
        try:
            async with client:
                yield
        finally:
            self._clients.discard(client)

    async def _look(self, topic: str) -> DeadLetterGroup:
        group = topic.removeprefix(DLQ_PREFIX)
        try:
            stats = (await self._admin.topic_stats(topic)).values()
            problem = await self._unreadable(topic)
        except ClientError as error:
            return DeadLetterGroup(group, None, None, str(error))
        count = sum(queue.max_offset - queue.min_offset for queue in stats)
        newest_at_ms = max((queue.updated_at_ms for queue in stats), default=0) or None
        return DeadLetterGroup(group, count, newest_at_ms, problem if count else None)

    async def _unreadable(self, topic: str, broker_name: str | None = None) -> str | None:
        """Say which brokers do not allow reading a dead-letter topic, and what helps; None when all do."""
        route = await self._admin.topic_route(topic)
        closed = [
            data.broker_name
            for data in route.queues
            if not data.perm & Perm.READ and broker_name in (None, data.broker_name)
        ]
        if not closed:
            return None
        name = closed[0]
        return (
            f"the dead letters in {topic} cannot be read on {', '.join(sorted(closed))}: the topic is write-only there "
            "(older brokers make it so). Make it readable first: "
            f"`orbitmq topic create '{topic}' --queues 1 --broker {name}`, or mqadmin updateTopicPerm"
        )

    async def _ranges(self, topic: str, selection: DeadLetterSelection) -> dict[MessageQueue, OffsetRange]:
        """Return the queues that hold letters which may be meant, with the offsets to look at, in reading order."""
        try:
            problem = await self._unreadable(topic, selection.broker_name)
        except RouteNotFound:
            group = topic.removeprefix(DLQ_PREFIX)
            raise RouteNotFound(
                f"the group {group} has no dead letters: no NameServer knows the topic {topic}"
            ) from None
        if problem is not None:
            raise ClientError(problem)
        found = {}
        for queue, stats in sorted((await self._admin.topic_stats(topic)).items()):
            offsets = selection.cut(queue, stats.min_offset, stats.max_offset)
            if offsets:
                found[queue] = OffsetRange(offsets.start, offsets.stop)
        return found


async def _marks(consumer: PullConsumer, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
    """Return up to where the letters of each queue were sent again, 0 where none was."""
    marks = {}
    for queue in queues:
        await consumer.queues(queue.topic)  # so that the queue's broker is known
        marks[queue] = await consumer.committed(queue) or 0
    return marks


def _behind(
    ranges: Mapping[MessageQueue, OffsetRange], marks: Mapping[MessageQueue, int]
) -> dict[MessageQueue, OffsetRange]:
    """Return what is left of ranges behind the marks."""
    return {
        queue: OffsetRange(max(offsets.begin, marks[queue]), offsets.end)
        for queue, offsets in ranges.items()
        if marks[queue] < offsets.end
    }


async def _read(
    consumer: PullConsumer, ranges: Mapping[MessageQueue, OffsetRange], selection: DeadLetterSelection
) -> AsyncGenerator[DeadLetter, None]:
    count, ids = 0, set(selection.ids)
    for queue, offsets in ranges.items():
        async with aclosing(_read_queue(consumer, queue, offsets)) as letters:
            async for letter in letters:
                if count == selection.count_max or (selection.ids and not ids):
                    return
                if selection.takes(letter):
                    count += 1
                    ids -= letter.ids
                    yield letter


def dead_letter_topic(group: str) -> str:
    """Return the dead-letter topic of a group, also when it is named by that topic."""
    return DLQ_PREFIX + check_name("group", group.removeprefix(DLQ_PREFIX), GROUP_LENGTH_MAX)


async def _read_queue(
    consumer: PullConsumer, queue: MessageQueue, offsets: OffsetRange
) -> AsyncGenerator[DeadLetter, None]:
    await consumer.queues(queue.topic)  # so that the queue's broker is known
    consumer.assign([queue])
    consumer.seek(queue, offsets.begin)
    while (position := consumer.position(queue) or 0) < offsets.end:
        messages = await consumer.poll(READ_TIMEOUT_MS, _POLL_COUNT_MAX)
        if not messages and consumer.position(queue) == position:
            raise RequestTimeout(
                f"broker {queue.broker_name} has given no dead letter at offset {position} of {queue.topic} for "
                f"{READ_TIMEOUT_MS // 1000} s; the log says why"
            )
        for message in messages:
            if message.queue_offset < offsets.end:
                yield DeadLetter(message)
