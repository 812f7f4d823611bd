"""The checkpoint file: how far the logs were synced when the store last looked. Pure.

```
| CommitLog time 8 | consume queue time 8 | index time 8 | flushed offset 8 | confirmed offset 8 | entries end 8 | CRC-32 4 |
```
and zeros up to 4096 bytes. Times are the store times (ms) of the last message that was on the disk. Java writes the first
five numbers alone. Source: docs/formats/config_files.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple
from zlib import crc32

_LAYOUT = Struct(">qqqqq")
LAYOUT_SIZE = _LAYOUT.size
"""Bytes of the file that Java uses."""
_ENTRIES_END = Struct(">q")
_CRC = Struct(">I")
_CRC_AT = LAYOUT_SIZE + _ENTRIES_END.size
_FILE_SIZE = 4096
_MARGIN_MS = 3000


class StoreCheckpoint(NamedTuple):
    """What is known to be on the disk (Java: StoreCheckpoint)."""

    commit_log_ms: int = 0
    consume_queue_ms: int = 0
    index_ms: int = 0
    flushed_offset: int = 0
    confirmed_offset: int = 0
    entries_end: int | None = None
    """All messages before this place in the log (bytes), and their queue entries, are on the disk; None: Java wrote the file."""

    def covered_end(self, first_times_ms: Iterable[tuple[int, int]]) -> int:
        """Return up to where messages and their entries need no second look, in bytes of the log.

        Without `entries_end` that is the start of the last file whose first message was stored three seconds before the
        times, as in Java (CommitLog.isMappedFileMatchedRecover).

        Args:
            first_times_ms: where each file of the log begins, and when its first message was stored, the last file first.
        """
        if self.entries_end is not None:
            return self.entries_end
        recovery_ms = min(self.commit_log_ms, self.consume_queue_ms) - _MARGIN_MS
        return next((base for base, stored_at_ms in first_times_ms if 0 < stored_at_ms <= recovery_ms), 0)

    def without_entries_from(self, start: int, stored_at_ms: int) -> StoreCheckpoint:
        """Return what is still known when the entries of messages from a place of the log on are being written again.

        Args:
            stored_at_ms: when the first of them was stored: Java's brokers go by times.
        """
        return self._replace(
            consume_queue_ms=min(self.consume_queue_ms, max(stored_at_ms - 1 + _MARGIN_MS, 0)),
            entries_end=None if self.entries_end is None else min(self.entries_end, start),
        )

    @property
    def durable_offset(self) -> int:
        """So many bytes of the CommitLog are on the disk; Java's replicas write more into one of the two than they have."""
        return max(min(self.flushed_offset, self.confirmed_offset), 0)


def parse_checkpoint(content: bytes) -> StoreCheckpoint:
    """Parse the file; one that is missing or cut short knows nothing."""
    if len(content) < LAYOUT_SIZE:
        return StoreCheckpoint()
    found = StoreCheckpoint(*_LAYOUT.unpack_from(content))
    # Java's brokers change the first numbers and leave the rest: then the CRC does not fit, and `entries_end` says nothing.
    if len(content) < _CRC_AT + _CRC.size or _CRC.unpack_from(content, _CRC_AT)[0] != crc32(content[:_CRC_AT]):
        return found
    return found._replace(entries_end=_ENTRIES_END.unpack_from(content, LAYOUT_SIZE)[0])


def format_checkpoint(checkpoint: StoreCheckpoint) -> bytes:
    """Encode the file."""
    content = _LAYOUT.pack(*checkpoint[:5])
    if checkpoint.entries_end is not None:
        content += _ENTRIES_END.pack(checkpoint.entries_end)
        content += _CRC.pack(crc32(content))
    return content.ljust(_FILE_SIZE, b"\0")
