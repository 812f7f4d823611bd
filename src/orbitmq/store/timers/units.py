"""Units of the timer log: one for each time that a message was put into the wheel. Pure.

```
| size 4 | previous 8 | magic 4 | write time 8 | delay 4 | physical offset 8 | message size 4 | topic hash 4 | 0 8 |  52 bytes
```
`previous` is where the unit before it in the same slot lies, -1 for the first. Write time and delay (ms) add up to the
slot's time. Source: docs/formats/timer_files.md; Java TimerLog, TimerMessageStore.
"""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import NamedTuple

LAYOUT = Struct(">iqiqiqiiq")
UNIT_SIZE = LAYOUT.size
BLANK_MAGIC = (0xBBCCDDEE ^ (1880681586 + 8)) - (1 << 32)
"""Says that the rest of a file is empty."""
BLANK_LAYOUT = Struct(">iqi")
NO_UNIT = -1
"""What leads nowhere."""
_MAGIC_MAX = 0xF


class Magic(IntFlag):
    """What is to be done with a message when its slot is due."""

    DEFAULT = 1
    ROLL = 2
    """Its time lies beyond the window: it is put into the queue once more."""
    DELETE = 4
    """It takes another message back."""


class Unit(NamedTuple):
    """One unit. Times are milliseconds, offsets and sizes bytes."""

    size: int
    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    physical_offset: int
    message_size: int
    topic_hash: int
    reserved: int = 0

    @property
    def due_ms(self) -> int:
        """The time of its slot."""
        return self.write_ms + self.delay_ms

    @property
    def weight(self) -> int:
        """What it adds to its slot's number of messages: one that takes another back leaves one less."""
        return -1 if self.magic & Magic.DELETE else 1


def parse_unit(buffer: bytes | bytearray | memoryview, at: int = 0) -> Unit:
    """Return what stands there, whole or not (see `is_whole`)."""
    return Unit(*LAYOUT.unpack_from(buffer, at))


def is_whole(unit: Unit, position: int) -> bool:
    """Return True if a unit may lie at `position` in the log.

    Args:
        position: bytes in the log; what comes before a unit in its slot lies before it in the log.
    """
    # Every unit is asked when it is due, twice: one pass over the fields takes half of what their names would.
    size, previous, magic, write_ms, delay_ms, physical_offset, message_size, _, _ = unit
    return (
        size == UNIT_SIZE
        and 0 <= magic <= _MAGIC_MAX
        and NO_UNIT <= previous < position
        and physical_offset >= 0
        and message_size > 0
        and write_ms + delay_ms > 0
    )
