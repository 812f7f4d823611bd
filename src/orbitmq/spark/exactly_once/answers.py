"""Answers to brokers that ask about half messages: what the marker topic says of them, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from orbitmq.client.blocking.producers import BlockingTransactionProducer
from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.model.message import StoredMessage
from orbitmq.spark.exactly_once.commit_markers import Abort, AttemptId, CommitMarker, decide, parse_attempt_id
from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.security import read_security

log = logging.getLogger(__name__)

READ_EVERY_S = 0.5
"""How often the marker topic is looked at while brokers ask about half messages that it does not know."""
TOLD_MAX = 1_000_000
"""Half messages that are counted; brokers get answers about all."""


class Answers:
    """Keeps what the marker topic says, and reads on when a broker asks about something else.

    Args:
        marker_topic: the marker topic.
        abandon_after_ms: half messages older than this get no marker any more: their attempts are aborted. None: they
            stay open.
        monotonic: seconds.
    """

    def __init__(
        self,
        marker_topic: MarkerTopic,
        *,
        abandon_after_ms: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._told: dict[AttemptId, Decision] = {}
        self._marker_topic = marker_topic
        self._abandon_after_ms = abandon_after_ms
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._markers: dict[tuple[str, int], CommitMarker] = {}
        self._next = 0
        self._read_s = float("-inf")

    async def answer(self, message: StoredMessage) -> Decision:
        """Say how the transaction of a half message ends. What is known is answered immediately: brokers ask about thousands."""
        attempt_id = parse_attempt_id(message.properties)
        if attempt_id is None:
            log.warning("a broker asks about message %s, which no exactly-once query has sent", message.message_id)
            return Decision.UNKNOWN
        decision = self._known(attempt_id)
        if decision is Decision.UNKNOWN and (self._is_read_due or self._is_abandoned(message)):
            decision = await asyncio.to_thread(self._find, attempt_id, self._is_abandoned(message))
        if len(self._told) < TOLD_MAX or attempt_id in self._told:
            self._told[attempt_id] = decision
        return decision

    def counts(self) -> dict[Decision, int]:
        """Return how many half messages were answered how, by the last answer about each."""
        told = list(self._told.values())
        return {decision: told.count(decision) for decision in Decision}

    def _known(self, attempt_id: AttemptId) -> Decision:
        return decide(attempt_id, self._markers.get((attempt_id.query, attempt_id.batch), CommitMarker()))

    def _find(self, attempt_id: AttemptId, is_abandoned: bool) -> Decision:
        """Read on in the marker topic, on a thread; abort the attempt first, if it is to be decided by no query any more."""
        with self._lock:
            if self._is_read_due:
                self._read()
            if is_abandoned and self._known(attempt_id) is Decision.UNKNOWN:
                self._marker_topic.append(Abort(attempt_id.query, attempt_id.batch, frozenset((attempt_id.attempt,))))
                self._read()
            return self._known(attempt_id)

    @property
    def _is_read_due(self) -> bool:
        return self._monotonic() - self._read_s >= READ_EVERY_S

    def _read(self) -> None:
        for line in self._marker_topic.read(self._next):
            self._markers.setdefault((line.entry.query, line.entry.batch), CommitMarker()).apply(line.entry)
            self._next = line.offset + 1
        self._read_s = self._monotonic()

    def _is_abandoned(self, message: StoredMessage) -> bool:
        return self._abandon_after_ms is not None and now_ms() - message.born_at_ms >= self._abandon_after_ms


@contextmanager
def answering(options: WriteOptions, answers: Answers, topics: Iterable[str]) -> Iterator[None]:
    """Be the member of the producer group that brokers of these topics ask, as long as the block runs."""
    with BlockingTransactionProducer(
        options.group,
        options.name_servers,
        check=answers.answer,
        topics=tuple(topics),
        **read_security(options.security_file)._asdict(),
    ):
        yield
