"""The PullConsumer: queues are chosen, sought and polled by the caller.

Source: Java DefaultLitePullConsumerImpl, in its assign mode.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable, Mapping

from orbitmq.client.base import Client
from orbitmq.client.client_id import unique_instance
from orbitmq.client.consume.allocation import change
from orbitmq.client.consume.offsets import BrokerOffsets, OffsetRange, QueueOffsets
from orbitmq.client.consume.puller import PULL_COUNT_MAX, PullSettings, QueueReader
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX
from orbitmq.client.routing.queue_selection import readable_queues
from orbitmq.client.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import GROUP_LENGTH_MAX, check_name
from orbitmq.wire.signature import Credentials

POLL_TIMEOUT_MS = 1_000
POLL_COUNT_MAX = 1_000


class PullConsumer(Client):
    """Reads queues that the caller assigns; all of them are long-polled at once.

        async with PullConsumer("audit", name_servers=["127.0.0.1:9876"]) as consumer:
            consumer.assign(await consumer.queues("orders"))
            while messages := await consumer.poll():
                ...
            await consumer.commit()

    A queue begins where `seek` says, or else at the group's committed offset, or else where `consume_from` says.

    Args:
        group: under which offsets are committed.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        consume_from: where a queue begins that was not sought and has no committed offset.
        consume_from_ms: for TIMESTAMP, in ms since 1970.
        tag: one tag, several as "A || B", or "*"; for all queues.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        consume_from: ConsumeFrom = ConsumeFrom.FIRST,
        consume_from_ms: int = 0,
        tag: str = "*",
        pull_count_max: int = PULL_COUNT_MAX,
        window_count_max: int = COUNT_MAX,
        window_size_max: int = SIZE_MAX,
        poll_interval_ms: int = 30_000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.group = check_name("group", group, GROUP_LENGTH_MAX)
        self._consume_from = ConsumeFrom(consume_from)
        self._consume_from_ms = consume_from_ms
        self._tag = tag
        self._settings = PullSettings(
            pull_count_max=pull_count_max, window_count_max=window_count_max, window_size_max=window_size_max
        )
        # No heartbeats: they would make this a member of the group, and its push consumers would leave it a share.
        self._session = ClientSession(
            name_servers,
            instance=unique_instance(),
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        self._queue_offsets = QueueOffsets(self._session)
        self._group_offsets = BrokerOffsets(self._session, self.group, young_queue_at_zero=False)
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._ready: deque[QueueReader] = deque()
        self._arrived = asyncio.Event()

    async def open(self) -> None:
        """Begin."""
        self._session.open()

    async def close(self) -> None:
        """Stop reading and close the connections; what was not committed comes again."""
        if self._session.is_open:
            await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
            self._readers.clear()
            await self._session.close()

    # Queues and their offsets.

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues as the NameServer knows them now.

        Raises:
            RouteNotFound: no NameServer knows the topic.
        """
        self._check_open()
        if self._session.routes.cached(topic) is None:
            route = await self._session.routes.find(topic)
        else:
            await self._session.routes.refresh(topic)
            route = await self._session.routes.find(topic)
        return list(readable_queues(topic, route))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's first message that is still there."""
        return await self._queue_offsets.begin(await self._known(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return await self._queue_offsets.end(await self._known(queue))

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        return await self._queue_offsets.at(await self._known(queue), timestamp_ms)

    async def offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        """Return where each queue begins and ends now."""
        asked = list(queues)
        begins = await asyncio.gather(*map(self.begin_offset, asked))
        ends = await asyncio.gather(*map(self.end_offset, asked))
        return dict(zip(asked, map(OffsetRange, begins, ends), strict=True))

    # Assignment and position.

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._readers)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others; those that were read before go on where they are."""
        self._check_open()
        removed, added = change(self._readers, [MessageQueue(*queue) for queue in queues])
        for queue in removed:
            self._session.spawn(self._readers.pop(queue).stop(), f"end of {queue}")
        for queue in added:
            subscription = parse_subscription(queue.topic, self._tag, now_ms())
            self._session.routes.watch(queue.topic)
            reader = self._readers[queue] = QueueReader(
                self._session,
                self.group,
                queue,
                subscription,
                start=self._start_offset,
                on_messages=self._offer,
                settings=self._settings,
            )
            reader.start()

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on reading `queue` at `queue_offset`.

        Raises:
            InvalidArgument: the queue is not assigned, or the offset is negative.
        """
        if queue_offset < 0:
            raise InvalidArgument("queue_offset", queue_offset, "0 or more")
        self._reader(queue).seek(queue_offset)

    async def seek_to_begin(self, queue: MessageQueue) -> int:
        """Go on at the queue's first message; return its offset."""
        return self._seek(queue, await self.begin_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> int:
        """Go on behind the queue's last message; return the offset of the next one."""
        return self._seek(queue, await self.end_offset(queue))

    async def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Go on at the first message stored at `timestamp_ms` (since 1970) or later; return its offset."""
        return self._seek(queue, await self.offset_at(queue, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message that `poll` gives of `queue`; None while that is being looked up."""
        reader = self._reader(queue)
        return reader.window.consumed_offset if reader.is_started else None

    # Messages.

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, count_max: int = POLL_COUNT_MAX) -> list[StoredMessage]:
        """Return messages of the assigned queues as they come, each queue's in order.

        Args:
            timeout_ms: how long to wait for the first one.
            count_max: messages at most.

        Returns:
            list of messages, empty when none came in time.
        """
        self._check_open()
        found = self._take(count_max)
        if found:
            return found
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not found:
                    self._arrived.clear()
                    await self._arrived.wait()
                    found = self._take(count_max)
        except TimeoutError:
            pass
        return found

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in `queue`, None when there is none."""
        return await self._group_offsets.load(await self._known(queue))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets for the group, by default those up to which `poll` gave messages.

        Raises:
            ClientError: a broker did not take its part.
        """
        if offsets is None:
            positions = {queue: self.position(queue) for queue in self._readers}
            offsets = {queue: offset for queue, offset in positions.items() if offset is not None}
        for queue in offsets:
            await self._known(queue)
        await asyncio.gather(*(self._group_offsets.store(queue, offset) for queue, offset in offsets.items()))

    # Below: how.

    def _take(self, count_max: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while self._ready and len(found) < count_max:
            reader = self._ready.popleft()
            if self._readers.get(reader.queue) is not reader:
                continue
            batch = reader.window.take(count_max - len(found))
            reader.window.commit(batch)
            reader.made_room()
            found += batch
            if reader.window.is_ready:
                self._ready.append(reader)
        return found

    def _offer(self, reader: QueueReader) -> None:
        if reader not in self._ready:
            self._ready.append(reader)
        self._arrived.set()

    async def _start_offset(self, queue: MessageQueue) -> int:
        await self._known(queue)
        found = await self._group_offsets.load(queue)
        if found is None:
            found = await self._queue_offsets.start(queue, self._consume_from, self._consume_from_ms)
        return found

    def _seek(self, queue: MessageQueue, queue_offset: int) -> int:
        self.seek(queue, queue_offset)
        return queue_offset

    def _reader(self, queue: MessageQueue) -> QueueReader:
        reader = self._readers.get(queue)
        if reader is None:
            raise InvalidArgument("queue", tuple(queue), "an assigned queue; assign() comes first")
        return reader

    async def _known(self, queue: MessageQueue) -> MessageQueue:
        """Make sure that the queue's broker is known, and return the queue."""
        self._check_open()
        if self._session.routes.broker(queue.broker_name) is None:
            await self._session.routes.find(queue.topic)
        return queue
