"""The epochs of a log: which part of it each master has written, and up to where two logs are one. Pure.

State: none. In: the starts of epochs, of this log and of a master's. Out: the place where this log has to be cut to be a copy,
the starts afterwards, and the text of the file that keeps them (`epochFileCheckpoint`, as Java writes it).

Two masters never write in one epoch, so two logs that have an epoch with the same start are equal up to where the shorter of
both parts ends.

Source: docs/formats/replication.md; Java EpochFileCache, CheckpointFile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from orbitmq.errors import HeaderError

_NO_END = 2**63 - 1
_ENTRIES_MAX = 100_000
_CRC_MASK = 0x7FFFFFFF


class EpochStart(NamedTuple):
    """A master's epoch, and where in the log (bytes) its part begins."""

    epoch: int
    start: int


Epochs = tuple[EpochStart, ...]
"""Ascending in both."""


def common_end(own: Sequence[EpochStart], master: Sequence[EpochStart], master_end: int) -> int | None:
    """Return up to where a log is its master's: it has to be cut there if it is longer; None: the logs have nothing in common.

    Args:
        master_end: where the master's log ends.
    """
    theirs = {start: _end_of(master, number, master_end) for number, start in enumerate(master)}
    for number in reversed(range(len(own))):
        if (their_end := theirs.get(own[number])) is not None:
            return min(their_end, _end_of(own, number, _NO_END))
    # A master whose machine lost all of the group's first epoch: both logs begin with nothing.
    return own[0].start if own and master and own[0].start == master[0].start else None


def begin_epoch(own: Sequence[EpochStart], epoch: int, log_start: int, log_end: int) -> Epochs:
    """Return the epochs of a master's log that begins to write in `epoch` at the log's end.

    What this log has no message of is dropped. A log without epochs was written before there were any: all of it counts
    as this one's.
    """
    if own and own[-1].epoch == epoch:
        return tuple(own)  # it has begun before: the process was started again
    before = tuple(entry for entry in own if entry.start < log_end and entry.epoch < epoch)
    return (*before, EpochStart(epoch, log_end if before else log_start))


def epoch_at(epochs: Sequence[EpochStart], log_end: int) -> int:
    """Return the epoch of the last record of a log, 0 without one."""
    return max((entry.epoch for entry in epochs if entry.start < log_end), default=0)


def format_epochs(epochs: Sequence[EpochStart]) -> bytes:
    """Encode the file: how many there are, a checksum of their lines, the lines."""
    lines = "".join(f"{entry.epoch}-{entry.start}\n" for entry in epochs).encode()
    return b"%d\n%d\n" % (len(epochs), crc32(lines) & _CRC_MASK) + lines


def parse_epochs(content: bytes) -> Epochs:
    """Decode the file.

    Raises:
        HeaderError: it is torn, or no such file.
    """
    try:
        count, checksum, *lines, rest = content.decode("ascii").split("\n")
        entries = tuple(EpochStart(*map(int, line.split("-"))) for line in lines)
        is_whole = len(entries) == int(count) <= _ENTRIES_MAX and not rest
        body = "".join(f"{line}\n" for line in lines).encode()
        if int(checksum) and int(checksum) != crc32(body) & _CRC_MASK:
            is_whole = False
    except (ValueError, TypeError) as error:
        raise HeaderError(f"epochs: {error}") from None
    if not is_whole or list(entries) != sorted(set(entries)) or any(min(entry) < 0 for entry in entries):
        raise HeaderError("epochs: the file is not what was written")
    return entries


def _end_of(epochs: Sequence[EpochStart], number: int, log_end: int) -> int:
    return epochs[number + 1].start if number + 1 < len(epochs) else log_end
