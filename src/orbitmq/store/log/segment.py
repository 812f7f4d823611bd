"""One file of a log: fixed size, named by the offset of its first byte."""

from __future__ import annotations

from pathlib import Path

from orbitmq.store.disk import Buffer, Disk, DiskFile

NAME_LENGTH = 20


def segment_name(base: int) -> str:
    """Return the file name of the segment that starts at `base` (bytes in its log)."""
    return f"{base:0{NAME_LENGTH}d}"


class Segment:
    """A file of a log, opened at first use.

    Readers get copies: slices of the buffer do not leave the store, so that a segment can be closed at any time.

    Args:
        base: offset of the first byte in the log.
        size: bytes of the file.
        reserve_size: bytes of disk room that are asked for at a time.
        is_one_of_many: see Disk.open.
    """

    def __init__(
        self, disk: Disk, directory: Path, base: int, size: int, reserve_size: int, *, is_one_of_many: bool = False
    ) -> None:
        self.base = base
        self.size = size
        self.end = base + size
        self.path = directory / segment_name(base)
        self._disk = disk
        self._reserve_size = reserve_size
        self._is_one_of_many = is_one_of_many
        self._file: DiskFile | None = None
        self._reserved = 0

    @property
    def file(self) -> DiskFile:
        """The open file."""
        if self._file is None:
            self._file = self._disk.open(self.path, self.size, is_one_of_many=self._is_one_of_many)
        return self._file

    @property
    def buffer(self) -> Buffer:
        """The file's bytes."""
        return self.file.buffer

    def reserve(self, position: int) -> int:
        """Make sure that bytes before `position` (within the segment) can be written.

        Returns:
            The position up to which there is room now, at least `position`.

        Raises:
            OSError: the disk has none.
        """
        if position > self._reserved:
            end = min(-(-position // self._reserve_size) * self._reserve_size, self.size)
            # A big file's next pages are written with zeros before anybody stores into them: a store then meets a page
            # that is there, where a fault would have to make it in the middle of an append. Small files only claim
            # their blocks: thousands of them must not fill the page cache with zeros.
            reserve = self.file.reserve if self._is_one_of_many else self.file.blank
            reserve(self._reserved, end - self._reserved)
            self._reserved = end
        return self._reserved

    def reserve_from(self, position: int) -> None:
        """Begin reserving at `position`: what lies before it has been written already."""
        self._reserved = position

    def zero_from(self, position: int) -> None:
        """Make everything from `position` to the segment's end read as zeros."""
        self.file.zero_from(position)
        self._reserved = min(self._reserved, position)

    def release(self) -> DiskFile | None:
        """Give up the open file, if there is one: whoever gets it closes it, on whatever thread."""
        file, self._file = self._file, None
        return file

    def close(self) -> None:
        """Close the file; using the segment again opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
