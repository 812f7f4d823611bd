"""The place for what recovery cuts off: bytes are moved aside before they leave a log, never destroyed.

`quarantine/commitlog-<offset>-<n>` holds the bytes as they were, `<the same>.json` says where they lay and why they went.
The same bytes of the same place are kept once, however often a start is interrupted. Nothing reads them back by itself.
Source: docs/explain/durability.md.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from orbitmq.clock import Clock, now_ms
from orbitmq.errors import StoreError
from orbitmq.store.disk import Buffer, Disk
from orbitmq.store.log.segment import Segment, segment_name

log = logging.getLogger(__name__)

NOTE_ENDING = ".json"
REPLACED = "the master has other records there"
"""Why a member of a controlled group cuts its log: what it alone had was never acknowledged."""
REPLACED_TOLD_MS = 86_400_000
"""How long an operator is told of records that another master has replaced."""
_COPY_SIZE = 1 << 20


class SetAside(NamedTuple):
    """Bytes that were moved aside: where they lay in their log, how many, why, and the file that has them now."""

    offset: int
    length: int
    reason: str
    path: Path


class _Kept(NamedTuple):
    """A file of the quarantine; `replaced_at_ms`: when another master's records took its place; None: it was cut for another reason."""

    size: int
    replaced_at_ms: int | None


class Quarantine:
    """Files that keep what was cut off a log.

    Args:
        directory: made with the first file.
        log_name: the log's own directory, the first part of every name.
        clock: milliseconds since 1970.
    """

    def __init__(self, disk: Disk, directory: Path, log_name: str, clock: Clock = now_ms) -> None:
        self._clock = clock
        self._notes: dict[str, int | None] = {}
        """When each file was cut because another master has other records there; None: for another reason."""
        self._disk = disk
        self._directory = directory
        self._log_name = log_name

    def take_tail(self, segment: Segment, offset: int, reason: str) -> SetAside | None:
        """Copy what lies in a segment from `offset` on; None when there are only zeros.

        Raises:
            StoreError: the disk does not take the copy; nothing may be cut then.
        """
        start = offset - segment.base
        length = segment.file.data_end(start) - start
        if length <= 0:
            return None
        try:
            path = self._kept_copy(segment, start, length) or self._copy(segment, start, length)
            return self._note(SetAside(offset, length, reason, path))
        except OSError as error:
            raise self._refusal(offset, length, reason, error) from error

    def take_segment(self, segment: Segment, reason: str) -> SetAside | None:
        """Move a whole segment; None, and the file stays, when there are only zeros. Raises as `take_tail`."""
        length = segment.file.data_end(0)
        if length <= 0:
            return None
        path = self._free_path(segment.base)
        try:
            segment.close()
            segment.has_size = False  # opened again, the file is a new one
            self._disk.move(segment.path, path)
            return self._note(SetAside(segment.base, length, reason, path))
        except OSError as error:
            raise self._refusal(segment.base, length, reason, error) from error

    def warning(self) -> str | None:
        """Return what its operator should know: how much it keeps that may be messages, None when nothing."""
        size = sum(kept.size for kept in self._kept() if kept.replaced_at_ms is None)
        return f"{self._directory} keeps {size} bytes that recovery has cut off the {self._log_name}" if size else None

    def replaced(self) -> str | None:
        """Return what was cut within a day because another master has other records there; None: nothing."""
        since_ms = self._clock() - REPLACED_TOLD_MS
        size = sum(kept.size for kept in self._kept() if (kept.replaced_at_ms or 0) > since_ms)
        return (
            f"{size} bytes of the {self._log_name} that this broker alone had were replaced by another master's: they were "
            f"never acknowledged, {self._directory} keeps them, and they may be deleted"
            if size
            else None
        )

    def size(self) -> int:
        """Return how many bytes it keeps."""
        return sum(kept.size for kept in self._kept())

    def _kept(self) -> Iterator[_Kept]:
        for name in self._disk.names(self._directory):
            if name.startswith(f"{self._log_name}-") and not name.endswith(NOTE_ENDING):
                with suppress(OSError):  # it is being deleted just now
                    yield _Kept(self._disk.size(self._directory / name), self._replaced_at_ms(name))

    def _replaced_at_ms(self, name: str) -> int | None:
        if name not in self._notes:
            try:
                found = json.loads(self._disk.read(self._directory / (name + NOTE_ENDING)))
                at_ms = int(found.get("atMs", 0))  # notes of earlier versions have no time
                self._notes[name] = at_ms if found["reason"] == REPLACED else None
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                return None  # it is not written yet, or cannot be read
        return self._notes[name]

    def _copy(self, segment: Segment, start: int, length: int) -> Path:
        """Copy a part of a segment: under a name of its own until it is whole, so that a half copy is begun again."""
        path = self._free_path(segment.base + start)
        unfinished = path.with_name(f"{self._log_name}-unfinished")
        copy = self._disk.open(unfinished, length)
        try:
            copy.reserve(0, length)
            for at in range(0, length, _COPY_SIZE):
                stop = min(at + _COPY_SIZE, length)
                copy.buffer[at:stop] = bytes(segment.buffer[start + at : start + stop])
            copy.sync()
        finally:
            copy.close()
        self._disk.move(unfinished, path)
        return path

    def _kept_copy(self, segment: Segment, start: int, length: int) -> Path | None:
        """Return the file that has these bytes already, from a start that ended before they were cut."""
        for path in takewhile(self._disk.exists, self._paths(segment.base + start)):
            if self._disk.size(path) == length:
                kept = self._disk.open(path, length)
                try:
                    if _is_copy(kept.buffer, segment.buffer, start, length):
                        return path
                finally:
                    kept.close()
        return None

    def _paths(self, offset: int) -> Iterator[Path]:
        """Yield the names that bytes of this offset may have, in order."""
        return (self._directory / f"{self._log_name}-{segment_name(offset)}-{number}" for number in count(1))

    def _free_path(self, offset: int) -> Path:
        return next(path for path in self._paths(offset) if not self._disk.exists(path))

    def _note(self, taken: SetAside) -> SetAside:
        note = {"log": self._log_name, "offset": taken.offset, "length": taken.length, "reason": taken.reason}
        note["atMs"] = self._clock()
        self._notes.pop(taken.path.name, None)
        self._disk.write(taken.path.with_name(taken.path.name + NOTE_ENDING), json.dumps(note).encode())
        log.warning(
            "cut %d bytes off the %s at %d (%s); they are in %s",
            taken.length, self._log_name, taken.offset, taken.reason, taken.path,
        )  # fmt: skip
        return taken

    def _refusal(self, offset: int, length: int, reason: str, error: OSError) -> StoreError:
        return StoreError(
            f"{length} bytes of the {self._log_name} at {offset} are not records ({reason}), and {self._directory} does "
            f"not take them: {error}. Nothing was cut; make room and start again"
        )


def _is_copy(kept: Buffer, original: Buffer, start: int, length: int) -> bool:
    """Compare a file with a part of a segment, a piece at a time: both may be as large as a segment."""
    for at in range(0, length, _COPY_SIZE):
        stop = min(at + _COPY_SIZE, length)
        if bytes(kept[at:stop]) != bytes(original[start + at : start + stop]):
            return False
    return True
