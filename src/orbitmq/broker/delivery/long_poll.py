"""Held pulls: those that found nothing and wait for messages. Pure.

State: held pulls by queue and by connection, and those that arrivals have woken. In: pulls that found nothing,
arrivals from the store's dispatch, the clock, closed connections. Out: pulls to be tried again, or whose time is over.

A pull is held with what wakes it: an offset and, for a tag filter, the tags' codes. It is not answered here: the
caller retries the read, and holds it again when another filter than the code rejects the message.

Source: Java PullRequestHoldService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

QueueKey = tuple[str, int]

CONNECTION_SHARE = 0.75
"""The part of all that may wait which one connection may have."""


@dataclass(eq=False, slots=True)
class HeldPull(Generic[T]):
    """One pull that waits.

    Args:
        queue_offset: the message it waits for; it moves on when another filter than the codes has rejected some.
        tag_codes: codes of the tags it wants, None for every message.
        deadline_ms: when it is answered with nothing.
        connection: whose closing drops it.
        call: the handler's own; never looked at here.
        size: what it takes of memory, in bytes, estimated.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tag_codes: frozenset[int] | None
    deadline_ms: int
    connection: Hashable
    call: T
    size: int = 0
    is_gone: bool = False
    """True once its connection has closed."""
    answer_size: int = 0
    """Bytes of the answer that there was no room for."""
    postponed_ms: int | None = None
    """When there was none for the first time."""


@dataclass(slots=True)
class _Waiting(Generic[T]):
    """The pulls that wait at one queue. Dictionaries, for their order and because taking one out costs the same always."""

    every: dict[HeldPull[T], None] = field(default_factory=dict)
    """Those that take any message."""
    by_code: dict[int, dict[HeldPull[T], None]] = field(default_factory=dict)
    """The others, by each of their tags: a message is compared only with the pulls of its tag."""

    def __iter__(self) -> Iterator[HeldPull[T]]:
        yield from self.every
        if self.by_code:
            yield from dict.fromkeys(pull for pulls in self.by_code.values() for pull in pulls)

    def add(self, pull: HeldPull[T]) -> None:
        if pull.tag_codes is None:
            self.every[pull] = None
        else:
            for code in pull.tag_codes:
                self.by_code.setdefault(code, {})[pull] = None

    def remove(self, pull: HeldPull[T]) -> None:
        """Take out a pull, if it is there."""
        self.every.pop(pull, None)
        for code in pull.tag_codes or ():
            pulls = self.by_code.get(code, {})
            pulls.pop(pull, None)
            if not pulls:
                self.by_code.pop(code, None)

    def take(self, queue_offset: int, tag_code: int) -> list[HeldPull[T]]:
        """Take out those that want a message."""
        wanting = [pull for pull in self.every if pull.queue_offset <= queue_offset]
        if len(wanting) == len(self.every):
            self.every.clear()
        else:
            for pull in wanting:
                del self.every[pull]
        tagged = [pull for pull in self.by_code.get(tag_code, ()) if pull.queue_offset <= queue_offset]
        for pull in tagged:
            self.remove(pull)
        return wanting + tagged


