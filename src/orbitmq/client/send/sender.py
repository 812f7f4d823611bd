"""One send after the other: tries a queue, avoids brokers that failed, tries elsewhere, and says what happened.

Source: Java DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from orbitmq.client.send.attempts import Attempts
from orbitmq.client.send.batch import EncodedBatch, Load, batch_body, batch_header, first_of
from orbitmq.client.send.permits import Permits
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import OLD_ROUTE_CODES, RETRY_CODES, EncodedMessage, SendKind, send_header
from orbitmq.client.send.result import SendResult, decode_results
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    ClientError,
    ConnectionFailed,
    NoMaster,
    OrbitError,
    RemoteRefused,
    RequestTimeout,
    RouteNotFound,
    SendFailed,
)
from orbitmq.model.route import MessageQueue, TopicRoute

SEND_TIMEOUT_MS = 3_000
RETRIES = 2
SENDS_MAX = 256
"""More requests at the same time make no broker faster: each would only wait longer for its answer, until it is given up."""
NEW_TOPIC_TRIES = 6
NEW_TOPIC_PAUSE_MS = 50
"""After a topic was created by sending to it, its route is asked for so often, each pause twice as long as the last."""

_SLOW_MS = 1_000
"""A send that waits for so long may wait for a master that stands still, and was replaced."""
_ANY = ""
"""In place of a broker's name: the pauses of sends whose topic has no queue to be sent to."""


OnSent = Callable[[Sequence[EncodedMessage], Sequence[SendResult], str, Mapping[str, str], int], None]
"""Takes messages, their results, the broker's address, the extFields of its answer, and how long that took (ms)."""


