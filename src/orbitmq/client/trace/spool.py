"""The traces that wait to be sent, within bounds, and how they are packed into messages. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from orbitmq.model.message import split_keys
from orbitmq.wire.messages.traces import Trace, encode_trace

COUNT_MAX = 2_048
"""As Java: what comes while so many wait is dropped, for no send is to wait for traces."""
SIZE_MAX = 4 * 1024 * 1024
"""The same, in characters."""
PACK_COUNT_MAX = 100
_PACK_SIZE_MAX = 100_000
_PACK_KEYS_SIZE_MAX = 16_000
"""Bytes of the keys of one trace message, whose properties may have 32,767."""


class Pack(NamedTuple):
    """What one trace message holds, and the keys by which it is found."""

    body: str
    keys: tuple[str, ...]


class _Waiting(NamedTuple):
    text: str
    keys: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.keys))


class TraceSpool:
    """Traces that wait, oldest first; those that find no room are counted."""

    def __init__(self) -> None:
        self.dropped_count = 0
        self._waiting: deque[_Waiting] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, trace: Trace) -> bool:
        """Append a trace; False when there is no room for it."""
        keys = () if not (text := getattr(trace, "keys", None)) else split_keys(text)
        waiting = _Waiting(encode_trace(trace), (trace.message_id, *keys))
        if len(self._waiting) >= COUNT_MAX or self._size + waiting.size > SIZE_MAX:
            self.dropped_count += 1
            return False
        self._waiting.append(waiting)
        self._size += waiting.size
        return True

    def take(self) -> Iterator[Pack]:
        """Take everything out, packed into as few messages as their sizes allow."""
        while self._waiting:
            yield self._take_pack()

    def _take_pack(self) -> Pack:
        texts: list[str] = []
        keys: dict[str, None] = {}
        size = keys_size = 0
        while self._waiting and len(texts) < PACK_COUNT_MAX:
            first = self._waiting[0]
            new_keys = sum(len(key.encode()) + 1 for key in first.keys if key not in keys)
            is_full = size + len(first.text) > _PACK_SIZE_MAX or keys_size + new_keys > _PACK_KEYS_SIZE_MAX
            if texts and is_full:
                break
            self._waiting.popleft()
            self._size -= first.size
            texts.append(first.text)
            size, keys_size = size + len(first.text), keys_size + new_keys
            keys.update(dict.fromkeys(first.keys))
        return Pack("".join(texts), tuple(_fitting(keys)))


def _fitting(keys: dict[str, None]) -> Iterator[str]:
    """Yield the keys that have room together: one message may have more than its trace can be found by."""
    left = _PACK_KEYS_SIZE_MAX
    for key in keys:
        left -= len(key.encode()) + 1
        if left >= 0 and key:  # a message that came without an id
            yield key
