"""The producers for code without an event loop, with transactions and without."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, cast

from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.loop_thread import LoopThread
from orbitmq.client.producer import REQUEST_TIMEOUT_MS, Producer
from orbitmq.client.send.result import SendResult
from orbitmq.client.session.arguments import function
from orbitmq.client.session.validation import RULES
from orbitmq.client.transaction_producer import TransactionProducer, TransactionResult
from orbitmq.client.transactions.decision import Decision
from orbitmq.client.transactions.transaction import Transaction
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue


class BlockingProducer(BlockingClient[Producer]):
    """Sends messages; takes the arguments of `orbitmq.Producer`.

    with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
        sent = producer.send(Message("orders", b"{...}"))
    """

    _kind: type[Producer] = Producer

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: self._kind(group, name_servers, **settings), f"producer {group}")

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> SendResult:
        """Send one message and return where it went."""
        return self._loop_thread.call(self._client.send(message, timeout_ms=timeout_ms, queue=queue, key=key))

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> StoredMessage:
        """Send a message and return the reply that a consumer of its topic gives."""
        return self._loop_thread.call(self._client.request(message, timeout_ms=timeout_ms, queue=queue, key=key))

    def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Take a delayed message back before its time."""
        return self._loop_thread.call(self._client.recall(handle, timeout_ms=timeout_ms))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in order."""
        return self._loop_thread.call(self._client.send_batch(messages, timeout_ms=timeout_ms, queue=queue, key=key))

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None, key: str | None = None) -> None:
        """Send one message without an answer (one-way)."""
        self._loop_thread.call(self._client.send_oneway(message, queue=queue, key=key))

    def send_all(self, messages: Iterable[Message], *, key: Callable[[Message], str | None] | None = None) -> int:
        """Send many messages, batched and pipelined over all queues, and wait until all are answered.

        Args:
            messages: of any topics; an iterator is consumed as fast as the brokers take the messages.
            key: returns the key whose queue a message goes to; without it any queue will do.

        Returns:
            How many were sent.

        Raises:
            SendFailed: some were not.
        """
        RULES["messages"]("messages", messages)
        if key is not None:
            function("key", key)

        async def send() -> int:
            count = 0
            for message in messages:
                await self._client.send_soon(message, key=None if key is None else key(message))
                count += 1
            await self._client.flush()
            return count

        return self._loop_thread.call(send())

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that `topic` may be sent to."""
        return self._loop_thread.call(self._client.queues(topic))


log = logging.getLogger(__name__)


class BlockingTransaction:
    """A message that consumers get if the block under `with` ends well."""

    def __init__(self, transaction: Transaction, loop_thread: LoopThread) -> None:
        self._transaction = transaction
        self._loop_thread = loop_thread

    @property
    def sent(self) -> SendResult:
        """Where the half message is; its `message_id` is the transaction's id."""
        return self._transaction.sent

    @property
    def decision(self) -> Decision:
        """What the end of the block tells the broker."""
        return self._transaction.decision

    def rollback(self) -> None:
        """Let the end of the block roll back, without an exception."""
        self._transaction.rollback()

    def unknown(self) -> None:
        """Let the end of the block leave the transaction open: the broker asks `check` later."""
        self._transaction.unknown()

    def decide(self, decision: Decision) -> None:
        """Let the end of the block tell the broker this; the last word counts."""
        self._transaction.decide(decision)

    def __enter__(self) -> Self:
        self._loop_thread.call(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop_thread.call(self._transaction.__aexit__(kind, error, trace))


class BlockingTransactionProducer(BlockingProducer):
    """Sends messages in transactions; takes the arguments of `orbitmq.TransactionProducer`.

    with TransactionProducer("orders-service", ["127.0.0.1:9876"], check=was_stored) as producer:
        with producer.transaction(Message("orders", b"{...}")) as transaction:
            database.store(order, transaction.sent.message_id)
    """

    _kind = TransactionProducer

    def transaction(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> BlockingTransaction:
        """Return a transaction for `with`: it commits at the end of the block, and rolls back on an exception."""
        client = cast(TransactionProducer, self._client)
        transaction = self._loop_thread.apply(
            lambda: client.transaction(message, timeout_ms=timeout_ms, queue=queue, key=key)
        )
        return BlockingTransaction(transaction, self._loop_thread)

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[Message], Decision],
        *,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> TransactionResult:
        """Send a message, call `execute` with it here, and end its transaction as that says; UNKNOWN when it fails."""
        function("execute", execute)
        with self.transaction(message, queue=queue, key=key) as transaction:
            try:
                transaction.decide(execute(message))
            except Exception:
                log.exception("the transaction of message %s stays open", transaction.sent.message_id)
                transaction.unknown()
        return TransactionResult(transaction.sent, transaction.decision)
