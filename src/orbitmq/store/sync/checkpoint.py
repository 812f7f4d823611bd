"""The checkpoint file: how far the logs were synced when the store last looked. Pure.

```
| CommitLog time 8 | consume queue time 8 | index time 8 | flushed offset 8 | confirmed offset 8 | zeros |   4096 bytes
```
Times are the store times (ms) of the last message that was on the disk. Source: docs/formats/config_files.md.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

_LAYOUT = Struct(">qqqqq")
LAYOUT_SIZE = _LAYOUT.size
"""Bytes of the file that are used."""
_FILE_SIZE = 4096
_MARGIN_MS = 3000


class StoreCheckpoint(NamedTuple):
    """What is known to be on the disk (Java: StoreCheckpoint)."""

    commit_log_ms: int = 0
    consume_queue_ms: int = 0
    index_ms: int = 0
    flushed_offset: int = 0
    confirmed_offset: int = 0

    @property
    def recovery_ms(self) -> int:
        """Messages stored up to this time need no second look; three seconds are left for clocks and races."""
        return max(min(self.commit_log_ms, self.consume_queue_ms) - _MARGIN_MS, 0)

    def without_entries_since(self, time_ms: int) -> StoreCheckpoint:
        """Return what is still known when the entries of messages stored at `time_ms` or later are being written again.

        The next recovery reads those again, and not three seconds more: starts that are killed one after the other would
        otherwise each begin earlier than the one before.
        """
        return self._replace(consume_queue_ms=min(self.consume_queue_ms, max(time_ms - 1 + _MARGIN_MS, 0)))

    @property
    def durable_offset(self) -> int:
        """So many bytes of the CommitLog are on the disk; Java's replicas write more into one of the two than they have."""
        return max(min(self.flushed_offset, self.confirmed_offset), 0)


def parse_checkpoint(content: bytes) -> StoreCheckpoint:
    """Parse the file; one that is missing or cut short knows nothing."""
    if len(content) < LAYOUT_SIZE:
        return StoreCheckpoint()
    return StoreCheckpoint(*_LAYOUT.unpack_from(content))


def format_checkpoint(checkpoint: StoreCheckpoint) -> bytes:
    """Encode the file."""
    return _LAYOUT.pack(*checkpoint).ljust(_FILE_SIZE, b"\0")
