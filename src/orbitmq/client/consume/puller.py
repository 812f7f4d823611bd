"""Reads one queue: long polls its broker for as long as the queue's window has room.

Source: Java DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from orbitmq.client.consume.pull_result import PullStatus, parse_pull_answer
from orbitmq.client.consume.subscriptions import wants
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX, Window
from orbitmq.client.session import ClientSession
from orbitmq.errors import ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout
from orbitmq.model.group import Subscription
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.model.route import MASTER_ID, MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PullMessage, PullSysFlag
from orbitmq.wire.record import iter_records, to_stored_message

log = logging.getLogger(__name__)

SUSPEND_MS = 15_000
"""How long a broker may hold a pull that finds nothing (Java: brokerSuspendMaxTimeMillis)."""
PULL_TIMEOUT_MS = 30_000
PULL_COUNT_MAX = 256
FIRST_BACKOFF_MS = 50
BACKOFF_MAX_MS = 1_000
IDLE_PAUSE_MS = 20
"""Before the next pull after an empty answer that came at once: not every broker holds pulls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """How a queue is pulled.

    Args:
        pull_count_max: messages per pull; a broker may give fewer.
        window_count_max: messages of one queue that may wait to be consumed.
        window_size_max: bytes of one queue that may wait to be consumed.
    """

    pull_count_max: int = PULL_COUNT_MAX
    window_count_max: int = COUNT_MAX
    window_size_max: int = SIZE_MAX
    suspend_ms: int = SUSPEND_MS
    timeout_ms: int = PULL_TIMEOUT_MS


DEFAULT_SETTINGS: Final = PullSettings()


class QueueReader:
    """One queue, its window, and the task that fills it.

    Args:
        session: carries the pulls.
        group: the consumer group, for the broker's statistics and flow control.
        queue: what to read.
        subscription: which messages; the tags are checked again here, by text.
        start: returns the first offset; asked again when it fails.
        on_messages: is called when messages have come in.
        commits: let every pull carry the consumed offset to the broker, which keeps it for the group: whoever takes the
            queue over repeats little.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        queue: MessageQueue,
        subscription: Subscription,
        *,
        start: Callable[[MessageQueue], Awaitable[int]],
        on_messages: Callable[[QueueReader], None],
        settings: PullSettings = DEFAULT_SETTINGS,
        commits: bool = False,
    ) -> None:
        self.queue = queue
        self.window = Window(0, count_max=settings.window_count_max, size_max=settings.window_size_max)
        self.is_started = False
        self.is_stopped = False
        self.end_offset = 0
        """The queue's end as the last answer told it."""
        self._session = session
        self._group = group
        self._subscription = subscription
        self._start = start
        self._on_messages = on_messages
        self._settings = settings
        self._commits = commits
        self._room = asyncio.Event()
        self._broker_id = MASTER_ID
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read from now on."""
        self._task = self._session.spawn(self._read(), f"reader of {self.queue}")

    async def stop(self) -> None:
        """Read no more. The window stays as it is."""
        self.is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def seek(self, queue_offset: int) -> None:
        """Go on at `queue_offset`; what was read and not handed out is forgotten."""
        self.is_started = True
        self.window.seek(queue_offset)
        self.made_room()
        if self._task is not None and not self.is_stopped:
            self._task.cancel()  # with it goes the pull from the old place, which a broker may hold for many seconds
            self.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Read by another subscription from the next pull on."""
        self._subscription = subscription

    def made_room(self) -> None:
        """Messages left the window."""
        self._room.set()

    async def _read(self) -> None:
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            try:
                if not self.is_started:
                    self.window.seek(await self._start(self.queue))
                    self.is_started = True
                while not self.window.has_room:
                    self._room.clear()
                    await self._room.wait()
                await self._pull()
            except OrbitError as error:
                self._complain(error)
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
                await self._refresh_route()
            else:
                backoff_ms = FIRST_BACKOFF_MS
                self._recovered()

    async def _pull(self) -> None:
        loop = asyncio.get_running_loop()
        began, place = loop.time(), self.window.pull_offset
        answer = await self._session.call(
            self.queue.broker_name, self._header(), timeout_ms=self._settings.timeout_ms, broker_id=self._broker_id
        )
        self._session.announced(self.queue.broker_name, self._broker_id)
        if self._take(answer):
            self._on_messages(self)
        elif place == self.window.pull_offset and loop.time() - began < IDLE_PAUSE_MS / 1000:
            await asyncio.sleep(IDLE_PAUSE_MS / 1000)

    def _take(self, answer: Command) -> bool:
        """Put an answer's messages into the window; False when there were none."""
        result = parse_pull_answer(answer)
        if result is None:
            address = self._session.routes.address(self.queue.broker_name, self._broker_id)
            self._broker_id = MASTER_ID
            raise RemoteRefused(answer.code, answer.remark, address)
        header = result.header
        self._broker_id = header.suggest_which_broker_id
        self.end_offset = header.max_offset
        messages = self._decode(result.records)
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "queue %s has no offset %d, it holds %d to %d: going on at %d",
                self.queue, self.window.pull_offset, header.min_offset, header.max_offset, header.next_begin_offset,
            )  # fmt: skip
        self.window.add(messages, header.next_begin_offset)
        return bool(messages)

    def _decode(self, body: bytes) -> list[StoredMessage]:
        subscription, broker_name = self._subscription, self.queue.broker_name
        found = [to_stored_message(record, broker_name) for record in iter_records(body)]
        if subscription.tags:
            found = [message for message in found if wants(subscription, message.tag)]
        if self.queue.topic.startswith(RETRY_PREFIX):
            found = [_as_sent(message) for message in found]
        return found

    def _header(self) -> PullMessage:
        subscription = self._subscription
        consumed = self.window.consumed_offset if self._commits and self._broker_id == MASTER_ID else 0
        return PullMessage(
            consumer_group=self._group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.window.pull_offset,
            count_max=self._settings.pull_count_max,
            sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | (PullSysFlag.COMMIT_OFFSET if consumed else 0),
            commit_offset=consumed,
            suspend_timeout_ms=self._settings.suspend_ms,
            subscription=subscription.expression,
            sub_version=subscription.version,
            expression_type=subscription.expression_type,
            broker_name=self.queue.broker_name,
        )

    async def _refresh_route(self) -> None:
        self._broker_id = MASTER_ID
        try:
            await self._session.routes.refresh(self.queue.topic)
        except OrbitError as error:
            log.debug("queue %s: %s", self.queue, error)

    def _complain(self, error: OrbitError) -> None:
        """Warn when something new goes wrong; the same trouble again is no news."""
        if isinstance(error, ConnectionFailed | RequestTimeout):
            self._session.complain(self.queue.broker_name, error)
            return
        trouble = f"{type(error).__name__} {getattr(error, 'code', '')}"
        log.log(logging.DEBUG if trouble == self._trouble else logging.WARNING, "queue %s: %s", self.queue, error)
        self._trouble = trouble

    def _recovered(self) -> None:
        if self._trouble:
            self._trouble = ""
            log.info("queue %s is read again", self.queue)


def _as_sent(message: StoredMessage) -> StoredMessage:
    """Return a message from the retry topic under the topic it was sent to."""
    topic = message.properties.get(PropertyName.RETRY_TOPIC)
    return replace(message, topic=topic) if topic else message
