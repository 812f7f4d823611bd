"""One transaction: a half message at a broker, and the block of code that decides about it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from orbitmq.client.send.result import SendResult
from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.model.message import Message

log = logging.getLogger(__name__)


class Transaction:
    """A message that consumers get if the block under `async with` ends well.

    Args:
        message: what is sent.
        prepare: sends it as a half message.
        end: tells the broker the decision.
    """

    def __init__(
        self,
        message: Message,
        prepare: Callable[[Message], Awaitable[SendResult]],
        end: Callable[[Message, SendResult, Decision], Awaitable[None]],
    ) -> None:
        self.message = message
        self.decision = Decision.COMMIT
        """What the end of the block tells the broker."""
        self._prepare = prepare
        self._end = end
        self._sent: SendResult | None = None

    @property
    def sent(self) -> SendResult:
        """Where the half message is; its `message_id` is the transaction's id."""
        if self._sent is None:
            raise ClientError("the transaction has not begun: use 'async with producer.transaction(message)'")
        return self._sent

    def rollback(self) -> None:
        """Let the end of the block roll back, without an exception."""
        self.decide(Decision.ROLLBACK)

    def unknown(self) -> None:
        """Let the end of the block leave the transaction open: the broker asks `check` later."""
        self.decide(Decision.UNKNOWN)

    def decide(self, decision: Decision) -> None:
        """Let the end of the block tell the broker this; the last word counts.

        Raises:
            InvalidArgument: it is not a Decision.
        """
        if not isinstance(decision, Decision):
            raise InvalidArgument("decision", decision, "Decision.COMMIT, Decision.ROLLBACK or Decision.UNKNOWN")
        self.decision = decision

    async def __aenter__(self) -> Self:
        if self._sent is not None:
            raise ClientError("a transaction begins once: make a new one")
        self._sent = await self._prepare(self.message)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._end(self.message, self.sent, self.decision)
            return
        try:
            await self._end(self.message, self.sent, Decision.ROLLBACK)
        except ClientError as failure:  # the user's own error tells more; the message is not delivered without a commit
            log.warning("the rollback of message %s has not reached its broker: %s", self.sent.message_id, failure)
