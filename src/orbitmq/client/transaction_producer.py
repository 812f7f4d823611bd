"""The TransactionProducer: sends messages that consumers get only if something else succeeded, too.

Source: Java TransactionMQProducer, DefaultMQProducerImpl.sendMessageInTransaction.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from orbitmq.client.producer import Producer
from orbitmq.client.send.batch import TIMES
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.client.session.validation import check_send, checked
from orbitmq.client.transactions.checks import Check
from orbitmq.client.transactions.decision import JAVA_STATES, Decision, end_header
from orbitmq.client.transactions.transaction import Transaction
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, InvalidArgument, OrbitError, RemoteRefused, RequestTimeout, SendFailed
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC, check_name

log = logging.getLogger(__name__)

_ASKED_AGAIN = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLUSH_DISK_TIMEOUT)
"""Refusals after which the transaction is still open."""

Execute = Callable[[Message], Decision | Awaitable[Decision]]
"""Does what the message tells of, and says how that ended."""


class TransactionResult(NamedTuple):
    """What became of a message: where its half is, and what its broker was told."""

    sent: SendResult
    decision: Decision


@checked()
class TransactionProducer(Producer):
    """Sends messages in transactions; everything else as a Producer.

        async with TransactionProducer("orders-service", ["127.0.0.1:9876"], check=was_stored) as producer:
            async with producer.transaction(Message("orders", b"{...}")) as transaction:
                await database.store(order, transaction.sent.message_id)

    Args:
        group: the producer group: any of its members is asked about transactions of all of them.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        check: is given a message and says how its transaction has ended, when a broker asks: because a producer died,
            or a decision was lost. Without it such messages are discarded after some minutes.
        topics: what the group sends to. Their brokers can ask as soon as the producer is open, not only after its first
            message; without any, the brokers that create topics are taken.
        settings: those of `Producer`.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        check: Check | None = None,
        topics: Iterable[str] = (),
        **settings: Any,
    ) -> None:
        self._topics = [check_name("topic", topic) for topic in topics] or [AUTO_CREATE_TOPIC]
        super().__init__(group, name_servers, check=check, **settings)

    async def open(self) -> None:
        """Begin, and let brokers know that this member of the group can be asked."""
        await super().open()
        for topic in self._topics:
            self._session.routes.watch(topic)
            self._session.tasks.spawn(self._learn(topic), f"route of {topic}")

    def transaction(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> Transaction:
        """Return a transaction for `async with`: it commits at the end of the block, and rolls back on an exception.

        Entering it sends the message, as `send` does and with its errors; leaving it tells the broker. When that is not
        confirmed, the broker asks `check`; without one, leaving raises what went wrong.

        Args:
            message: what consumers get; it cannot be delayed, has no priority, and is no reply.
            timeout_ms: over all attempts to send it; the producer's when left out.
            queue: send to this queue and no other.
            key: as for `send`.

        Raises, when it is entered:
            InvalidArgument: such a message cannot be part of a transaction.
            SendFailed, RemoteRefused, RouteNotFound, NoNameServer: it was not sent.
        Raises, when it is left:
            RemoteRefused: the broker says that the transaction has ended before, or was discarded.
            ConnectionFailed, RequestTimeout: whether the broker has received it is unknown, and there is no `check`.
        """
        queue = check_send(message, queue=queue, key=key)

        async def prepare(half: Message) -> SendResult:
            target = Target(half.topic, queue, key if key is not None else half.sharding_key)
            return await self._prepare(half, target, timeout_ms)

        return Transaction(message, prepare, self._end)

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, queue: MessageQueue | None = None, key: str | None = None
    ) -> TransactionResult:
        """Send a message, call `execute` with it, and end its transaction as that says; UNKNOWN when it fails, as Java does.

        Raises: as `transaction`.
        """
        async with self.transaction(message, queue=queue, key=key) as transaction:
            try:
                found = execute(message)
                transaction.decide(await found if inspect.isawaitable(found) else found)
            except Exception:
                log.exception("the transaction of message %s stays open", transaction.sent.message_id)
                transaction.unknown()
        return TransactionResult(transaction.sent, transaction.decision)

    async def _prepare(self, message: Message, target: Target, timeout_ms: int | None) -> SendResult:
        self._check_open()
        for name, time in _times_of(message):
            if time:
                raise InvalidArgument(name, time, "nothing for a message in a transaction: its commit delivers it")
        if message.priority is not None:
            raise InvalidArgument("priority", message.priority, "no priority in a transaction: brokers take it away")
        if message.in_reply_to is not None:
            raise InvalidArgument("message", "a reply", "no reply: no requester waits for a transaction's end")
        (sent,) = await self._sender.send((self._encoder.encode(message, half_of=self.group),), target, timeout_ms)
        if sent.status is not SendStatus.SEND_OK:
            # As Java: what is done may not rest on a message that could be lost.
            await self._end(message, sent, Decision.ROLLBACK)
            raise SendFailed(f"the broker does not promise to keep the half message: {sent.status}", [])
        return sent

    async def _end(self, message: Message, sent: SendResult, decision: Decision) -> None:
        header = end_header(self.group, message.topic, sent, decision)
        broker_name = self._session.routes.broker_of(sent.queue)
        if self._tracer is not None:
            address, state = self._session.routes.address(broker_name), JAVA_STATES[decision]
            self._tracer.transaction_ended(message, sent.message_id, address, state, is_asked=False)
        if decision is Decision.UNKNOWN:
            address = self._session.routes.address(broker_name, only_this=True)
            await self._session.pool.oneway(address, header)  # Java's broker answers nothing to it
            return
        try:
            answer = await self._session.call(broker_name, header, only_this=True)
        except (ConnectionFailed, RequestTimeout) as error:
            if not self._checks.is_answering:
                raise
            log.warning(
                "message %s: %s is not confirmed, its broker will ask: %s", sent.message_id, decision.name, error
            )
            return
        if answer.code in _ASKED_AGAIN and self._checks.is_answering:
            log.warning("message %s: its broker will ask again: %s", sent.message_id, answer.remark)
        elif answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, f"broker {broker_name}")

    async def _learn(self, topic: str) -> None:
        try:
            await self._session.routes.refresh(topic)
        except OrbitError as error:
            log.debug("the brokers of %s are not known yet: %s", topic, error)  # the next poll asks again


def _times_of(message: Message) -> Iterator[tuple[str, object]]:
    """Yield everything by which a message can ask to be delivered later, users' own properties with it."""
    yield "delay_level", message.delay_level
    yield "delay_ms", message.delay_ms
    yield "deliver_at", message.deliver_at
    for name in TIMES & message.properties.keys():
        yield f"properties[{name}]", message.properties[name]
