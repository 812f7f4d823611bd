"""The account of a store: what it was told and what it said, the plain truth that a restart is compared with."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from orbitmq.store import ReadStatus, Store
from orbitmq.wire.messages.record import iter_records

Key = tuple[str, int]
"""(topic, queue id)."""


class Sent(NamedTuple):
    """A message that was handed to the store."""

    body: bytes
    physical_offset: int
    """-1: the store did not live to tell."""
    stored_at_ms: int


@dataclass(slots=True)
class Truth:
    """One queue: messages in order, of which `acknowledged` must be there, and `seen` were read."""

    sent: list[Sent] = field(default_factory=list)
    acknowledged: int = 0
    seen: int = 0
    first: int = 0
    """Messages before this one were cleaned away."""


class Loss(AssertionError):
    """The store did what no store may."""


def play(simulation: Callable[[int], Any], count: int, seed: int) -> tuple[Counter[str], str]:
    """Play runs until there were so many power cuts; return what happened, and what was lost."""
    counts: Counter[str] = Counter()
    while counts["power cuts"] < count:
        try:
            played = simulation(seed)
            played.run()
        except Exception as error:
            again = f"PYTHONPATH=tests python -m {simulation.__module__} {seed}"
            return counts, f"run {seed}: {error!r}; {again} tells each step"
        counts += played.counts
        counts["runs"] += 1
        seed += 1
    return counts, ""


def tell(simulation: Callable[[int, Callable[[str], None]], Any]) -> None:
    """Play the run whose seed is the program's argument, telling each step."""
    logging.disable(logging.ERROR)
    simulation(int(sys.argv[1]), print).run()


class Ledger:
    """The truth of all queues."""

    def __init__(self) -> None:
        self.queues: dict[Key, Truth] = {}
        self.deleting: set[str] = set()
        """Topics whose deletion was not answered: they are there, in part, or not."""

    def queue(self, key: Key) -> Truth:
        return self.queues.setdefault(key, Truth())

    def take(self, key: Key, body: bytes, queue_offset: int, physical_offset: int, stored_at_ms: int) -> None:
        """Note a message that was appended."""
        sent = self.queue(key).sent
        if queue_offset != len(sent):
            raise Loss(f"{key}: message {len(sent)} was given the queue offset {queue_offset}")
        sent.append(Sent(body, physical_offset, stored_at_ms))

    def delete(self, topic: str) -> None:
        """Note that a topic is gone."""
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]
        self.deleting.discard(topic)

    def compare(self, store: Store, topics: list[str], *, is_exact: bool) -> None:
        """Compare with what a restart found, and go on from there.

        Args:
            is_exact: nothing that was sent may be missing: the machine did not lose power.

        Raises:
            Loss: messages are missing, invented, out of order or back from the dead.
        """
        kept_end, lost_start = -1, 1 << 62
        for key in sorted(
            set(self.queues) | {(topic, queue_id) for topic in topics for queue_id in store.queue_ids(topic)}
        ):
            bodies = read_queue(store, key)
            truth = self.queues.get(key, Truth())
            truth.first = store.min_offset(*key)
            if key[0] in self.deleting:
                self._accept(key, store, bodies)
                continue
            check_beginning(key, truth, store)
            places = [sent.physical_offset for sent in truth.sent]
            self._compare_queue(key, truth, store, bodies, is_exact=is_exact)
            count = store.max_offset(*key)
            kept_end = max(chain([kept_end], places[:count]))
            lost_start = min(chain([lost_start], (place for place in places[count:] if place >= 0)))
            if key in self.queues:
                del truth.sent[count:]
        self.deleting.clear()
        if lost_start < kept_end:
            raise Loss(f"the message at {lost_start} is lost, and one at {kept_end} is there: not a tail of the log")

    def _compare_queue(self, key: Key, truth: Truth, store: Store, bodies: list[bytes], *, is_exact: bool) -> None:
        sent = [message.body for message in truth.sent]
        end = store.max_offset(*key)
        if end > len(sent) or (bodies and bodies != sent[truth.first : end]):
            raise Loss(
                f"{key}: {len(bodies)} messages from {truth.first} on, of {len(sent)} sent: invented or reordered"
            )
        if end < max(truth.acknowledged, truth.seen):
            raise Loss(f"{key}: ends at {end}, acknowledged are {truth.acknowledged}, readers saw {truth.seen}")
        if is_exact and any(message.physical_offset >= 0 for message in truth.sent[end:]):
            raise Loss(f"{key}: ends at {end}, sent were {len(sent)}, and only the process died")

    def _accept(self, key: Key, store: Store, bodies: list[bytes]) -> None:
        """Go on with what an unanswered deletion has left: the messages of before, some of them, or only their number."""
        truth = self.queue(key)
        end = store.max_offset(*key)
        if end > len(truth.sent) or (bodies and bodies != [message.body for message in truth.sent[truth.first : end]]):
            raise Loss(f"{key}: a deletion that was cut short has left messages that were never there")
        del truth.sent[end:]
        truth.sent[: truth.first] = [message._replace(physical_offset=-1) for message in truth.sent[: truth.first]]
        truth.acknowledged = truth.seen = 0


def check_beginning(key: Key, truth: Truth, store: Store) -> None:
    """A queue begins with its first message that is in the log."""
    log_min = store.min_physical_offset
    gone = [message for message in truth.sent[: truth.first] if message.physical_offset >= log_min]
    if gone:
        raise Loss(
            f"{key}: begins at {truth.first}; a message at {gone[0].physical_offset} is left out, the log begins at {log_min}"
        )


def read_queue(store: Store, key: Key) -> list[bytes]:
    """Read a queue from its first message to its end, and look at each record's own words."""
    topic, queue_id = key
    bodies: list[bytes] = []
    offset = store.min_offset(topic, queue_id)
    while (found := store.read(topic, queue_id, offset)).status is ReadStatus.FOUND:
        records = list(iter_records(found.body))
        if [record.queue_offset for record in records] != list(range(offset, found.next_offset)):
            raise Loss(f"{key}: a read at {offset} gives {[record.queue_offset for record in records]}")
        if any((record.topic, record.queue_id) != key for record in records):
            raise Loss(f"{key}: a read at {offset} gives messages of other queues")
        bodies += [bytes(record.body) for record in records]
        offset = found.next_offset
    if store.max_offset(topic, queue_id) != offset:
        raise Loss(f"{key}: read up to {offset}, and its end is {store.max_offset(topic, queue_id)}")
    return bodies
