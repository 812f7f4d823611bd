"""The Producer: sends messages to a topic's queues, and to another broker when one fails.

Source: Java DefaultMQProducerImpl.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from orbitmq.client.base import Client
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.send import requests
from orbitmq.client.send.accumulator import Accumulator, InFlight
from orbitmq.client.send.attempts import FaultTolerance
from orbitmq.client.send.batch import check_batch, fits_batch, split
from orbitmq.client.send.encoder import MessageEncoder
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.recall import Recaller
from orbitmq.client.send.replies import Replier
from orbitmq.client.send.request import COMPRESS_OVER
from orbitmq.client.send.requests import PendingRequests, Requester
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import RETRIES, SEND_TIMEOUT_MS, SENDS_MAX, Sender
from orbitmq.client.session.heartbeats import HEARTBEAT_INTERVAL_MS
from orbitmq.client.session.session import ClientSession
from orbitmq.client.session.validation import INTERVAL_MS, PAUSE_MS, check_send, checked
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.client.transactions import checks
from orbitmq.client.transactions.checks import Check, CheckAnswers
from orbitmq.client.transactions.decision import JAVA_STATES, Decision
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import Heartbeat
from orbitmq.model.message import BODY_SIZE_MAX, Message, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.wire.signature import Credentials

BATCH_SIZE_MAX = 1024 * 1024
SOON_COUNT_MAX = 10_000
SOON_SIZE_MAX = 32 * 1024 * 1024
REQUEST_TIMEOUT_MS = 3_000
REQUESTS_MAX = 10_000
ONEWAY_RUN = 256
"""Of so many one-way messages one is answered."""


class Pushed(NamedTuple):
    """What brokers' requests to a producer are handed to."""

    pending: PendingRequests
    checks: CheckAnswers


handlers: Handlers[Pushed] = Handlers()
handlers.include(requests.handlers, lambda pushed: pushed.pending)
handlers.include(checks.handlers, lambda pushed: pushed.checks)


