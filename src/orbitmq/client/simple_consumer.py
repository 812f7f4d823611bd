"""The SimpleConsumer: messages are its own for a time, and acknowledged one by one. No queues are assigned.

Source: Java's POP consumers (MQClientAPIImpl.popMessageAsync), RocketMQ's SimpleConsumer.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from orbitmq.client.base import Client
from orbitmq.client.consume.absent_brokers import AbsentBrokers
from orbitmq.client.consume.popped_messages import (
    NOTHING,
    AckRequest,
    ack_requests,
    decode_popped,
    handle_of,
    with_new_time,
)
from orbitmq.client.consume.redelivery import MAX_ATTEMPTS, RedeliveryPolicy
from orbitmq.client.consume.send_backs import TO_DEAD_LETTERS, SendBacks
from orbitmq.client.consume.subscriptions import subscribe, wants
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.session.arguments import choice, one_or_more, whole
from orbitmq.client.session.session import REQUEST_TIMEOUT_MS, ClientSession
from orbitmq.client.session.validation import STORED, checked
from orbitmq.client.trace.settlers import TracedReceipts
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    ClientError,
    ConnectionFailed,
    InvalidArgument,
    OrbitError,
    RemoteRefused,
    RequestTimeout,
    RouteNotFound,
)
from orbitmq.model.group import ConsumeFrom, Subscription
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import Perm
from orbitmq.net.pool import expect
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    PopMessage,
    PopNotification,
    PopNotificationResponse,
)
from orbitmq.wire.messages.traces import ConsumeReturnType
from orbitmq.wire.pop.handles import format_handle, pop_retry_topic
from orbitmq.wire.pop.revive_log import COUNT_MAX
from orbitmq.wire.signature import Credentials

INVISIBLE_MS = 60_000
RECEIVE_TIMEOUT_MS = 15_000
_POLL_MS_MAX = 10_000
"""A broker holds one request no longer: a Java broker does not wake waiting requests for messages that come again."""
_PAUSE_S = 0.2
"""Between two attempts where a broker holds no request."""
_ROUTE_PAUSE_S = 1.0
"""Between two questions for a topic without a route while others have messages."""
_INIT_MIN, _INIT_MAX = 0, 1

log = logging.getLogger(__name__)


class _PopTarget(NamedTuple):
    """A broker that has messages of a subscription."""

    subscription: Subscription
    broker_name: str


@checked(
    init={"consume_from": choice(ConsumeFrom, ConsumeFrom.FIRST, ConsumeFrom.LAST)},
    receive={"count_max": whole(1, COUNT_MAX)},
    ack={"messages": one_or_more(STORED, "a message that receive() returned, or several")},
    change_invisible_time={"message": STORED},
    reject={"message": STORED},
)
class SimpleConsumer(Client):
    """Receives messages for a time and acknowledges them one by one; any number of consumers share every queue.

        async with SimpleConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
            consumer.subscribe("orders", tag="new")
            while True:
                for message in await consumer.receive():
                    await bill(message)
                    await consumer.ack(message)

    A message that is not acknowledged within its invisible time comes again, to this consumer or another one of the group,
    with `reconsume_times` one higher. One that was received `max_attempts` times goes to the group's dead letters when it
    would come once more. The broker needs POP: RocketMQ 5, or ours.

    Args:
        group: the consumer group; what one of its members has acknowledged, none of them gets again.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        invisible_ms: how long messages are this consumer's, unless `receive` says otherwise.
        ordered: each queue's messages come in order, and no consumer of the group gets more of a queue until all that
            `receive` returned of it are acknowledged, or their time is over; then those come again that are left, with
            `reconsume_times` one higher. Retries come from the queue itself.
        consume_from: FIRST: a new group begins at each queue's first message; LAST: at its end.
        max_attempts: deliveries of a message, the first one included; None for no limit.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
        trace: tell every message's way to `trace_topic`, in the background (RocketMQ's message trace): a message
            begins with `receive` and ends with `ack`, or with a `change_invisible_time` to 0.
        trace_topic: where traces go.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        invisible_ms: int = INVISIBLE_MS,
        ordered: bool = False,
        consume_from: ConsumeFrom = ConsumeFrom.FIRST,
        max_attempts: int | None = MAX_ATTEMPTS,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
    ) -> None:
        self.group = group
        self._init_mode = _INIT_MIN if consume_from == ConsumeFrom.FIRST else _INIT_MAX
        self._invisible_ms = invisible_ms
        self._is_ordered = ordered
        self._attempts: dict[_PopTarget, str] = {}
        """In order: attempts whose answers never came. The same attempt gets the same messages from its broker."""
        # No heartbeats: they would make this a member of the group, and its push consumers would leave queues to it.
        session = ClientSession(
            name_servers,
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        super().__init__(session)
        self._policy = RedeliveryPolicy(max_attempts=max_attempts)
        self._send_backs = SendBacks(session, group, self._policy, on_retry=lambda: None)
        self._tracer = Tracer(session, group=self.group, kind="CONSUME", topic=trace_topic) if trace else None
        self._receipts = None if self._tracer is None else TracedReceipts(self._tracer)
        self._subscriptions: dict[str, Subscription] = {}
        self._absent = AbsentBrokers(session)
        self._unknown: set[str] = set()
        """Topics without a route that were told of."""
        self._asks_again_s = 0.0
        self._turn = 0

    async def open(self) -> None:
        """Begin."""
        self._session.open()
        if self._tracer is not None:
            self._tracer.open()

    async def close(self) -> None:
        """Close the connections; what was not acknowledged comes again when its time is over."""
        if self._session.is_open:
            if self._tracer is not None:
                await self._tracer.close()
            await self._session.close()

    def subscribe(self, topic: str, tag: str = "*", *, sql: str | None = None) -> None:
        """Receive messages of a topic from now on.

        Args:
            tag: one tag, several as "A || B", or "*".
            sql: instead of tags, an SQL92 expression over the messages' properties; the broker filters, if its
                `enablePropertyFilter` is on.

        Raises:
            InvalidArgument: the topic, tag or expression is none.
            ClientError: the consumer is closed.
        """
        self._check_not_over()
        self._subscriptions[topic] = subscribe(topic, tag, sql, now_ms())
        self._session.routes.watch(topic)

    def unsubscribe(self, topic: str) -> None:
        """Receive no more messages of a topic."""
        self._subscriptions.pop(topic, None)
        self._unknown.discard(topic)
        self._session.routes.unwatch(topic)

    async def receive(
        self, count_max: int = COUNT_MAX, *, timeout_ms: int = RECEIVE_TIMEOUT_MS, invisible_ms: int | None = None
    ) -> list[StoredMessage]:
        """Return messages as soon as there are any.

        Cancelling it may cost time, never messages: what a broker was about to give comes again later.

        Args:
            count_max: messages at most, 1 to 32.
            timeout_ms: how long to wait for the first one.
            invisible_ms: how long they are this consumer's.

        Returns:
            list of messages of one topic and broker, empty when none came in time.

        Raises:
            InvalidArgument: a number is out of its range, or there is no subscription.
            RouteNotFound: no NameServer knows any of the topics.
            ClientError: the consumer was closed; no broker answered within `timeout_ms`; or all of them refuse.
        """
        self._check_open()
        invisible = self._invisible_ms if invisible_ms is None else invisible_ms
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            places = await self._places()
            names = [place.broker_name for place in places]
            if len(places) > 1 or self._absent.returns(names):
                found = await self._receive_any(places, count_max, invisible, deadline)
            else:
                poll_ms = min(_left_ms(deadline), _POLL_MS_MAX)
                found = await self._pop_if_there(places[0], count_max, invisible, poll_ms)
            if found and self._receipts is not None:
                self._receipts.received(found)
            if found:
                return found
            left_s = deadline - loop.time()
            if left_s <= 0:
                if (error := self._absent.error(names)) is not None:
                    raise error
                return []
            await asyncio.sleep(min(_PAUSE_S, left_s))
            self._check_open()

    async def ack(self, messages: StoredMessage | Iterable[StoredMessage]) -> None:
        """Acknowledge a message, or several: no consumer of the group gets them again.

        Returns when their brokers have noted it, as safely as they keep messages.

        Raises:
            InvalidArgument: `receive` did not return one of them.
            ClientError: a broker did not take its part, or is not known; the others have noted theirs.
        """
        self._check_open()
        found = [messages] if isinstance(messages, StoredMessage) else list(messages)
        requests = ack_requests(self.group, found)
        known = self._session.routes.known.brokers
        if any(request.broker_name not in known for request in requests):
            for message in found:
                with suppress(ClientError):  # those of other brokers are sent all the same, and `_send` says the rest
                    await self._find_broker(message)
        outcomes = await asyncio.gather(*(self._send(request) for request in requests), return_exceptions=True)
        if self._receipts is not None:
            failed = {one.broker_name for one, failure in zip(requests, outcomes, strict=True) if failure is not None}
            done = [message for message in found if handle_of(message).broker_name not in failed]
            self._receipts.settled(done, ConsumeReturnType.SUCCESS)
        for failure in outcomes:
            if failure is not None:
                raise failure

    async def change_invisible_time(self, message: StoredMessage, invisible_ms: int) -> StoredMessage:
        """Keep a message for another `invisible_ms` from now on, 0 to give it back immediately.

        Returns:
            The message with a new handle: acknowledge this one.

        Raises:
            InvalidArgument: `receive` did not return the message.
            RemoteRefused: with code 208: its time was over already.
        """
        self._check_open()
        handle = handle_of(message)
        assert handle.queue_offset is not None, "handle_of fills it in"
        header = ChangeInvisibleTime(
            consumer_group=self.group,
            topic=pop_retry_topic(message.topic, self.group, handle.retry),
            queue_id=handle.queue_id,
            handle=format_handle(handle),
            queue_offset=handle.queue_offset,
            invisible_ms=invisible_ms,
            broker_name=handle.broker_name,
        )
        await self._find_broker(message)
        answer = await self._session.call(handle.broker_name, header, only_this=True)
        expect(answer, self._session.routes.address(handle.broker_name))
        if self._receipts is not None and invisible_ms == 0:
            self._receipts.settled((message,), ConsumeReturnType.FAILED)
        return with_new_time(message, handle, decode_header(ChangeInvisibleTimeResponse, answer.ext_fields))

    async def reject(self, message: StoredMessage) -> None:
        """Give a message up: it goes to the group's dead letters immediately, and no consumer of the group gets it again.

        Raises:
            InvalidArgument: `receive` did not return the message.
            ClientError: its broker did not take it, or not the acknowledgement: it comes again.
        """
        self._check_open()
        handle = handle_of(message)
        await self._find_broker(message)
        queue = MessageQueue(message.topic, handle.broker_name, message.queue_id)
        if not await self._send_backs.send(message, queue, TO_DEAD_LETTERS):
            raise ClientError(
                f"the broker {handle.broker_name} did not put {message.message_id} with the dead letters: the log says why"
            )
        await self.ack(message)

    async def _give_up(self, message: StoredMessage) -> None:
        """Put a message that was tried often enough with the dead letters; where that fails, it comes again."""
        try:
            await self.reject(message)
        except OrbitError as error:
            log.warning("group %s: message %s is not given up yet: %s", self.group, message.message_id, error)

    async def _places(self) -> list[_PopTarget]:
        """Return every broker of every subscription, in an order that gives each its turn to be asked first."""
        if not self._subscriptions:
            raise InvalidArgument("subscriptions", "none", "at least one; subscribe() comes first")
        unknown = await self._find_routes()
        found = []
        for topic, subscription in self._subscriptions.items():
            if (route := self._session.routes.known.routes.get(topic)) is None:
                continue
            names = sorted(data.broker_name for data in route.queues if data.perm & Perm.READ and data.read_queue_count)
            found += [_PopTarget(subscription, name) for name in names]
        if not found:
            raise unknown or ClientError(f"no broker allows reading of {', '.join(self._subscriptions)}")
        self._turn = (self._turn + 1) % len(found)
        return found[self._turn :] + found[: self._turn]

    async def _find_routes(self) -> RouteNotFound | None:
        """Look for the routes that are missing, now and then while others are known; return why one is still missing."""
        known = self._session.routes.known.routes
        missing = [topic for topic in self._subscriptions if topic not in known]
        now_s = asyncio.get_running_loop().time()
        if len(missing) < len(self._subscriptions) and now_s < self._asks_again_s:
            return None
        error = None
        for topic in missing:
            try:
                await self._session.routes.find(topic)
            except RouteNotFound as not_found:
                error = not_found
                self._asks_again_s = now_s + _ROUTE_PAUSE_S
                log.log(logging.DEBUG if topic in self._unknown else logging.WARNING, "%s", error)
                self._unknown.add(topic)
        return error

    async def _receive_any(
        self, places: list[_PopTarget], count_max: int, invisible_ms: int, deadline: float
    ) -> list[StoredMessage]:
        """Ask one broker after another; when none has messages, wait for the first one that gets some, or comes back."""
        asked = [place for place in places if place.broker_name not in self._absent]
        errors: list[ClientError] = []
        for place in asked:
            try:
                found = await self._pop_if_there(place, count_max, invisible_ms, 0)
            except ClientError as error:
                errors.append(error)
                continue
            if found:
                return found
        if errors and len(errors) == len(asked):
            raise errors[0]
        left_ms = _left_ms(deadline)
        if left_ms > 0 and (ready := await self._first_with_messages(places, min(left_ms, _POLL_MS_MAX))) is not None:
            return await self._pop_if_there(ready, count_max, invisible_ms, 0)
        return []

    async def _first_with_messages(self, places: list[_PopTarget], poll_ms: int) -> _PopTarget | None:
        back = self._absent.returns(place.broker_name for place in places)
        asked = [place for place in places if place.broker_name not in self._absent]
        waiting = {asyncio.ensure_future(self._has_messages(place, poll_ms)): place for place in asked}
        pending: set[asyncio.Task[Any]] = {*waiting, *back}
        end = asyncio.get_running_loop().time() + poll_ms / 1000
        try:
            while waiting.keys() & pending or (pending and _left_ms(end)):
                timeout_s = None if waiting.keys() & pending else _left_ms(end) / 1000
                done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if done & back:
                    return None
                for task in done:
                    if task.result():
                        return waiting[task]
            return None
        finally:
            for task in pending - back:
                task.cancel()

    async def _pop_if_there(
        self, place: _PopTarget, count_max: int, invisible_ms: int, poll_ms: int
    ) -> list[StoredMessage]:
        """Pop of a broker; nothing when it does not answer, which is noted."""
        try:
            return await self._pop(place, count_max, invisible_ms, poll_ms)
        except (ConnectionFailed, RequestTimeout) as error:
            self._note_absence(place, error)
            return []

    def _note_absence(self, place: _PopTarget, error: ClientError) -> None:
        self._check_open()  # its connections break where the consumer is closed meanwhile
        self._absent.note(place.broker_name, error, self._notification(place, 0))

    def _notification(self, place: _PopTarget, poll_ms: int) -> PopNotification:
        return PopNotification(
            consumer_group=self.group, topic=place.subscription.topic, queue_id=-1, poll_ms=poll_ms,
            order=self._is_ordered, attempt_id=self._attempts.get(place), broker_name=place.broker_name,
        )  # fmt: skip

    async def _has_messages(self, place: _PopTarget, poll_ms: int) -> bool:
        header = self._notification(place, poll_ms)
        try:
            answer = await self._session.call(place.broker_name, header, timeout_ms=poll_ms + REQUEST_TIMEOUT_MS)
        except (ConnectionFailed, RequestTimeout) as error:
            self._note_absence(place, error)
            return False
        except ClientError as error:
            self._session.note_failure(place.broker_name, error)
            return False
        if answer.code != ResponseCode.SUCCESS:
            return False
        return decode_header(PopNotificationResponse, answer.ext_fields).has_message

    async def _pop(self, place: _PopTarget, count_max: int, invisible_ms: int, poll_ms: int) -> list[StoredMessage]:
        subscription, broker_name = place
        # Two receives at a time are two attempts: of the same name, the second would get the first one's messages.
        attempt_id = (self._attempts.pop(place, None) or uuid4().hex) if self._is_ordered else None
        header = PopMessage(
            consumer_group=self.group,
            topic=subscription.topic,
            queue_id=-1,
            count_max=count_max,
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
            init_mode=self._init_mode,
            expression_type=subscription.expression_type,
            expression=subscription.expression,
            order=self._is_ordered,
            attempt_id=attempt_id,
            broker_name=broker_name,
        )
        timeout_ms = poll_ms + REQUEST_TIMEOUT_MS
        try:
            answer = await self._session.call(broker_name, header, timeout_ms=timeout_ms, only_this=True)
        except BaseException:
            if attempt_id is not None:
                self._attempts[place] = attempt_id
            raise
        return await self._take(answer, place)

    async def _take(self, answer: Command, place: _PopTarget) -> list[StoredMessage]:
        """Return the messages of an answer that are wanted; others, whose tag's hash clashes, are done.

        Those that were tried often enough are given up.
        """
        subscription, broker_name = place
        self._session.note_answer(broker_name)
        if answer.code in NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._session.routes.address(broker_name))
        messages, errors = decode_popped(answer, subscription.topic, broker_name)
        for error in errors:
            log.error("group %s: a message from %s cannot be read: %s", self.group, broker_name, error)
        unwanted = [message for message in messages if not wants(subscription, message.tag)]
        if unwanted:
            await self.ack(unwanted)
            messages = [message for message in messages if wants(subscription, message.tag)]
        worn_out = [message for message in messages if message.reconsume_times > self._policy.max_reconsume_times]
        if worn_out:
            await asyncio.gather(*map(self._give_up, worn_out))
            messages = [message for message in messages if message not in worn_out]
        return messages

    async def _find_broker(self, message: StoredMessage) -> None:
        """Make a message's broker known: another consumer may have received it, or this one before a restart."""
        if handle_of(message).broker_name not in self._session.routes.known.brokers:
            await self._session.routes.find(message.topic)

    async def _send(self, request: AckRequest) -> None:
        answer = await self._session.call(request.broker_name, request.header, request.body, only_this=True)
        expect(answer, self._session.routes.address(request.broker_name))


def _left_ms(deadline: float) -> int:
    """Return how many ms are left until a time of the running loop, 0 when it is over."""
    return max(0, int((deadline - asyncio.get_running_loop().time()) * 1000))
