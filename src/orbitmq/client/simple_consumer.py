"""The SimpleConsumer: messages are its own for a time, and acknowledged one by one. No queues are assigned.

Source: Java's POP consumers, RocketMQ's SimpleConsumer.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from contextlib import suppress

from orbitmq.client.base import Client
from orbitmq.client.consume.pop_targets import PopTargets
from orbitmq.client.consume.popped_messages import AckRequest, ack_requests, handle_of, with_new_time
from orbitmq.client.consume.popper import Popper
from orbitmq.client.consume.redelivery import MAX_ATTEMPTS, RedeliveryPolicy
from orbitmq.client.consume.send_backs import TO_DEAD_LETTERS, SendBacks
from orbitmq.client.consume.subscriptions import subscribe, wants
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.session.arguments import choice, one_or_more, whole
from orbitmq.client.session.session import ClientSession
from orbitmq.client.session.validation import STORED, checked
from orbitmq.client.trace.settlers import TracedReceipts
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, OrbitError
from orbitmq.model.group import ConsumeFrom, Subscription
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import ChangeInvisibleTime, ChangeInvisibleTimeResponse
from orbitmq.wire.messages.traces import ConsumeReturnType
from orbitmq.wire.pop.handles import format_handle, pop_retry_topic
from orbitmq.wire.pop.revive_log import COUNT_MAX
from orbitmq.wire.signature import Credentials

INVISIBLE_MS = 60_000
RECEIVE_TIMEOUT_MS = 15_000
_PAUSE_S = 0.2
"""Between two attempts where a broker holds no request."""

log = logging.getLogger(__name__)


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
        self._invisible_ms = invisible_ms
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
        self._targets = PopTargets(session, self._subscriptions)
        self._popper = Popper(
            session,
            group,
            consume_from=consume_from,
            is_ordered=ordered,
            keep=self._keep,
            check_open=self._check_open,
        )

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
        self._targets.forget(topic)
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
            targets = await self._targets.find()
            found = await self._popper.pop(targets, count_max, invisible, deadline)
            if found:
                if self._receipts is not None:
                    self._receipts.received(found)
                return found
            left_s = deadline - loop.time()
            if left_s <= 0:
                if (error := self._popper.absence(targets)) is not None:
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

    async def _keep(self, subscription: Subscription, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return the messages that are wanted; others, whose tag's hash clashes, are done.

        Those that were tried often enough are given up.
        """
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
