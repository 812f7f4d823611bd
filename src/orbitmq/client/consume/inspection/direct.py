"""Consumption of one message on request, whatever the group's offset: with the consumer's own handler.

Source: Java ConsumeMessageConcurrentlyService.consumeMessageDirectly, and that of ConsumeMessageOrderlyService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.dispatch.handler_call import call_handler
from orbitmq.client.consume.dispatch.handler_pool import Handler
from orbitmq.client.consume.dispatch.message_pool import MessageHandler
from orbitmq.errors import CorruptRecord
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.consumer_info import DirectResult, Outcome

log = logging.getLogger(__name__)


class _Verdict:
    """What a handler has said of a message (a Settler): nothing of it reaches the group's offset."""

    is_over = False

    def __init__(self) -> None:
        self.is_failed = False

    def begun(self, batch: Batch) -> None:
        pass

    def done(self, messages: Sequence[StoredMessage]) -> bool:
        return True

    def failed(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        self.is_failed = True
        return True

    def suspended(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        self.is_failed = True
        return True

    def rejected(self, messages: Sequence[StoredMessage]) -> bool:
        self.is_failed = True
        return True

    def deferred(self, batch: Batch) -> None:
        pass

    def batch_ended(self, batch: Batch) -> None:
        pass


class DirectConsumption:
    """Calls a handler with one message, beside all that it does already.

    Args:
        handler: takes batches.
        message_handler: takes messages.
        timeout_ms: a handler that takes longer is cancelled, and has failed.
        is_ordered: the consumer consumes in order.
    """

    def __init__(
        self,
        handler: Handler | None,
        message_handler: MessageHandler | None,
        *,
        timeout_ms: int,
        is_ordered: bool,
    ) -> None:
        self._handler = handler
        self._message_handler = message_handler
        self._timeout_ms = timeout_ms
        self._is_ordered = is_ordered

    @property
    def has_handler(self) -> bool:
        """False for a consumer whose messages somebody iterates over."""
        return self._handler is not None or self._message_handler is not None

    async def consume(self, message: StoredMessage) -> DirectResult:
        """Consume a message; return how the handler has ended."""
        loop = asyncio.get_running_loop()
        began, remark = loop.time(), None
        verdict = _Verdict()
        try:
            if message.decode_error is not None:
                raise CorruptRecord(message.physical_offset, message.decode_error)
            await self._call(message, verdict)
            outcome = Outcome.LATER if verdict.is_failed else Outcome.SUCCESS
        except Exception as error:
            log.warning("message %s, consumed on request: %r", message.message_id, error)
            outcome, remark = Outcome.THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        spent_ms = round(1_000 * (loop.time() - began))
        return DirectResult(outcome=outcome, is_ordered=self._is_ordered, remark=remark, spent_ms=spent_ms)

    def _call(self, message: StoredMessage, verdict: _Verdict) -> Awaitable[None]:
        if self._message_handler is not None:
            return call_handler(self._message_handler, message, self._timeout_ms)
        assert self._handler is not None
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        handler: Callable[[Batch], Awaitable[object] | object] = self._handler
        return call_handler(handler, Batch(queue, (message,), verdict), self._timeout_ms)