class Sender:
    """Sends messages, one or a batch at a time.

    Args:
        session: carries the requests.
        selector: chooses the queues; what it knows of brokers that fail is noted here.
        group: the producer group.
        timeout_ms: over all attempts.
        attempt_timeout_ms: for one attempt; None for half of a send's time while there is another broker to try, and for all
            that is left where there is none.
        sends_max: sends that are under way at the same time; further ones wait for their turn, which is when their time
            begins. Sends that pause before they try an absent broker again are not counted.
        retries: attempts after the first one, of those that count; see `Attempts`.
        on_sent: is called with messages that a broker has stored; None: not needed.
    """

    def __init__(
        self,
        session: ClientSession,
        selector: QueueSelector,
        *,
        group: str,
        timeout_ms: int,
        attempt_timeout_ms: int | None,
        retries: int,
        sends_max: int = SENDS_MAX,
        on_sent: OnSent | None = None,
    ) -> None:
        self._session = session
        self._places = Permits(sends_max)
        self._selector = selector
        self._group = group
        self._timeout_ms = timeout_ms
        self._attempt_timeout_ms = attempt_timeout_ms
        self._retries = retries
        self._on_sent = on_sent
        self._pauses: defaultdict[str, dict[asyncio.Future[None], None]] = defaultdict(dict)
        self._waiting: dict[object, tuple[str, str, float]] = {}
        """Of each request under way, its topic, its broker and when it began, the oldest first."""
        self._watch: asyncio.TimerHandle | None = None
        session.routes.add_listener(self._route_changed)
        session.pool.on_connected(self._connected)

    async def send(
        self,
        batch: Load | Callable[[], Load],
        target: Target,
        timeout_ms: int | None = None,
        *,
        first: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Send messages together, to one queue.

        Args:
            batch: one message, or several that may travel in one request; or what encodes them when it is their turn.
            target: where to.
            timeout_ms: over all attempts.
            first: the queue of the first attempt, when it is chosen already.

        Returns:
            list of results, one per message; one for all that were encoded together.

        Raises:
            SendFailed: every attempt failed.
            RemoteRefused: a refusal that other brokers share.
            RouteNotFound, NoNameServer: there is no queue to send to, from the beginning.
        """
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        results: list[SendResult] | None = None
        await self._places.take(has_begun=False)
        try:
            attempts = Attempts(self._retries, asyncio.get_running_loop().time() + limit_ms / 1000)
            encoded = batch() if callable(batch) else batch
            try:
                queue = first if first is not None else await self._choose(attempts.deadline_s, target)
            except NoMaster as error:  # another broker may lead in a moment: that is waited for as for a broker
                attempts.record(error, None)
                self._session.routes.chase(target.topic)
            else:
                results = await self._try_in_time(encoded, queue, attempts, target, limit_ms)
        finally:
            self._places.leave()
        while results is None and attempts.goes_on:
            found = await self._choose_again(attempts, target, encoded)
            if found is None or not await self._take_place_again(attempts.deadline_s):
                break
            try:
                results = await self._try_in_time(encoded, found, attempts, target, limit_ms)
            finally:
                self._places.leave()
        if results is None:
            raise _send_failed(encoded, target, attempts.causes, limit_ms)
        return results

    async def send_oneway(self, message: EncodedMessage, target: Target) -> None:
        """Send one message and wait for nothing.

        Raises:
            ConnectionFailed: there is no connection to the broker.
            RouteNotFound, NoNameServer: there is no queue to send to.
        """
        queue = await self._selector.choose(target)
        header = send_header(message, self._group, queue, now_ms(), self._selector.queue_count)
        broker_name = self._session.routes.broker_of(queue)
        address = self._session.routes.address(broker_name, only_this=True)
        try:
            await self._session.pool.oneway(address, header, message.body)
        except ConnectionFailed as error:
            self._note_failure(queue)
            raise self._session.explain(error, broker_name, address) from error

    async def _choose_again(self, attempts: Attempts, target: Target, batch: Load) -> MessageQueue | None:
        """Return the queue of the next attempt when it is due; None when there is none within the time."""
        loop = asyncio.get_running_loop()
        has_paused = False
        while attempts.goes_on and attempts.left_s(loop.time()):
            try:
                queue = await self._choose(attempts.deadline_s, target, attempts.failed)
            except RouteNotFound as error:  # with its last broker, the topic has lost its route: both come back
                attempts.record(error, None)
                self._session.routes.chase(target.topic)
                await self._pause(_ANY, attempts.next_pause_s(loop.time()))
                has_paused = True
                continue
            if queue.broker_name in attempts.denied:
                return None
            if queue.broker_name in attempts.failed and not has_paused:
                if _misses_client(batch, attempts.causes[-1]):
                    return None  # the client that asked is at none of the brokers
                await self._pause(queue.broker_name, attempts.pause_s(queue.broker_name, loop.time()))
            return queue
        return None

    async def _take_place_again(self, deadline_s: float) -> bool:
        """Take a place for a send that had one before; False: there was none within its time."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._places.take(has_begun=True)
        except TimeoutError:
            return False
        return True

    async def _pause(self, broker_name: str, pause_s: float) -> None:
        """Wait before a broker that has failed is tried again; less when there is news of it."""
        sleeping = asyncio.ensure_future(asyncio.sleep(pause_s))
        self._pauses[broker_name][sleeping] = None
        try:
            await asyncio.wait((sleeping,))
        finally:
            self._pauses[broker_name].pop(sleeping, None)
            sleeping.cancel()

    def _route_changed(self, _topic: str, _route: TopicRoute) -> None:
        for broker_name in tuple(self._pauses):
            self._end_pauses(broker_name)

    def _connected(self, address: str) -> None:
        """End the pauses of a broker that takes connections again."""
        for broker_name in tuple(self._pauses):
            broker = self._session.routes.known.brokers.get(broker_name)
            if broker is not None and address in broker.addresses.values():
                self._end_pauses(broker_name)

    def _end_pauses(self, broker_name: str) -> None:
        for sleeping in self._pauses.pop(broker_name, ()):
            sleeping.cancel()

    async def _choose(self, deadline: float, target: Target, failed: frozenset[str] = frozenset()) -> MessageQueue:
        if target.queue is None:
            queue = self._selector.choose_now(target, failed)
            if queue is not None:
                return queue
        try:
            async with asyncio.timeout_at(deadline):
                return await self._selector.choose(target, failed)
        except TimeoutError:
            raise SendFailed(
                f"a message to topic {target.topic} was not sent: the time was over before a NameServer told the route "
                f"({', '.join(self._session.name_servers.configured)})"
            ) from None

    async def _try_in_time(
        self, batch: Load, queue: MessageQueue, attempts: Attempts, target: Target, limit_ms: int
    ) -> list[SendResult] | None:
        """Make one attempt in its part of the time, and avoid a broker that failed; None when another one may succeed.

        Args:
            limit_ms: for all attempts of the send.
        """
        left_ms = int(attempts.left_s(asyncio.get_running_loop().time()) * 1000)
        if left_ms <= 0:
            return None
        attempt_ms = self._attempt_timeout_ms or max(1, limit_ms // 2)
        has_full_time = left_ms >= attempt_ms
        if self._attempt_timeout_ms or self._selector.has_other(target, attempts.failed | {queue.broker_name}):
            left_ms = min(left_ms, attempt_ms)
        results = await self._try(batch, queue, attempts, left_ms, is_named=target.queue is not None)
        if results is None:
            cause = attempts.causes[-1]
            # An attempt that the end of the send's time has cut short says nothing about its broker.
            is_cut_short = isinstance(cause, RequestTimeout) and not has_full_time
            is_gone = isinstance(cause, RemoteRefused) and cause.code == ResponseCode.INVALID_PARAMETER
            if not is_cut_short and not is_gone and not _misses_client(batch, cause):
                self._note_failure(queue)
        return results

    async def _try(
        self, batch: Load, queue: MessageQueue, attempts: Attempts, left_ms: int, *, is_named: bool
    ) -> list[SendResult] | None:
        """Make one attempt of `left_ms` at most; None when it has failed, which is recorded, and another one may succeed.

        Args:
            is_named: the caller has chosen the queue: when it is gone, no other one will do.
        """
        try:
            if queue.broker_name in attempts.cut:
                left_ms = await self._greet(queue, left_ms)
            return await self._attempt(batch, queue, left_ms)
        except RemoteRefused as error:
            is_gone = error.code == ResponseCode.INVALID_PARAMETER and not is_named
            if error.code not in RETRY_CODES and not is_gone:
                raise
            attempts.record(error, queue.broker_name)
            if error.code in OLD_ROUTE_CODES:
                await self._refresh(queue.topic)
        except ClientError as error:
            attempts.record(error, queue.broker_name)
        return None

    async def _attempt(self, batch: Load, queue: MessageQueue, left_ms: int) -> list[SendResult]:
        if first_of(batch).kind in (SendKind.REQUEST, SendKind.HALF):
            left_ms = await self._announce(queue, left_ms)
        if not isinstance(batch, EncodedBatch) and len(batch) == 1:
            header: object = send_header(batch[0], self._group, queue, now_ms(), self._selector.queue_count)
            body = batch[0].body
        else:
            header = batch_header(first_of(batch).topic, self._group, queue, now_ms(), self._selector.queue_count)
            body = batch_body(batch)
        loop = asyncio.get_running_loop()
        began = loop.time()
        broker_name = self._session.routes.broker_of(queue)
        key = object()
        self._waiting[key] = queue.topic, broker_name, began
        if self._watch is None:
            self._watch = loop.call_later(_SLOW_MS / 1000, self._chase_slow)
        try:
            answer = await self._session.call(broker_name, header, body, timeout_ms=left_ms, only_this=True)
        finally:
            del self._waiting[key]
        results = decode_results(batch, queue, answer)
        if results is None:
            address = self._session.routes.address(broker_name)
            raise RemoteRefused(answer.code, answer.remark, f"broker {broker_name} at {address}")
        ended = loop.time()
        if (faults := self._selector.fault_tolerance) is not None:
            faults.record_answer(queue.broker_name, int((ended - began) * 1000), int(ended * 1000))
        self._session.note_answer(broker_name)
        if self._on_sent is not None and not isinstance(batch, EncodedBatch):  # each message is told of, or none
            address = self._session.routes.address(broker_name)
            self._on_sent(batch, results, address, answer.ext_fields or {}, int((ended - began) * 1000))
        if self._pauses:
            self._end_pauses(queue.broker_name)
        if self._selector.mark_created(queue.topic):
            self._session.tasks.spawn(self._await_route(queue.topic), f"route of {queue.topic}")
        return results

    def _chase_slow(self) -> None:
        """Look whether another broker leads meanwhile, where a send has waited for long: the session then gives it up."""
        self._watch, loop = None, asyncio.get_running_loop()
        since_s = loop.time() - _SLOW_MS / 1000
        for topic, broker_name, began_s in tuple(self._waiting.values()):
            if began_s <= since_s:
                self._session.routes.chase(topic, broker_name)
        if self._waiting:
            self._watch = loop.call_later(_SLOW_MS / 1000, self._chase_slow)

    async def _announce(self, queue: MessageQueue, left_ms: int) -> int:
        """Let the broker know the requester, before a reply can come; return what is left of the time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._session.announce(self._session.routes.broker_of(queue), timeout_ms=left_ms)
        return max(1, left_ms - int((loop.time() - began) * 1000))

    async def _greet(self, queue: MessageQueue, left_ms: int) -> int:
        """Let the broker answer something, before it gets a message once more that it may have; return what is left of the time.

        Nothing was sent where it does not: such an attempt doubles nothing, and does not count.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._session.check_broker(self._session.routes.broker_of(queue), timeout_ms=left_ms)
        return max(1, left_ms - int((loop.time() - began) * 1000))

    def _note_failure(self, queue: MessageQueue) -> None:
        """Avoid the broker for a while, and see whether the route has changed."""
        if (faults := self._selector.fault_tolerance) is not None:
            faults.record_failure(queue.broker_name, int(asyncio.get_running_loop().time() * 1000))
        self._session.routes.chase(queue.topic, self._session.routes.broker_of(queue))

    async def _refresh(self, topic: str) -> bool:
        """Ask for the route again; errors do not matter, the known one stays in use."""
        try:
            return await self._session.routes.refresh(topic)
        except OrbitError:
            return False

    async def _await_route(self, topic: str) -> None:
        """Ask for the route of a topic that was created a moment ago, until a NameServer knows it."""
        for attempt in range(NEW_TOPIC_TRIES):
            await asyncio.sleep(NEW_TOPIC_PAUSE_MS * 2**attempt / 1000)
            if await self._refresh(topic):
                return


def _misses_client(batch: Load, error: OrbitError) -> bool:
    """True when a broker is well, but has no connection to the client that a reply is for."""
    is_reply = first_of(batch).kind is SendKind.REPLY
    return is_reply and isinstance(error, RemoteRefused) and error.code == ResponseCode.SYSTEM_ERROR


def _send_failed(batch: Load, target: Target, causes: list[OrbitError], limit_ms: int) -> SendFailed:
    what = "a message" if len(batch) == 1 else f"a batch of {len(batch)} messages"
    # Attempts on one broker mostly end alike: each text is given once, with the numbers of its attempts.
    told: dict[str, list[str]] = {}
    for number, cause in enumerate(causes, 1):
        told.setdefault(str(cause), []).append(str(number))
    tries = "; ".join(f"{', '.join(numbers)}: {text}" for text, numbers in told.items())
    is_refused = bool(causes) and all(
        isinstance(cause, RemoteRefused) and cause.code != ResponseCode.SYSTEM_ERROR for cause in causes
    )
    doubt = "Where an answer is missing, the message may be stored all the same: sending it again may double it"
    return SendFailed(
        f"{what} to topic {target.topic} got no positive answer, {len(causes)} attempt{'s' * (len(causes) != 1)} within "
        f"{limit_ms} ms: {tries or 'the time was over before the first one'}" + ("" if is_refused else f". {doubt}"),
        causes,
    )
