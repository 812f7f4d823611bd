"""Traces of consumed messages: a batch's Settler that tells a Tracer, and the messages of a SimpleConsumer."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from orbitmq.client.consume.batch import Batch, Settler
from orbitmq.client.trace.tracer import Tracer
from orbitmq.model.message import StoredMessage
from orbitmq.wire.messages.traces import ConsumeReturnType


class TracedSettler:
    """Stands between one batch and its queue.

    Args:
        settler: the queue.
        tracer: is told.
    """

    def __init__(self, settler: Settler, tracer: Tracer) -> None:
        self._settler = settler
        self._tracer = tracer
        self._request_id: str | None = None
        self._began = 0.0

    @property
    def is_over(self) -> bool:
        """As the queue says."""
        return self._settler.is_over

    def begun(self, batch: Batch) -> None:
        """Note the start."""
        self._began = monotonic()
        self._request_id = self._tracer.begun(batch)
        self._settler.begun(batch)

    def done(self, messages: Sequence[StoredMessage]) -> bool:
        """Note a success."""
        self._note(messages, ConsumeReturnType.SUCCESS)
        return self._settler.done(messages)

    def failed(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        """Note a failure."""
        self._note(messages, ConsumeReturnType.FAILED)
        return self._settler.failed(messages, delay_level)

    def suspended(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        """Note a failure."""
        self._note(messages, ConsumeReturnType.FAILED)
        return self._settler.suspended(messages, delay_ms)

    def rejected(self, messages: Sequence[StoredMessage]) -> bool:
        """Note a failure."""
        self._note(messages, ConsumeReturnType.FAILED)
        return self._settler.rejected(messages)

    def deferred(self, batch: Batch) -> None:
        """Pass it on."""
        self._settler.deferred(batch)

    def batch_ended(self, batch: Batch) -> None:
        """Pass it on."""
        self._settler.batch_ended(batch)

    def _note(self, messages: Sequence[StoredMessage], outcome: ConsumeReturnType) -> None:
        if self._request_id is not None:
            cost_ms = int((monotonic() - self._began) * 1000)
            self._tracer.ended(messages, self._request_id, outcome, cost_ms)


COUNT_MAX = 10_000
"""Messages whose end is waited for; of one that is forgotten, or that another consumer received, no end is told."""

_Receipt = tuple[str, int]


class TracedReceipts:
    """The messages that one consumer has received and not settled.

    Args:
        tracer: is told.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._begun: dict[_Receipt, tuple[str, float]] = {}
        """By message and attempt, the oldest first: under which request id it began, and when."""

    def received(self, messages: Sequence[StoredMessage]) -> None:
        """Note messages that were received together."""
        request_id = self._tracer.begun(messages)
        if request_id is None:
            return
        began = monotonic()
        for message in messages:
            self._begun.pop(_receipt(message), None)
            self._begun[_receipt(message)] = request_id, began
        while len(self._begun) > COUNT_MAX:
            del self._begun[next(iter(self._begun))]

    def settled(self, messages: Sequence[StoredMessage], outcome: ConsumeReturnType) -> None:
        """Note messages that are done, or were given back."""
        for message in messages:
            begun = self._begun.pop(_receipt(message), None)
            if begun is not None:
                request_id, began = begun
                self._tracer.ended((message,), request_id, outcome, int((monotonic() - began) * 1_000))


def _receipt(message: StoredMessage) -> _Receipt:
    return message.message_id, message.reconsume_times