@checked(inline=("send", "send_soon", "send_oneway"), request={"timeout_ms": INTERVAL_MS})
class Producer(Client):
    """Sends messages.

        async with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
            sent = await producer.send(Message("orders", b"{...}", keys=["42"], tag="new"))

    Args:
        group: the producer group.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        send_timeout_ms: for one send, over all its attempts.
        attempt_timeout_ms: for one attempt. None gives an attempt half of the send's time while there is another broker to try, so
            that one that stands still costs no send; else all the time that is left, as Java does.
        retries: attempts after the first one, on another broker where there is one.
        compress_over: bodies of more bytes are compressed (zlib).
        batch_size_max: bytes of one batch request; longer lists of messages travel in several.
        soon_count_max: messages that `send_soon` lets wait for their answers before it makes the caller wait.
        soon_size_max: the same, in bytes.
        sends_max: sends that are under way at the same time; further ones wait for their turn, which is when their
            time-outs begin.
        requests_max: requests that wait for their replies at the same time; further ones wait for a place.
        avoid_slow_brokers: keep away from brokers that failed or were slow, for some seconds.
        queue_count: queues per broker of a topic that is created by sending to it.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
        trace: tell every message's way to `trace_topic`, in the background (RocketMQ's message trace).
        trace_topic: where traces go.
        check: answers brokers that ask about the group's transactions; see `TransactionProducer`.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        send_timeout_ms: int = SEND_TIMEOUT_MS,
        attempt_timeout_ms: int | None = None,
        retries: int = RETRIES,
        compress_over: int = COMPRESS_OVER,
        batch_size_max: int = BATCH_SIZE_MAX,
        soon_count_max: int = SOON_COUNT_MAX,
        soon_size_max: int = SOON_SIZE_MAX,
        sends_max: int = SENDS_MAX,
        requests_max: int = REQUESTS_MAX,
        avoid_slow_brokers: bool = True,
        queue_count: int = DEFAULT_QUEUE_COUNT,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        check: Check | None = None,
    ) -> None:
        self.group = group
        self._batch_size_max = batch_size_max
        pending = PendingRequests(requests_max)
        self._checks = CheckAnswers(group, check, on_answer=self._note_answer)
        session = ClientSession(
            name_servers,
            describe=self._describe,
            handlers=handlers,
            service=Pushed(pending, self._checks),
            heartbeat_interval_ms=heartbeat_interval_ms,
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        super().__init__(session)
        tracer = self._tracer = Tracer(session, group=group, kind="PRODUCE", topic=trace_topic) if trace else None
        faults = FaultTolerance() if avoid_slow_brokers else None
        selector = self._selector = QueueSelector(session.routes, faults, random=Random(), queue_count=queue_count)
        sender = self._sender = Sender(
            session,
            selector,
            group=group,
            timeout_ms=send_timeout_ms,
            attempt_timeout_ms=attempt_timeout_ms,
            retries=retries,
            sends_max=sends_max,
            on_sent=None if tracer is None else tracer.sent,
        )
        self._encoder = MessageEncoder(session, compress_over)
        self._requester = Requester(session, sender, pending)
        self._replier = Replier(selector, sender)
        on_recalled = None if tracer is None else tracer.recalled
        self._recaller = Recaller(session, group=group, timeout_ms=send_timeout_ms, on_answer=on_recalled)
        self._in_flight = InFlight(count_max=soon_count_max, size_max=soon_size_max)
        self._accumulator = Accumulator(sender, selector, self._in_flight, session.tasks, batch_size_max=batch_size_max)
        self._oneway_count = 0

    async def open(self) -> None:
        """Begin. No server is asked before the first send."""
        self._session.open()
        if self._tracer is not None:
            self._tracer.open()

    async def close(self) -> None:
        """End requests that wait for replies, wait for what `send_soon` queued, then leave.

        Raises:
            SendFailed: some of it could not be sent and the caller was not told yet; see `flush`.
        """
        if not self._session.is_open:
            await self._session.closed()
            return
        self._requester.close()
        await self._checks.close()
        try:
            await self.flush()
        finally:
            if self._tracer is not None:
                await self._tracer.close()
            await self._session.close()

    async def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> SendResult:
        """Send one message and return where it went.

        Args:
            message: what to send.
            timeout_ms: over all attempts; the producer's when left out.
            queue: send to this queue and no other.
            key: messages of one key go to one queue, in order; the message's `sharding_key` when left out.

        Raises:
            SendFailed: every attempt failed; `causes` has each one's error.
            RemoteRefused: the broker refused the message for a reason that another one shares.
            RouteNotFound: the topic is unknown and no broker creates topics by itself.
            NoNameServer: the topic's route is not known yet, and no NameServer answers.
        """
        queue = check_send(message, queue=queue, key=key)
        if timeout_ms is not None:
            timeout_ms = PAUSE_MS("timeout_ms", timeout_ms)
        self._check_open()
        if message.in_reply_to is not None and queue is None:
            return await self._replier.send(self._encoder.encode(message), message.in_reply_to, timeout_ms)
        target = Target(message.topic, queue, key if key is not None else message.sharding_key)
        # Encoded when its turn comes: of thousands that are sent at the same time, the first do not wait for the last's encoding.
        return (await self._sender.send(lambda: (self._encoder.encode(message),), target, timeout_ms))[0]

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> StoredMessage:
        """Send a message and return the reply that a consumer of its topic gives.

        Args:
            message: the request.
            timeout_ms: for everything: until the reply is here.
            queue: send to this queue and no other.
            key: as for `send`.

        Raises:
            RequestTimeout: no reply came in time. The request may still be processed.
            SendFailed, RemoteRefused, RouteNotFound, NoNameServer: the request was not sent.
        """
        queue = check_send(message, queue=queue, key=key)
        self._check_open()
        if message.in_reply_to is not None:
            raise InvalidArgument("message", "a reply", "no reply: a reply gets none")
        target = Target(message.topic, queue, key if key is not None else message.sharding_key)
        return await self._requester.request(partial(self._encoder.encode, message), target, timeout_ms)

    async def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Take a delayed message back before its time.

        Args:
            handle: the `recall_handle` of the send's result.
            timeout_ms: the producer's when left out.

        Returns:
            The message's id. The broker has noted that it is not to be delivered; where it was delivered a moment before,
            is unknown.

        Raises:
            InvalidArgument: it is no such handle.
            RemoteRefused: the message's time is over, or the broker takes nothing back (recallMessageEnable).
            RouteNotFound, NoNameServer: the broker is not known.
            ConnectionFailed, RequestTimeout: the broker does not answer; it may have noted it all the same.
        """
        self._check_open()
        return await self._recaller.recall(handle, timeout_ms)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in order, in as few requests as their size allows.

        Returns:
            list of results, one per message. When a later request fails after earlier ones went through, its error
            is raised: the first messages are stored all the same.
        """
        self._check_open()
        check_batch(messages)
        queue = check_send(messages[0], queue=queue, key=key)
        batch = [self._encoder.encode(message, compress_over=BODY_SIZE_MAX) for message in messages]
        target = Target(messages[0].topic, queue, key if key is not None else messages[0].sharding_key)
        found: list[SendResult] = []
        for run in split(batch, self._batch_size_max):
            found += await self._sender.send(run, target, timeout_ms)
            target = target._replace(queue=found[0].queue)  # later runs follow the first one
        return found

    async def send_soon(
        self, message: Message, *, queue: MessageQueue | None = None, key: str | None = None
    ) -> asyncio.Future[SendResult]:
        """Queue a message and return immediately; it travels with others in the background.

        Waits only while `soon_count_max` messages or `soon_size_max` bytes are under way. Messages of one queue or
        key keep their order.

        Returns:
            A future of the result, which may be ignored: `flush` and `close` raise what went wrong.
        """
        queue = check_send(message, queue=queue, key=key)
        self._check_open()
        is_single = len(message.body) > self._encoder.compress_over
        encoded = self._encoder.encode(message)
        target = Target(message.topic, queue, key if key is not None else message.sharding_key)
        is_batchable = not is_single and fits_batch(encoded, message, self._batch_size_max)
        if not self._in_flight.has_room:
            await self._in_flight.wait_for_room()
        buffer = self._accumulator.buffer_now(target) or await self._accumulator.buffer(target)
        return buffer.append(encoded, is_batchable)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None, key: str | None = None) -> None:
        """Send one message without an answer (one-way): fastest, and a loss goes unnoticed.

        Every so many messages one is sent with an answer after all, so that a slow broker slows its senders.

        Raises:
            ConnectionFailed: there is no connection to the broker.
            RouteNotFound, NoNameServer: there is no queue to send to.
        """
        queue = check_send(message, queue=queue, key=key)
        self._check_open()
        self._oneway_count += 1
        if self._oneway_count % ONEWAY_RUN == 0:
            await self.send(message, queue=queue, key=key)
            return
        target = Target(message.topic, queue, key if key is not None else message.sharding_key)
        await self._sender.send_oneway(self._encoder.encode(message), target)

    async def flush(self) -> None:
        """Wait until everything that `send_soon` queued is answered.

        Raises:
            SendFailed: some messages could not be sent since the last flush; names how many, and the first errors.
        """
        await self._in_flight.flush()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that `topic` may be sent to.

        Raises:
            RouteNotFound: the topic is unknown and no broker creates topics by itself.
        """
        self._check_open()
        return await self._selector.queues(topic)

    def _note_answer(self, message: StoredMessage, message_id: str, broker: str, decision: Decision) -> None:
        """Trace what a broker was told that had asked about a transaction."""
        if self._tracer is not None:
            self._tracer.transaction_ended(message, message_id, broker, JAVA_STATES[decision], is_asked=True)

    def _describe(self, client_id: str) -> Heartbeat:
        return Heartbeat(client_id=client_id, producer_groups=(self.group,))
