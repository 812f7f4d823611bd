"""Parked pulls: those that found nothing and wait for messages. Pure.

State: parked pulls by queue and by connection, and those that arrivals have woken. In: pulls that found nothing,
arrivals from the store's dispatch, the clock, closed connections. Out: pulls to be tried again, or whose time is over.

A pull is parked with what wakes it: an offset and, for a tag filter, the tags' codes. It is not answered here; whoever
parked it reads again, and parks it again when another filter than the code rejects the message.

Source: Java PullRequestHoldService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

QueueKey = tuple[str, int]


@dataclass(eq=False, slots=True)
class ParkedPull(Generic[T]):
    """One pull that waits.

    Args:
        queue_offset: the message it waits for.
        tag_codes: codes of the tags it wants, None for every message.
        deadline_ms: when it is answered with nothing.
        connection: whose closing drops it.
        call: the handler's own business.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tag_codes: frozenset[int] | None
    deadline_ms: int
    connection: Hashable
    call: T


class ParkedPulls(Generic[T]):
    """All pulls that wait, limited in number."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        # Dictionaries, for their order and because taking one out costs the same however many wait.
        self._by_queue: dict[QueueKey, dict[ParkedPull[T], None]] = {}
        self._by_connection: dict[Hashable, dict[ParkedPull[T], None]] = {}
        self._ready: deque[ParkedPull[T]] = deque()
        self.count = 0

    def park(self, pull: ParkedPull[T]) -> bool:
        """Let a pull wait. False: there are too many, answer it now."""
        if self.count >= self._count_max:
            return False
        self._by_queue.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        self._by_connection.setdefault(pull.connection, {})[pull] = None
        self.count += 1
        return True

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> bool:
        """Note a new message. True: pulls became ready, and none were before this call.

        The caller takes them with `next_ready` from the end of the turn on, so that a burst is answered in one piece.
        """
        waiting = self._by_queue.get((topic, queue_id))
        if waiting is None:
            return False
        woken = [pull for pull in waiting if queue_offset >= pull.queue_offset and _wants(pull, tag_code)]
        if not woken:
            return False
        # Only the first arrival of a turn says so: the caller then schedules one answer for all that follow.
        was_idle = not self._ready
        self._remove(woken)
        self._ready += woken
        return was_idle

    @property
    def has_ready(self) -> bool:
        """Say whether pulls are to be tried again."""
        return bool(self._ready)

    def make_ready(self, pulls: Iterable[ParkedPull[T]]) -> None:
        """Let pulls that were handed out wait for their turn."""
        self._ready += pulls

    def next_ready(self) -> ParkedPull[T] | None:
        """Hand out the first of the pulls that are to be tried again."""
        return self._ready.popleft() if self._ready else None

    def take_ready(self) -> list[ParkedPull[T]]:
        """Hand out all pulls that are to be tried again."""
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def take_expired(self, now_ms: int) -> list[ParkedPull[T]]:
        """Hand out the pulls whose time is over."""
        return self._drain(lambda pull: pull.deadline_ms <= now_ms)

    def take_overtaken(self, offset_max: Callable[[str, int], int]) -> list[ParkedPull[T]]:
        """Hand out the pulls whose queue has grown past them: the safety net under lost wake-ups."""
        return self._drain(
            lambda pull: pull.tag_codes is None and offset_max(pull.topic, pull.queue_id) > pull.queue_offset
        )

    def take_topic(self, topic: str) -> list[ParkedPull[T]]:
        """Hand out the pulls of a topic that is deleted."""
        return self._drain(lambda pull: pull.topic == topic)

    def close(self) -> list[ParkedPull[T]]:
        """Hand out every pull and park no more: the broker stops."""
        self._count_max = 0
        return self.take_ready() + self._drain(lambda pull: True)

    def drop_connection(self, connection: Hashable) -> None:
        """Forget the pulls of a connection that closed: nobody is there to be answered."""
        self._remove(self._by_connection.get(connection, ()))
        if self._ready:
            self._ready = deque(pull for pull in self._ready if pull.connection != connection)

    def _drain(self, chosen: Callable[[ParkedPull[T]], bool]) -> list[ParkedPull[T]]:
        drained = [pull for waiting in self._by_queue.values() for pull in waiting if chosen(pull)]
        self._remove(drained)
        return drained

    def _remove(self, pulls: Iterable[ParkedPull[T]]) -> None:
        for pull in list(pulls):
            key = (pull.topic, pull.queue_id)
            waiting = self._by_queue[key]
            del waiting[pull]
            if not waiting:
                del self._by_queue[key]
            own = self._by_connection[pull.connection]
            del own[pull]
            if not own:
                del self._by_connection[pull.connection]
            self.count -= 1


def _wants(pull: ParkedPull[T], tag_code: int) -> bool:
    return pull.tag_codes is None or tag_code in pull.tag_codes
