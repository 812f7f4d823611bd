"""Op messages: they say which half messages need no decision any more, many in one message. Pure.

State: queue offsets that wait to be written, and for the op messages that were written, how long each is needed.
The body is the offsets in decimal, with a comma behind each.

Source: Java TransactionalMessageServiceImpl.getOpMessage, docs/formats/transactions.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from orbitmq.broker.transactions.messages import REMOVED_TAG
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

_SPAN_COUNT = 64
_DIGITS_MAX = 19


class OpBatch:
    """Queue offsets of half messages that have ended and that no op message names yet.

    Args:
        size_max: bytes of an op message's body from which on it is full (transactionOpMsgMaxSize).
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._parts: list[bytes] = []
        self._size = 0
        self._highest = -1

    def __len__(self) -> int:
        """Count the offsets that wait."""
        return len(self._parts)

    @property
    def is_full(self) -> bool:
        """True when what waits fills a message."""
        return self._size >= self._size_max

    def add(self, offset: int) -> None:
        """Add a half message that has ended."""
        part = b"%d," % offset
        self._parts.append(part)
        self._size += len(part)
        self._highest = max(self._highest, offset)

    def next(self) -> tuple[bytes, int, int] | None:
        """Return the next message's body, how many offsets it holds, and the highest of all; None when nothing waits."""
        if not self._parts:
            return None
        size = count = 0
        for part in self._parts:
            size += len(part)
            count += 1
            if size >= self._size_max:
                break
        return b"".join(self._parts[:count]), count, self._highest

    def written(self, count: int) -> None:
        """Drop the offsets of a message that was written."""
        self._size -= sum(map(len, self._parts[:count]))
        del self._parts[:count]
        if not self._parts:
            self._highest = -1

    def drop_last(self) -> None:
        """Take the newest offset back: its message was refused."""
        self._size -= len(self._parts.pop())


class OpSpans:
    """Up to where the op queue is not needed any more: every half message that it names lies before the window.

    Args:
        done: the first op message that may be needed.
    """

    def __init__(self, done: int = 0) -> None:
        self.done = done
        self._spans: deque[tuple[int, int, int]] = deque()

    def add(self, queue_offset: int, highest: int) -> None:
        """Note an op message, and the highest half offset that it names."""
        if self._spans:
            start, end, last = self._spans[-1]
            if end - start < _SPAN_COUNT:
                self._spans[-1] = start, queue_offset + 1, max(last, highest)
                return
        self._spans.append((queue_offset, queue_offset + 1, highest))

    def release(self, floor: int) -> None:
        """Let go of op messages that name nothing from `floor` on."""
        while self._spans and self._spans[0][2] < floor:
            self.done = self._spans.popleft()[1]


def removed_offsets(op: Record) -> Iterator[int]:
    """Yield the half offsets that an op message names; what is not a number is passed over."""
    if (find_property(op.properties, b"TAGS") or b"").decode("utf-8", "replace") != REMOVED_TAG:
        return
    for text in bytes(op.body).split(b","):
        if text.isdigit() and len(text) <= _DIGITS_MAX:
            yield int(text)
