"""The place for what recovery cuts off: bytes are moved aside before they leave a log, never destroyed.

`quarantine/commitlog-<offset>-<n>` holds the bytes as they were, `<the same>.json` says where they lay and why they went.
Nothing reads them back by itself. Source: docs/explain/durability.md.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import StoreError
from orbitmq.store.disk import Disk
from orbitmq.store.log.segment import Segment, segment_name

log = logging.getLogger(__name__)

_COPY_SIZE = 1 << 20


class SetAside(NamedTuple):
    """Bytes that were moved aside: where they lay in their log, how many, why, and the file that has them now."""

    offset: int
    length: int
    reason: str
    path: Path


class Quarantine:
    """Files that keep what was cut off a log.

    Args:
        directory: made with the first file.
        log_name: the log's own directory, the first part of every name.
    """

    def __init__(self, disk: Disk, directory: Path, log_name: str) -> None:
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
        path = self._free_path(offset)
        try:
            copy = self._disk.open(path, length)
            try:
                copy.reserve(0, length)
                for at in range(0, length, _COPY_SIZE):
                    stop = min(at + _COPY_SIZE, length)
                    copy.buffer[at:stop] = bytes(segment.buffer[start + at : start + stop])
                copy.sync()
            finally:
                copy.close()
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
            self._disk.move(segment.path, path)
            return self._note(SetAside(segment.base, length, reason, path))
        except OSError as error:
            raise self._refusal(segment.base, length, reason, error) from error

    def _free_path(self, offset: int) -> Path:
        number = 1
        while self._disk.exists(path := self._directory / f"{self._log_name}-{segment_name(offset)}-{number}"):
            number += 1
        return path

    def _note(self, taken: SetAside) -> SetAside:
        note = {"log": self._log_name, "offset": taken.offset, "length": taken.length, "reason": taken.reason}
        self._disk.write(taken.path.with_name(taken.path.name + ".json"), json.dumps(note).encode())
        log.warning(
            "cut %d bytes off the %s at %d (%s); they are in %s",
            taken.length, self._log_name, taken.offset, taken.reason, taken.path,
        )  # fmt: skip
        return taken

    def _refusal(self, offset: int, length: int, reason: str, error: OSError) -> StoreError:
        return StoreError(
            f"{length} bytes of the {self._log_name} at {offset} are no records ({reason}), and {self._directory} does "
            f"not take them: {error}. Nothing was cut; make room and start again"
        )
