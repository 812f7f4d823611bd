"""Held pops: those that found nothing and wait for messages. Pure.

State: held requests by topic, group and queue, in the order in which they came, and by connection, which those that
were taken out stay with until they are tried. In: requests that found nothing, messages that arrive, closed connections.
Out: requests that are to be tried again: for each message one of each group, for the first that tries takes it.

Source: Java PopLongPollingService.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from orbitmq.wire.pop.handles import RETRY_V1, RETRY_V2, pop_retry_topic

T = TypeVar("T")

CONNECTION_SHARE = 0.75
"""The part of all that may wait which one connection may have."""
ANY_QUEUE = -1

Place = tuple[str, str, int]
"""Topic, group and queue, ANY_QUEUE for any."""


@dataclass(eq=False, slots=True)
class HeldPop(Generic[T]):
    """One request that waits.

    Args:
        tag_codes: codes of the tags it wants, None for every message.
        connection: whose closing drops it.
        call: the holder's own; never looked at here.
        is_gone: its connection closed, and it was forgotten.
    """

    place: Place
    tag_codes: frozenset[int] | None
    connection: Hashable
    call: T
    is_held: bool = False
    is_gone: bool = False


class HeldPops(Generic[T]):
    """All requests that wait, limited in number, all together and at one place.

    Args:
        count_max: of all; one connection may have three quarters of them.
        place_max: of those that wait for the same queue, or for any, of one topic for one group.
    """

    def __init__(self, count_max: int, place_max: int) -> None:
        self._count_max = count_max
        self._place_max = place_max
        self._by_place: dict[Place, dict[HeldPop[T], None]] = {}
        self._by_connection: dict[Hashable, dict[HeldPop[T], None]] = {}
        self._closed: dict[Hashable, None] = {}
        """Connections that closed, as long as requests of theirs are here."""
        self._places: dict[str, dict[tuple[str, str], set[int]]] = {}
        """By the topic in which a message may arrive: the topics and groups that wait for it, and at which queues."""
        self.count = 0
        self.over_count = 0
        """Requests that were not held because too many were."""

    def count_at(self, place: Place) -> int:
        """Return how many requests wait at a place."""
        return len(self._by_place.get(place, ()))

    @property
    def places(self) -> list[Place]:
        """Return every place where requests wait."""
        return list(self._by_place)

    def hold(self, pop: HeldPop[T]) -> bool:
        """Let a request wait. False: there are too many."""
        own = self._by_connection.get(pop.connection, ())
        is_over = self.count >= self._count_max or len(own) >= max(1, self._count_max * CONNECTION_SHARE)
        if is_over or self.count_at(pop.place) >= self._place_max:
            self.over_count += 1
            return False
        self._by_connection.setdefault(pop.connection, {})[pop] = None
        waiting = self._by_place.get(pop.place)
        if waiting is None:
            waiting = self._by_place[pop.place] = {}
            self._enter_place(pop.place)
        waiting[pop] = None
        pop.is_held = True
        self.count += 1
        return True

    def take_arrived(self, topic: str, queue_id: int, tag_code: int) -> list[HeldPop[T]]:
        """Take out those that a new message is for: one of each group."""
        found = []
        for (popped, group), queue_ids in tuple(self._places.get(topic, {}).items()):
            # Pops that wait at any of a topic's queues get retries, too.
            wanted = (ANY_QUEUE, queue_id) if topic == popped else (ANY_QUEUE, *sorted(queue_ids - {ANY_QUEUE}))
            for wanted_id in wanted:
                pop = self.take_one((popped, group, wanted_id), tag_code)
                if pop is not None:
                    found.append(pop)
                    break
        return found

    def take_one(self, place: Place, tag_code: int | None = None) -> HeldPop[T] | None:
        """Take out the request that has waited longest at a place.

        Args:
            tag_code: of a message that it must want; None: whatever it wants.
        """
        for pop in self._by_place.get(place, ()):
            if tag_code is None or pop.tag_codes is None or tag_code in pop.tag_codes:
                self._release(pop)
                return pop
        return None

    def remove(self, pop: HeldPop[T]) -> bool:
        """Take out a request for good. False: it did not wait any more."""
        if not pop.is_held:
            return False
        self._release(pop)
        self.leave(pop)
        return True

    def _release(self, pop: HeldPop[T]) -> None:
        pop.is_held = False
        waiting = self._by_place[pop.place]
        del waiting[pop]
        if not waiting:
            del self._by_place[pop.place]
            self._leave_place(pop.place)
        self.count -= 1

    def leave(self, pop: HeldPop[T]) -> bool:
        """Let a request that was taken out go from its connection: it is tried now. False: its connection has closed."""
        is_gone = pop.is_gone or pop.connection in self._closed
        own = self._by_connection.get(pop.connection)
        if own is not None:
            own.pop(pop, None)
            if not own:
                del self._by_connection[pop.connection]
        return not is_gone

    def take_topic(self, topic: str) -> list[HeldPop[T]]:
        """Take out all that wait for messages of a topic."""
        places = [
            (popped, group, queue_id)
            for (popped, group), queue_ids in self._places.get(topic, {}).items()
            for queue_id in queue_ids
            if popped == topic
        ]
        return [pop for place in places for pop in self._take_all(place)]

    def drop_connection(self, connection: Hashable) -> None:
        """Mark the requests of a closed connection as not to be tried; `forget_some` takes them out."""
        if connection in self._by_connection:
            self._closed[connection] = None

    @property
    def has_closed(self) -> bool:
        """Return True if requests of closed connections are here still."""
        return bool(self._closed)

    def forget_some(self, count: int) -> list[HeldPop[T]]:
        """Take out so many requests of closed connections: one may have left very many."""
        forgotten: list[HeldPop[T]] = []
        while self._closed and len(forgotten) < count:
            connection = next(iter(self._closed))
            own = self._by_connection.get(connection)
            if own is None:
                del self._closed[connection]
                continue
            pop = next(reversed(own))
            pop.is_gone = True
            if not self.remove(pop):
                self.leave(pop)
            forgotten.append(pop)
        return forgotten

    def close(self) -> list[HeldPop[T]]:
        """Take out all, and hold no more: the broker stops."""
        self._count_max = 0
        return [pop for place in self.places for pop in self._take_all(place)]

    def _take_all(self, place: Place) -> list[HeldPop[T]]:
        found = list(self._by_place.get(place, ()))
        for pop in found:
            self._release(pop)
        return found

    def _enter_place(self, place: Place) -> None:
        topic, group, queue_id = place
        for source in _sources(topic, group):
            self._places.setdefault(source, {}).setdefault((topic, group), set()).add(queue_id)

    def _leave_place(self, place: Place) -> None:
        topic, group, queue_id = place
        for source in _sources(topic, group):
            waiting = self._places[source]
            queue_ids = waiting[topic, group]
            queue_ids.discard(queue_id)
            if not queue_ids:
                del waiting[topic, group]
                if not waiting:
                    del self._places[source]


def _sources(topic: str, group: str) -> tuple[str, ...]:
    """Return the topics whose messages a group's pop of a topic may find."""
    return topic, pop_retry_topic(topic, group, RETRY_V1), pop_retry_topic(topic, group, RETRY_V2)
