"""Traces of a SimpleConsumer's messages: begun when it received them, ended when it acknowledges them or gives them back."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from orbitmq.client.trace.tracer import Tracer
from orbitmq.model.message import StoredMessage
from orbitmq.wire.messages.traces import Outcome

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

    def settled(self, messages: Sequence[StoredMessage], outcome: Outcome) -> None:
        """Note messages that are done, or were given back."""
        for message in messages:
            begun = self._begun.pop(_receipt(message), None)
            if begun is not None:
                request_id, began = begun
                self._tracer.ended((message,), request_id, outcome, int((monotonic() - began) * 1_000))


def _receipt(message: StoredMessage) -> _Receipt:
    return message.message_id, message.reconsume_times