class HeldPulls(Generic[T]):
    """All pulls that wait, limited in number and in bytes; one connection may have three quarters of both.

    Those that were woken are handed out queue by queue in turns: a pull at a quiet queue does not wait for the crowd of
    a busy one.
    """

    def __init__(self, count_max: int, size_max: int) -> None:
        self._count_max = count_max
        self._size_max = size_max
        self._by_queue: dict[QueueKey, _Waiting[T]] = {}
        self._by_connection: dict[Hashable, dict[HeldPull[T], None]] = {}
        self._size_by_connection: dict[Hashable, int] = {}
        self._ready: dict[QueueKey, deque[HeldPull[T]]] = {}
        self._turns: deque[QueueKey] = deque()
        self._postponed: deque[HeldPull[T]] = deque()
        self._closed: dict[Hashable, None] = {}
        """Connections that closed and whose pulls are still here: one may have tens of thousands."""
        self.count = 0
        self.size = 0
        self.over_count = 0
        """Pulls that were not held because too many were."""
        self.over_size = 0
        """Those for which there was no memory left."""

    def hold(self, pull: HeldPull[T]) -> bool:
        """Let a pull wait. False: there are too many, answer it now."""
        if not self._admit(pull):
            return False
        key = (pull.topic, pull.queue_id)
        waiting = self._by_queue.get(key)
        if waiting is None:
            waiting = self._by_queue[key] = _Waiting()
        waiting.add(pull)
        return True

    def enqueue(self, pull: HeldPull[T]) -> bool:
        """Take a pull in that is to be tried in its turn, without waiting for a message. False: there are too many."""
        if not self._admit(pull):
            return False
        self._make_ready((pull.topic, pull.queue_id), (pull,))
        return True

    def _admit(self, pull: HeldPull[T]) -> bool:
        own = self._by_connection.get(pull.connection, ())
        if self.count >= self._count_max or len(own) >= max(1, self._count_max * CONNECTION_SHARE):
            self.over_count += 1
            return False
        own_size = self._size_by_connection.get(pull.connection, 0) + pull.size
        if self.size + pull.size > self._size_max or own_size > self._size_max * CONNECTION_SHARE:
            self.over_size += 1
            return False
        self._enter(pull)
        return True

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> bool:
        """Note a new message. True: pulls became ready, and none were before this call.

        The caller takes them with `next_ready` from the end of the turn on, so that a burst is answered in one piece.
        """
        key = (topic, queue_id)
        waiting = self._by_queue.get(key)
        if waiting is None:
            return False
        woken = waiting.take(queue_offset, tag_code)
        if not woken:
            return False
        self._drop_empty(key, waiting)
        # Only the first arrival of a turn says so: the caller then schedules one answer for all that follow.
        was_idle = not self._turns
        self._make_ready(key, woken)
        return was_idle

    @property
    def has_ready(self) -> bool:
        """Return True if pulls are to be tried again."""
        return bool(self._turns)

    def next_ready(self) -> HeldPull[T] | None:
        """Hand out a pull that is to be tried again: the first of the queue whose turn it is."""
        while self._turns:
            # Queues take turns, one pull each: thousands of pulls at one queue do not delay those of another.
            key = self._turns.popleft()
            ready = self._ready[key]
            pull = ready.popleft()
            if ready:
                self._turns.append(key)
            else:
                del self._ready[key]
            # Its connection closed, or it was handed out already: entries are not searched for in the middle of a deque.
            if pull.is_gone:
                continue
            self._leave(pull)
            if pull.connection not in self._closed:
                return pull
            pull.is_gone = True
        return None

    def take_ready(self) -> list[HeldPull[T]]:
        """Hand out all pulls that are to be tried again."""
        ready = []
        while (pull := self.next_ready()) is not None:
            ready.append(pull)
        return ready

    def postpone(self, pull: HeldPull[T]) -> bool:
        """Let a pull wait until clients read: no message wakes it, `resume` does. False: too many wait, answer it now."""
        if not self._admit(pull):
            return False
        self._postponed.append(pull)
        return True

    def resume(self, count: int) -> bool:
        """Make some of the postponed pulls ready. False: there are no more of them."""
        for _ in range(min(count, len(self._postponed))):
            pull = self._postponed.popleft()
            if not pull.is_gone:
                self._make_ready((pull.topic, pull.queue_id), (pull,))
        return bool(self._postponed)

    def wake_expired(self, now_ms: int) -> None:
        """Make the pulls ready whose time is over."""
        for key, waiting in tuple(self._by_queue.items()):
            self._wake(key, [pull for pull in waiting if pull.deadline_ms <= now_ms])

    def wake_overtaken(self, offset_max: Callable[[str, int], int]) -> None:
        """Make the pulls ready whose queue has grown past them: the safety net under lost wake-ups."""
        for key, waiting in tuple(self._by_queue.items()):
            end = offset_max(*key)
            self._wake(key, [pull for pull in waiting.every if end > pull.queue_offset])

    def wake_topic(self, topic: str) -> None:
        """Make the pulls of a topic ready that is deleted."""
        for key, waiting in tuple(self._by_queue.items()):
            if key[0] == topic:
                self._wake(key, list(waiting))

    def end_waits(self, topic: str, connections: Collection[Hashable] | None = None) -> None:
        """Make some clients' pulls of a topic ready, or all, to be answered with nothing if there is nothing."""
        for key, waiting in tuple(self._by_queue.items()):
            if key[0] == topic:
                ended = [pull for pull in waiting if connections is None or pull.connection in connections]
                for pull in ended:
                    pull.deadline_ms = 0
                self._wake(key, ended)

    def close(self) -> list[HeldPull[T]]:
        """Hand out every pull and hold no more: the broker stops."""
        self._count_max = 0
        self.resume(len(self._postponed))
        for key, waiting in tuple(self._by_queue.items()):
            self._wake(key, list(waiting))
        return self.take_ready()

    def drop_connection(self, connection: Hashable) -> None:
        """Hand out no pull of a connection that closed any more; `forget_some` takes them out."""
        if connection in self._by_connection:
            self._closed[connection] = None

    def forget_some(self, count: int) -> bool:
        """Take out so many pulls of closed connections. False: there are no more of them."""
        while self._closed and count:
            connection = next(iter(self._closed))
            own = self._by_connection.get(connection)
            if own is None:
                del self._closed[connection]
                continue
            count -= 1
            pull = next(reversed(own))
            pull.is_gone = True
            self._leave(pull)
            key = (pull.topic, pull.queue_id)
            waiting = self._by_queue.get(key)
            if waiting is not None:
                waiting.remove(pull)
                self._drop_empty(key, waiting)
        return bool(self._closed)

    def _enter(self, pull: HeldPull[T]) -> None:
        connection = pull.connection
        self._by_connection.setdefault(connection, {})[pull] = None
        self._size_by_connection[connection] = self._size_by_connection.get(connection, 0) + pull.size
        self.count += 1
        self.size += pull.size

    def _leave(self, pull: HeldPull[T]) -> None:
        own = self._by_connection[pull.connection]
        del own[pull]
        self._size_by_connection[pull.connection] -= pull.size
        if not own:
            del self._by_connection[pull.connection]
            del self._size_by_connection[pull.connection]
        self.count -= 1
        self.size -= pull.size

    def _wake(self, key: QueueKey, pulls: list[HeldPull[T]]) -> None:
        waiting = self._by_queue[key]
        for pull in pulls:
            waiting.remove(pull)
        self._drop_empty(key, waiting)
        if pulls:
            self._make_ready(key, pulls)

    def _make_ready(self, key: QueueKey, pulls: Iterable[HeldPull[T]]) -> None:
        ready = self._ready.get(key)
        if ready is None:
            self._ready[key] = deque(pulls)
            self._turns.append(key)
        else:
            ready += pulls

    def _drop_empty(self, key: QueueKey, waiting: _Waiting[T]) -> None:
        if not waiting.every and not waiting.by_code:
            del self._by_queue[key]
