"""The task that reads one queue: long polls its broker for as long as the queue's window has room.

Source: Java DefaultMQPushConsumerImpl.pullMessage, PullMessageService.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace

from orbitmq.client.consume.pull_request import (
    DEFAULT_SETTINGS,
    PullResult,
    PullSettings,
    PullStatus,
    parse_pull_answer,
    pull_header,
)
from orbitmq.client.consume.pulled_messages import decode_messages
from orbitmq.client.consume.statistics import TopicStatistics
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.client.routing.route_queues import is_logical
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.model.group import SUBSCRIBE_ALL, Subscription
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MASTER_ID, MessageQueue
from orbitmq.wire.headers import PullMessage, PullSysFlag

log = logging.getLogger(__name__)

FIRST_BACKOFF_MS = 50
BACKOFF_MAX_MS = 1_000
SPAN_WARNING_INTERVAL_S = 60.0
RECHECK_AFTER_S = 0.25
"""After so long without an answer the queue may be another one: its topic may have been deleted and created again."""
IDLE_PAUSE_MS = 20
"""Before the next pull after an empty answer that came immediately: not every broker holds pulls."""


class Puller:
    """One queue, its window, and the task that fills it.

    Args:
        session: carries the pulls.
        group: the consumer group, for the broker's statistics and flow control.
        queue: what to read.
        subscription: which messages; the tags are checked again here, by text.
        find_offset: returns the first offset; called again when it fails.
        on_messages: is called when messages have come in.
        may_commit: says whether pulls may carry the consumed offset to the broker, which keeps it for the group: after
            a crash the queue's next reader repeats little.
        on_reset: is called with the offset that the queue goes on at, because it was set for the group, or the queue was created
            again.
        statistics: pulls are counted here.
        share_size: returns this queue's share of the bytes that may wait in all queues; None for no such limit.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        queue: MessageQueue,
        subscription: Subscription,
        *,
        find_offset: Callable[[MessageQueue], Awaitable[int]],
        on_messages: Callable[[], None],
        settings: PullSettings = DEFAULT_SETTINGS,
        may_commit: Callable[[], bool] = lambda: False,
        on_reset: Callable[[int], None] = lambda _offset: None,
        statistics: TopicStatistics | None = None,
        share_size: Callable[[], int] | None = None,
        on_final: Callable[[RemoteRefused], None] = lambda _refusal: None,
    ) -> None:
        self.queue = queue
        self.window = ProcessQueue(
            0,
            count_max=settings.window_count_max,
            size_max=settings.window_size_max,
            span_max=settings.window_span_max,
            share_size=share_size,
        )
        self.is_started = False
        """True once the first offset is known."""
        self.refusal: RemoteRefused | RouteNotFound | None = None
        """Why no broker gives the queue's messages, until one does; None while its broker is only not reached."""
        self.pulled_at_ms = 0
        """When the last pull was sent, in ms since 1970."""
        self._session = session
        self._group = group
        self._subscription = subscription
        self._find_offset = find_offset
        self._on_messages = on_messages
        self._settings = settings
        self._may_commit = may_commit
        self._on_reset = on_reset
        self._on_final = on_final
        self._statistics = TopicStatistics() if statistics is None else statistics
        self._last: StoredMessage | None = None
        """The last message that was read."""
        self._answered_s = math.inf
        """When the last pull was answered, by the loop's clock."""
        self._room = asyncio.Event()
        self._broker_id = MASTER_ID
        self._warned = ""
        self._warned_of_span_s = -math.inf
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read from now on."""
        self._task = self._session.tasks.spawn(self._read(), f"puller of {self.queue}")

    async def stop(self) -> None:
        """Read no more. The window stays as it is."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def seek(self, queue_offset: int) -> None:
        """Go on at `queue_offset`; what was read and not handed out is forgotten."""
        self.is_started = True
        self.window.seek(queue_offset)
        if self._task is not None and not self._is_stopped:
            self._task.cancel()  # with it goes the pull at the old offset, which a broker may hold for many seconds
            self.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Read by another subscription from the next pull on."""
        self._subscription = subscription

    def resume(self) -> None:
        """Go on pulling: messages have left the window."""
        self._room.set()

    async def _read(self) -> None:
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            try:
                if not self.is_started:
                    self.window.seek(await self._find_offset(self.queue))
                    self.is_started = True
                while not self.window.has_room:
                    self._room.clear()
                    self._warn_of_span()
                    await self._room.wait()
                await self._pull()
            except OrbitError as error:
                self.refusal = error if isinstance(error, RemoteRefused | RouteNotFound) else None
                self._warn(error)
                if isinstance(error, RemoteRefused) and error.is_final:
                    self._on_final(error)
                self._broker_id = MASTER_ID
                is_away = isinstance(error, ConnectionFailed | RequestTimeout)
                if is_away:
                    self._session.routes.chase(self.queue.topic, self._session.routes.broker_of(self.queue))
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
                if not is_away:
                    await self._refresh_route(error)
            else:
                backoff_ms = FIRST_BACKOFF_MS
                self.refusal = None
                self._end_warning()

    async def _pull(self) -> None:
        loop = asyncio.get_running_loop()
        last = self._last
        is_due = last is not None and loop.time() - self._answered_s >= RECHECK_AFTER_S
        if last is not None and is_due and await self._is_recreated(last, last.queue_offset):
            return
        began, offset = loop.time(), self.window.pull_offset
        self.pulled_at_ms = now_ms()
        answer = await self._session.call_queue(
            self.queue, self._header(), timeout_ms=self._settings.timeout_ms, broker_id=self._broker_id
        )
        broker_name = self._session.routes.broker_of(self.queue)
        self._session.note_answer(broker_name, self._broker_id)
        result = parse_pull_answer(answer)
        if result is None:
            address = self._session.routes.address(broker_name, self._broker_id)
            self._broker_id = MASTER_ID
            raise RemoteRefused(answer.code, answer.remark, address)
        self._answered_s = loop.time()
        if result.status is PullStatus.OFFSET_ILLEGAL and (end := result.header.max_offset) < self.window.pull_offset:
            if not end:
                self._begin_again(0)
                return
            if last is not None and await self._is_recreated(last, end - 1):
                return
        found = self._keep(result)
        self._statistics.pulls += 1
        self._statistics.pull_s += loop.time() - began
        self._statistics.pulled += found
        if found:
            self._on_messages()
        elif offset == self.window.pull_offset and loop.time() - began < IDLE_PAUSE_MS / 1000:
            await asyncio.sleep(IDLE_PAUSE_MS / 1000)

    async def _is_recreated(self, last: StoredMessage, queue_offset: int) -> bool:
        """Begin again and return True if the queue is not the one that was read: its topic was deleted and created again.

        What it holds at `queue_offset`, not behind the last message that was read, lies behind that one in the log then.
        """
        if is_logical(self.queue):
            return False  # its brokers have a log each
        found = await self._read_one(queue_offset)
        if (
            found is None
            or found[0].queue_offset > last.queue_offset
            or found[0].physical_offset <= last.physical_offset
        ):
            return False
        self._begin_again(found[1])
        return True

    async def _read_one(self, queue_offset: int) -> tuple[StoredMessage, int] | None:
        """Return the message at an offset, and the queue's first offset; None where it is not there, or the broker is not."""
        every = parse_subscription(self.queue.topic, SUBSCRIBE_ALL, 0)
        header = pull_header(self._group, self.queue, every, self._settings, queue_offset=queue_offset, commit_offset=0)
        header = replace(header, count_max=1, sys_flag=PullSysFlag.SUBSCRIPTION, suspend_timeout_ms=0)
        try:
            answer = await self._session.call_queue(self.queue, header, broker_id=self._broker_id)
        except OrbitError as error:  # the next pull says so, too
            log.debug("queue %s: %s", self.queue, error)
            return None
        result = parse_pull_answer(answer)
        if result is None or result.status is not PullStatus.FOUND:
            return None
        found, _, _ = decode_messages(
            result.records, self.queue, every, queue_offset, result.header.next_begin_offset, result.header.offset_delta
        )
        return (found[0], result.header.min_offset) if found else None

    def _begin_again(self, queue_offset: int) -> None:
        """Forget what was read of a queue of the same name, and go on at the first message."""
        log.warning("queue %s was created again, or has lost all messages: going on at %d", self.queue, queue_offset)
        self._last = None
        self.window.seek(queue_offset)
        self._on_reset(queue_offset)

    def _header(self) -> PullMessage:
        # Masters keep the groups' offsets; a slave only has a copy of them.
        is_told = self._broker_id == MASTER_ID and self._may_commit()
        return pull_header(
            self._group,
            self.queue,
            self._subscription,
            self._settings,
            queue_offset=self.window.pull_offset,
            commit_offset=self.window.consumed_offset if is_told else 0,
        )

    def _keep(self, result: PullResult) -> int:
        """Put the messages of a pull into the window; return how many there were."""
        header = result.header
        self._broker_id = header.suggest_which_broker_id
        if result.status is PullStatus.OFFSET_ILLEGAL and self._was_reset(result):
            log.info("queue %s: the group %s was set to offset %d", self.queue, self._group, header.next_begin_offset)
            self.window.seek(header.next_begin_offset)
            self._on_reset(header.next_begin_offset)
            return 0
        messages, errors, next_offset = decode_messages(
            result.records, self.queue, self._subscription, self.window.pull_offset, header.next_begin_offset,
            header.offset_delta, body_size_max=self._settings.body_size_max,
        )  # fmt: skip
        for error in errors:
            log.error(
                "queue %s: a record between the offsets %d and %d is damaged: %s",
                self.queue, self.window.pull_offset, next_offset, error,
            )  # fmt: skip
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "queue %s has no offset %d, it holds %d to %d: going on at %d",
                self.queue, self.window.pull_offset, header.min_offset, header.max_offset, header.next_begin_offset,
            )  # fmt: skip
        self.window.add(messages, next_offset)
        if messages:
            self._last = messages[-1]
        return len(messages)

    def _was_reset(self, result: PullResult) -> bool:
        """Return True if the group's offset was reset: the queue has the one that was asked for."""
        header = result.header
        return header.min_offset <= self.window.pull_offset <= header.max_offset

    async def _refresh_route(self, cause: OrbitError) -> None:
        routes = self._session.routes
        try:
            if isinstance(cause, RouteNotFound):
                await routes.seek(self.queue.topic, routes.broker_of(self.queue))
            else:
                await routes.refresh(self.queue.topic)
        except OrbitError as error:
            log.debug("queue %s: %s", self.queue, error)

    def _warn(self, error: OrbitError) -> None:
        """Warn of an error once; the same one again is not news."""
        if isinstance(error, ConnectionFailed | RequestTimeout):
            self._session.note_failure(self._session.routes.broker_of(self.queue), error)
            return
        kind = f"{type(error).__name__} {getattr(error, 'code', '')}"
        log.log(logging.DEBUG if kind == self._warned else logging.WARNING, "queue %s: %s", self.queue, error)
        self._warned = kind

    def _warn_of_span(self) -> None:
        """Tell which message holds the queue up, once in a while."""
        now_s = asyncio.get_running_loop().time()
        if self.window.is_too_wide and now_s >= self._warned_of_span_s + SPAN_WARNING_INTERVAL_S:
            self._warned_of_span_s = now_s
            first, last = self.window.bounds
            log.warning(
                "queue %s: not pulled until the message at offset %d is done: %d behind it were pulled (window_span_max)",
                self.queue, first, last - first,
            )  # fmt: skip

    def _end_warning(self) -> None:
        if self._warned:
            self._warned = ""
            log.info("queue %s is read again", self.queue)
