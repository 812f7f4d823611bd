"""A log of bytes in files of equal size, each named by the offset of its first byte (Java: MappedFileQueue)."""

from __future__ import annotations

from pathlib import Path

from orbitmq.errors import DamagedLog, DescriptorShortage, StoreError, SyncFailed
from orbitmq.store.disk import Disk
from orbitmq.store.log.open_files import OpenFiles
from orbitmq.store.log.segment import NAME_LENGTH, Segment, segment_name

_FIRST_NAME = segment_name(0)


class SegmentLog:
    """The segments of one log, oldest first, without a gap.

    Args:
        segment_size: bytes of each file.
        reserve_size: bytes of disk room that are asked for at a time.
        is_one_of_many: see Disk.open.
        open_files: where those are counted that are open; None: nowhere, and they stay open.
    """

    __slots__ = (
        "_directory", "_disk", "_is_one_of_many", "_open_files", "_reserve_size", "segment_size", "segments",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        segment_size: int,
        reserve_size: int = 0,
        *,
        is_one_of_many: bool = False,
        open_files: OpenFiles | None = None,
    ) -> None:
        self.segments: list[Segment] = []
        self._directory = str(directory)
        self.segment_size = segment_size
        self._disk = disk
        self._open_files = open_files
        self._reserve_size = reserve_size
        self._is_one_of_many = is_one_of_many

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return Path(self._directory)

    @property
    def base(self) -> int:
        """Offset of the first byte that there is."""
        return self.segments[0].base if self.segments else 0

    @property
    def end(self) -> int:
        """Offset after the last segment."""
        return self.segments[-1].end if self.segments else 0

    def written_end(self) -> int:
        """Return the offset behind which there is only the last file's hole."""
        return self.segments[-1].base + self.segments[-1].file.hole_start() if self.segments else 0

    def load(self) -> None:
        """Find the segments that are there.

        Raises:
            DamagedLog: a gap between the files, or one of them was cut short.
            StoreError: the files were written with another size than configured.
        """
        found = {
            int(name): size
            for name, size in self._disk.sizes(self.directory).items()
            if len(name) == NAME_LENGTH and name.isdigit()
        }
        self.segments = [self._segment(base) for base in found]
        for position, segment in enumerate(self.segments):
            expected = self.segments[0].base + position * self.segment_size
            if segment.base != expected:
                raise DamagedLog(
                    f"{self.directory}: the file of offset {expected} is missing before {segment.path.name}"
                )
        sizes = list(found.values())
        # The last one may be short: making it was interrupted, or cutting off a torn tail was.
        for segment, size, is_short in zip(self.segments, sizes, check_sizes(sizes, self.segment_size), strict=True):
            if is_short:
                raise DamagedLog(
                    f"{segment.path} has {size} bytes, configured are {self.segment_size}: it was cut short"
                )
            if size > self.segment_size or (size < self.segment_size and segment is not self.segments[-1]):
                raise StoreError(
                    f"{segment.path} has {size} bytes, configured are {self.segment_size}: "
                    "open the store with the segment size that it was written with"
                )
            segment.has_size = size == self.segment_size

    def load_first(self) -> bytes | None:
        """Find the first segment, when it is the only one and has its size; return what stands before the zeros at its end.

        Returns:
            None: `load` tells what is there.
        """
        content = self._disk.first_file(
            self._directory, _FIRST_NAME, segment_name(self.segment_size), self.segment_size
        )
        if content is not None:
            segment = self._segment(0)
            segment.has_size = True
            self.segments = [segment]
        return content

    def find(self, offset: int) -> Segment | None:
        """Return the segment that holds the byte at `offset`."""
        if not self.segments or offset < self.segments[0].base:
            return None
        index = (offset - self.segments[0].base) // self.segment_size
        return self.segments[index] if index < len(self.segments) else None

    def extend(self, base: int | None = None, *, is_derived: bool = False) -> Segment:
        """Append a segment and open its file.

        The file before it is synced first, name included: a power cut leaves no gap between files.

        Args:
            base: where an empty log begins, in bytes; otherwise it goes on where it ends.
            is_derived: nothing is synced; where a power cut leaves a gap, the log is rebuilt.

        Raises:
            OSError: the disk does not take it.
            SyncFailed: the file before it could not be synced, although the disk was asked.
        """
        if self.segments and not is_derived:
            try:
                self.segments[-1].file.sync()
            except DescriptorShortage:
                raise
            except OSError as error:
                # The kernel reports a lost write once: no later sync of the file would say so again.
                raise SyncFailed(error) from error
        if self.segments:
            base = self.end
        segment = self._segment(base or 0)
        _ = segment.file  # opens it: an error comes before the segment counts as part of the log
        self.segments.append(segment)
        return segment

    def truncate(self, end: int) -> None:
        """Cut the log at `end`: later segments go, and the segment that holds it reads as zeros from there on.

        Stale bytes would otherwise look like records once the log grows past them again (apache/rocketmq#10666).
        """
        self.drop_behind(end)
        if self.segments and end < self.segments[-1].end:
            last = self.segments[-1]
            last.zero_from(end - last.base)

    def detach_first(self) -> Segment:
        """Let the log begin with its second segment, and return the first: its file is the caller's to remove."""
        return self.segments.pop(0)

    def attach_first(self, segment: Segment) -> None:
        """Take a detached segment back, whose file cannot be removed: the next start must not find a gap."""
        assert segment.end == self.base, "nothing lies between it and the others"
        self.segments.insert(0, segment)

    def drop_behind(self, end: int) -> None:
        """Delete the segments that begin behind `end`, the last one first."""
        while self.segments and self.segments[-1].base > end:
            self._drop(self.segments[-1])
            self.segments.pop()

    def sync(self, start: int, end: int) -> None:
        """Return when the bytes from `start` to `end` are on the disk. Raises OSError."""
        for segment in self.between(start, end):
            segment.file.sync()

    def between(self, start: int, end: int) -> list[Segment]:
        """Return the segments that hold bytes from `start` to `end`."""
        if start >= end:
            return []
        return [segment for segment in self.segments if segment.base < end and segment.end > start]

    def remove(self) -> None:
        """Delete the directory, with whatever is in it."""
        self.close()
        self.segments.clear()
        self._disk.remove(self.directory)

    def close(self) -> None:
        """Close every file."""
        for segment in self.segments:
            segment.close()

    def _drop(self, segment: Segment) -> None:
        segment.close()
        self._disk.remove(segment.path)

    def _segment(self, base: int) -> Segment:
        return Segment(
            self._disk,
            self._directory,
            base,
            self.segment_size,
            self._reserve_size,
            is_one_of_many=self._is_one_of_many,
            open_files=self._open_files,
        )


def check_sizes(sizes: list[int], configured: int) -> list[bool]:
    """Say of each file whether it was cut short, not written with another size: others are as configured. Pure.

    The last one may be short for good reasons.
    """
    has_witness = configured in sizes
    return [
        size < configured and (has_witness or not size) and number < len(sizes) - 1 for number, size in enumerate(sizes)
    ]
