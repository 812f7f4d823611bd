"""One file of a log: fixed size, named by the offset of its first byte."""

from __future__ import annotations

from pathlib import Path

from orbitmq.errors import FileCut
from orbitmq.store.disk import Buffer, Disk, DiskFile
from orbitmq.store.log.open_files import OpenFiles

NAME_LENGTH = 20


def segment_name(base: int) -> str:
    """Return the file name of the segment that starts at `base` (bytes in its log)."""
    return f"{base:0{NAME_LENGTH}d}"


class Segment:
    """A file of a log, opened when it is used, and closed when too many are open.

    Readers get copies: slices of the buffer do not leave the store, so that a segment can be closed at any time. Who
    writes, or syncs on another thread, holds it open meanwhile.

    Args:
        base: offset of the first byte in the log.
        size: bytes of the file.
        reserve_size: bytes of disk room that are asked for at a time.
        is_one_of_many: see Disk.open.
        open_files: where it is counted while it is open, and closed when it is one too many.
    """

    __slots__ = (
        "_directory", "_disk", "_file", "_is_leaving", "_is_one_of_many", "_open_files", "_reserve_size", "_reserved", "base", "end", "has_size",
        "holders", "size", "was_used",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        base: int,
        size: int,
        reserve_size: int = 0,
        *,
        is_one_of_many: bool = False,
        open_files: OpenFiles | None = None,
    ) -> None:
        self.base = base
        self.size = size
        self.end = base + size
        self.was_used = False
        self.has_size = False
        """The file was seen in its full size: when it is opened again it must have it still."""
        self.holders = 0
        self._directory = directory
        self._disk = disk
        self._open_files = open_files
        self._reserve_size = reserve_size
        self._is_one_of_many = is_one_of_many
        self._file: DiskFile | None = None
        self._is_leaving = False
        self._reserved = 0

    @property
    def path(self) -> Path:
        """The file's path."""
        return Path(self._directory, segment_name(self.base))

    @property
    def descriptor_count(self) -> int:
        """How many descriptors the open file takes: a map holds one of its own."""
        return 1 if self._is_one_of_many else 2

    @property
    def map_count(self) -> int:
        """How many memory maps the open file takes."""
        return 0 if self._is_one_of_many else 1

    @property
    def file(self) -> DiskFile:
        """The open file. Raises FileCut where bytes are gone that were in it."""
        self.was_used = True
        if self._file is None:
            if self.has_size and not self._is_one_of_many:
                self._check_size()
            self._file = self._disk.open(self.path, self.size, is_one_of_many=self._is_one_of_many)
            self.has_size = True
            if self._open_files is not None:
                self._open_files.entered(self)
        return self._file

    @property
    def buffer(self) -> Buffer:
        """The file's bytes."""
        return self.file.buffer

    def _check_size(self) -> None:
        """Refuse a file that was cut or removed from outside while it was closed: opening would fill it with zeros."""
        if not self._disk.exists(self.path) or self._disk.size(self.path) != self.size:
            raise FileCut(f"{self.path} was cut short or removed from outside")

    def hold(self) -> DiskFile:
        """Open the file and keep it open until `release`."""
        file = self.file
        self.holders += 1
        return file

    def release(self) -> None:
        """Release; the last release closes what was to be closed meanwhile."""
        self.holders -= 1
        if self._is_leaving and not self.holders:
            self.close()

    def reserve(self, position: int) -> int:
        """Make sure that bytes before `position` (within the segment) can be written.

        Returns:
            The position up to which there is room now, at least `position`.

        Raises:
            OSError: the disk has none.
        """
        if position > self._reserved:
            end = min(-(-position // self._reserve_size) * self._reserve_size, self.size)
            # The next pages are written with zeros before they are stored into: a store then meets a page that is
            # there, where a fault would have to make it in the middle of an append.
            self.file.blank(self._reserved, end - self._reserved)
            self._reserved = end
        return self._reserved

    def reserve_from(self, position: int) -> None:
        """Begin reserving at `position`: what lies before it has been written already."""
        self._reserved = position

    def zero_from(self, position: int) -> None:
        """Make everything from `position` to the segment's end read as zeros."""
        self.file.zero_from(position)
        self._reserved = min(self._reserved, position)

    def take_file(self) -> DiskFile | None:
        """Give up the open file, if there is one: its receiver closes it, on whatever thread."""
        file, self._file = self._file, None
        if file is not None and self._open_files is not None:
            self._open_files.left(self)
        return file

    def close(self) -> None:
        """Close the file, or let the last holder do it; using the segment again opens it again."""
        self._is_leaving = self._file is not None and self.holders > 0
        if not self._is_leaving and (file := self.take_file()) is not None:
            file.close()
