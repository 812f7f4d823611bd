"""The PullConsumer: queues are chosen, sought and polled by the caller.

Source: Java DefaultLitePullConsumerImpl, in its assign mode.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from orbitmq.client.base import Client
from orbitmq.client.consume.allocation import assignment_change
from orbitmq.client.consume.offset_stores import BrokerOffsets
from orbitmq.client.consume.pull_request import PULL_COUNT_MAX, PullSettings
from orbitmq.client.consume.puller import Puller
from orbitmq.client.consume.start_offsets import OffsetRange, QueueOffsets, StartOffsets, check_start
from orbitmq.client.consume.subscriptions import subscribe
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX
from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.session.session import ClientSession
from orbitmq.client.session.validation import checked
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, RemoteRefused, RouteNotFound
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.traces import ConsumeReturnType
from orbitmq.wire.signature import Credentials

POLL_TIMEOUT_MS = 1_000
POLL_COUNT_MAX = 1_000
_PASSING = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.NOT_LEADER_FOR_QUEUE}
"""Refusals of pulls that end by themselves."""


@checked()
class PullConsumer(Client):
    """Reads queues that the caller assigns; all of them are long-polled at the same time.

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
        sql: instead of tags, an SQL92 expression over the messages' properties, for all queues; the broker filters, if
            its `enablePropertyFilter` is on.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
        trace: tell every message's way to `trace_topic`, in the background (RocketMQ's message trace): a message counts as
            consumed when `poll` gives it, as with Java's.
        trace_topic: where traces go.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        consume_from: ConsumeFrom = ConsumeFrom.FIRST,
        consume_from_ms: int | None = None,
        tag: str = "*",
        sql: str | None = None,
        pull_count_max: int = PULL_COUNT_MAX,
        window_count_max: int = COUNT_MAX,
        window_size_max: int = SIZE_MAX,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
    ) -> None:
        start = check_start(consume_from, consume_from_ms)
        self.group = group
        subscribe("any", tag, sql, 0)  # what is wrong is told here, not with the first queue
        self._tag = tag
        self._sql = sql
        self._settings = PullSettings(
            pull_count_max=pull_count_max, window_count_max=window_count_max, window_size_max=window_size_max
        )
        # No heartbeats: they would make this a member of the group, and its push consumers would leave queues to it.
        session = ClientSession(
            name_servers,
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        super().__init__(session)
        self._tracer = Tracer(session, group=self.group, kind="CONSUME", topic=trace_topic) if trace else None
        self._queue_offsets = QueueOffsets(session)
        self._group_offsets = BrokerOffsets(session, self.group, in_memory_queue_at_zero=False)
        self._start_offsets = StartOffsets(
            self._group_offsets, self._queue_offsets, start, consume_from_ms, stores=False
        )
        self._pullers: dict[MessageQueue, Puller] = {}
        self._ready: deque[MessageQueue] = deque()
        self._arrived = asyncio.Event()

    async def open(self) -> None:
        """Begin."""
        self._session.open()
        if self._tracer is not None:
            self._tracer.open()

    async def close(self) -> None:
        """Stop reading and close the connections; what was not committed comes again."""
        if self._session.is_open:
            await asyncio.gather(*(puller.stop() for puller in self._pullers.values()))
            self._pullers.clear()
            if self._tracer is not None:
                await self._tracer.close()
            await self._session.close()
            self._arrived.set()  # pollers learn that nothing comes any more
        else:
            await self._session.closed()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues as the NameServer knows them now.

        Raises:
            InvalidArgument: that is not a topic's name.
            RouteNotFound: no NameServer knows the topic.
        """
        self._check_open()
        if topic in self._session.routes.known.routes:
            await self._session.routes.refresh(topic)
        return list(readable_queues(topic, await self._session.routes.find(topic)))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's first message that is still there."""
        return await self._queue_offsets.begin(await self._known(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return await self._queue_offsets.end(await self._known(queue))

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later.

        Raises:
            InvalidArgument: the time is not a whole number, 0 or more.
            ClientError: the queue's broker does not answer.
        """
        return await self._queue_offsets.at(await self._known(queue), timestamp_ms)

    async def offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        """Return where each queue begins and ends now."""
        asked = list(queues)
        begins = await asyncio.gather(*map(self.begin_offset, asked))
        ends = await asyncio.gather(*map(self.end_offset, asked))
        return dict(zip(asked, map(OffsetRange, begins, ends), strict=True))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._pullers)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others; those that were read before go on where they are.

        Raises:
            InvalidArgument: one of them is not a queue.
        """
        self._check_open()
        removed, added = assignment_change(self._pullers, [MessageQueue(*queue) for queue in queues])
        for queue in removed:
            self._session.tasks.spawn(self._pullers.pop(queue).stop(), f"end of {queue}")
        for topic in {queue.topic for queue in removed} - {queue.topic for queue in (*self._pullers, *added)}:
            self._session.routes.unwatch(topic)
        for queue in added:
            subscription = subscribe(queue.topic, self._tag, self._sql, now_ms())
            self._session.routes.watch(queue.topic)
            puller = self._pullers[queue] = Puller(
                self._session,
                self.group,
                queue,
                subscription,
                find_offset=self._find_offset,
                on_messages=partial(self._offer, queue),
                settings=self._settings,
                on_final=lambda _refusal: self._arrived.set(),
            )
            puller.start()

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on reading `queue` at `queue_offset`.

        Raises:
            InvalidArgument: the queue is not assigned, or the offset is not a whole number, 0 or more.
        """
        self._puller(queue).seek(queue_offset)

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
        puller = self._puller(queue)
        return puller.window.consumed_offset if puller.is_started else None

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, count_max: int = POLL_COUNT_MAX) -> list[StoredMessage]:
        """Return messages of the assigned queues as they come, each queue's in order.

        Args:
            timeout_ms: how long to wait for the first one.
            count_max: messages at most.

        Returns:
            list of messages, empty when none came in time.

        Raises:
            InvalidArgument: a number is out of its range.
            ClientError: nothing can come: the consumer is not open, or not any more, or no queue is assigned.
            RemoteRefused: nothing is there, and a queue is refused in a way that no repetition can change: the broker takes no
                expressions (`enablePropertyFilter`), or cannot read this one (23).
            RemoteRefused, RouteNotFound: nothing came in time, and all queues are refused: their topic is gone (17) or may
                not be read (16), there is no such queue (1), or no broker knows their
                topic or broker. Reading goes on once that is over, so that `poll` may be called again.
        """
        self._check_open()
        if not self._pullers:
            raise ClientError("nothing to poll: assign() comes first")
        found = self._collect(count_max)
        if found:
            return found
        self._raise_final_refusal()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not found:
                    self._arrived.clear()
                    await self._arrived.wait()
                    self._check_open()
                    found = self._collect(count_max)
                    if not found:
                        self._raise_final_refusal()
        except TimeoutError:
            self._raise_refusal()
        return found

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in `queue`, None when there is none."""
        return await self._group_offsets.load(await self._known(queue))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets for the group, by default those up to which `poll` gave messages.

        Raises:
            InvalidArgument: an offset is not a whole number, 0 or more.
            ClientError: a broker did not take its part, or the consumer is not open.
        """
        self._check_open()
        if offsets is None:
            positions = {queue: self.position(queue) for queue in self._pullers}
            offsets = {queue: offset for queue, offset in positions.items() if offset is not None}
        for queue in offsets:
            await self._known(queue)
        await asyncio.gather(*(self._group_offsets.store(queue, offset) for queue, offset in offsets.items()))

    def _raise_refusal(self) -> None:
        """Say why nothing comes where that lasts: waiting in silence would look like a topic without messages."""
        refusals = [puller.refusal for puller in self._pullers.values()]
        lasting = [refusal for refusal in refusals if refusal is not None and not _is_passing(refusal)]
        if lasting and len(lasting) == len(refusals):
            raise lasting[0]

    def _raise_final_refusal(self) -> None:
        """Raise the refusal of a queue that no repetition can change."""
        for puller in self._pullers.values():
            if isinstance(puller.refusal, RemoteRefused) and puller.refusal.is_final:
                raise puller.refusal

    def _collect(self, count_max: int) -> list[StoredMessage]:
        """Take messages out of the windows, queue by queue; a queue that has more goes to the end of the line."""
        found: list[StoredMessage] = []
        while self._ready and len(found) < count_max:
            puller = self._pullers.get(self._ready.popleft())
            if puller is None:
                continue
            taken = puller.window.take(count_max - len(found))
            if self._tracer is not None:
                self._note(self._tracer, taken)
            found += taken
            puller.resume()
            if puller.window.is_ready:
                self._ready.append(puller.queue)
        return found

    @staticmethod
    def _note(tracer: Tracer, taken: Sequence[StoredMessage]) -> None:
        """Trace messages as Java does: a poll does not say how processing ends."""
        request_id = tracer.begun(taken)
        if request_id is not None:
            tracer.ended(taken, request_id, ConsumeReturnType.SUCCESS, 0)

    def _offer(self, queue: MessageQueue) -> None:
        if queue not in self._ready:
            self._ready.append(queue)
        self._arrived.set()

    async def _find_offset(self, queue: MessageQueue) -> int:
        return await self._start_offsets.find(await self._known(queue))

    def _seek(self, queue: MessageQueue, queue_offset: int) -> int:
        self.seek(queue, queue_offset)
        return queue_offset

    def _puller(self, queue: MessageQueue) -> Puller:
        self._check_open()
        puller = self._pullers.get(queue)
        if puller is None:
            raise InvalidArgument("queue", tuple(queue), "an assigned queue; assign() comes first")
        return puller

    async def _known(self, queue: MessageQueue) -> MessageQueue:
        """Make sure that the queue's broker is known, and return the queue."""
        self._check_open()
        queue = MessageQueue(*queue)
        if not self._session.routes.knows(queue):
            await self._session.routes.find(queue.topic)
        return queue


def _is_passing(refusal: RemoteRefused | RouteNotFound) -> bool:
    return isinstance(refusal, RemoteRefused) and refusal.code in _PASSING
