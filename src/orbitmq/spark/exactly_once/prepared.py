"""The report of a task: where its half messages lie, and what they would add to which queues."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from orbitmq.model.route import MessageQueue
from orbitmq.spark.exactly_once.commit_markers import Filled, Unverified


class PreparedTopic(NamedTuple):
    """The half messages of one topic on one broker: told apart because permissions are the topic's."""

    topic: str
    broker_name: str


@dataclass
class Prepared(WriterCommitMessage):  # type: ignore[misc]
    """The work of one attempt of one task, as it goes to the driver: 16 bytes a row.

    Args:
        query, batch: of which micro-batch.
        attempt: names this run of the task.
        searched: nothing about the batch stands before this offset of the marker topic.
        is_decided: a marker was there already, and nothing was sent.
        unsent_count: rows of a task that has sent nothing for that reason.
        unverified: serials of half messages that were sent again, because it was unknown whether they had arrived.
        filled: what the rows add to which queues.
        halves: queue offset and physical offset of each half message, one after the other.
        born_at_ms: when the first of them was made.
    """

    query: str
    batch: int
    attempt: str
    searched: int
    is_decided: bool = False
    unverified: Unverified = ()
    filled: dict[MessageQueue, Filled] = field(default_factory=dict)
    halves: dict[PreparedTopic, array[int]] = field(default_factory=dict)
    born_at_ms: int = 0
    unsent_count: int = 0

    @property
    def count(self) -> int:
        """Rows."""
        return sum(part.count for part in self.filled.values())


def marker_parts(prepared: list[Prepared]) -> tuple[dict[str, Unverified], dict[MessageQueue, Filled]]:
    """Return what a marker says of these winners: their attempts, and what all of them add to which queues."""
    filled: dict[MessageQueue, Filled] = {}
    for part in prepared:
        for queue, more in part.filled.items():
            known = filled.get(queue, Filled(more.begin, 0))
            filled[queue] = Filled(min(known.begin, more.begin), known.count + more.count)
    return {part.attempt: part.unverified for part in prepared if part.count}, filled
