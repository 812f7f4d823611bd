"""The transaction producer for code without an event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from orbitmq.client.blocking.producer import BlockingProducer
from orbitmq.client.loop_thread import LoopThread
from orbitmq.client.send.result import SendResult
from orbitmq.client.session.arguments import function
from orbitmq.client.transaction_producer import TransactionProducer, TransactionResult
from orbitmq.client.transactions.decision import Decision
from orbitmq.client.transactions.transaction import Transaction
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue

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
