"""The timers' checkpoint: how far they were read, put into the wheel and delivered, as far as it is on the disk. Pure.

```
| read time 8 | log position 8 | queue offset 8 | the master's queue offset 8 | state version 8 | timestamp 8 | counter 8 | zeros |   4096 bytes
```
Source: docs/formats/timer_files.md; Java TimerCheckpoint.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from orbitmq.model.topic import DataVersion

_LAYOUT = Struct(">qqqqqqq")
BODY_SIZE = _LAYOUT.size
_FILE_SIZE = 4096


class TimerCheckpoint(NamedTuple):
    """What is known to be on the disk.

    `read_ms`: everything due before is delivered. `log_position`: the log's bytes before it, and the slots that lead to
    them, are on the disk. `queue_offset`: the messages before it are in the wheel. `master_queue_offset`: the same as
    `queue_offset`, or more while the wheel is rebuilt: messages before it that were due before `read_ms` have been
    delivered.
    """

    read_ms: int = 0
    log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    version: DataVersion = DataVersion()


def parse_timer_checkpoint(content: bytes) -> TimerCheckpoint:
    """Parse the file; one that is missing, cut short or out of its mind knows nothing."""
    if len(content) < BODY_SIZE:
        return TimerCheckpoint()
    read_ms, position, queue_offset, master_offset, *version = _LAYOUT.unpack_from(content)
    if min(read_ms, position, queue_offset, master_offset) < 0:
        return TimerCheckpoint()
    return TimerCheckpoint(read_ms, position, queue_offset, master_offset, DataVersion(*version))


def format_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Encode the checkpoint as it travels (60)."""
    version = checkpoint.version
    return _LAYOUT.pack(*checkpoint[:4], version.state_version, version.timestamp_ms, version.counter)


def format_timer_checkpoint_file(checkpoint: TimerCheckpoint) -> bytes:
    """Encode the file."""
    return format_timer_checkpoint(checkpoint).ljust(_FILE_SIZE, b"\0")
