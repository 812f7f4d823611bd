"""The file-system seam of the store: everything that touches a file goes through a `Disk`.

`local_disk` has the real one; `orbitmq.testing.fake_disk` loses power.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

Buffer = mmap.mmap | bytearray


class DiskFile(Protocol):
    """A file of fixed size whose bytes are memory."""

    @property
    def buffer(self) -> Buffer:
        """The file's bytes; slices of it that are still alive keep the memory, not the file. Not for one of many."""

    def read(self, start: int, size: int) -> bytes:
        """Return a copy of these bytes; zeros where the file was cut from outside. Touches no hole."""

    def write(self, start: int, data: bytes) -> None:
        """Write these bytes without the buffer.

        Raises:
            NotWritten: the disk did not take all of them.
        """

    def reserve(self, start: int, size: int) -> None:
        """Make the disk keep room for these bytes: a write into a hole of a full disk would kill the process.

        Raises:
            OSError: ENOSPC and its like.
        """

    def blank(self, start: int, size: int) -> None:
        """Do the same by writing zeros there: more work now, and less at each write and each sync that follows.

        Raises:
            OSError: ENOSPC and its like.
        """

    def is_whole(self) -> bool:
        """Return True if the file still has its size: a look behind its end through the buffer kills the process."""

    def sync(self) -> None:
        """Return when the file, and its name, are on the disk. May run on another thread.

        Raises:
            DescriptorShortage: the disk was not asked.
            FileCut: bytes are gone that were to be synced.
            OSError: the disk did not take it.
        """

    def zero_from(self, position: int) -> None:
        """Make everything from `position` to the end read as zeros."""

    def data_end(self, start: int) -> int:
        """Return where the zeros at the file's end begin, at least `start`. Touches no hole."""

    def hole_start(self) -> int:
        """Return where the hole at the file's end begins, the file's size without one.

        On a full tmpfs, even a look into a hole through the buffer kills the process; `reserve` makes it an error.
        """

    def close(self) -> None:
        """Give the file back."""


class Lock(Protocol):
    """A lock on a directory, held until closed."""

    def close(self) -> None:
        """Let go."""


class BulkSync(Protocol):
    """One sync for many files, begun before anything is written to them."""

    def run(self, files: Collection[DiskFile]) -> None:
        """Return when these files, and their names, are on the disk. They may have been written since it was begun only.

        Raises: as `DiskFile.sync`; any of them may be the one that failed.
        """

    def close(self) -> None:
        """End it."""


class Disk(Protocol):
    """What the store needs of a file system."""

    def open(self, path: Path, size: int, *, is_one_of_many: bool = False) -> DiskFile:
        """Open a file of `size` bytes; it is made, or brought to its size with zeros, where needed.

        Args:
            is_one_of_many: a small file among thousands: it has no buffer, is read and written through its descriptor,
                and no megabytes are read ahead at a first touch.
        """

    def first_file(self, directory: str, name: str, following: str, size: int) -> bytes | None:
        """Return what stands before the zeros at the end of a log's file, when it is the first and the last one.

        A start looks at thousands of them: one short look each, at no more than a page, and none at the directory's list.

        Args:
            name: of the first file.
            following: the name that the next one would have.

        Returns:
            None: it is not there, the next one is, it has another size, or more than a page in it.

        Raises:
            OSError: it cannot be opened for writing, or not be read.
        """

    def bulk_sync(self, directory: Path) -> BulkSync | None:
        """Begin to write to many files somewhere in a directory, which is made if need be.

        Returns:
            None: each file has to be synced on its own; nothing else is known to tell of every lost write.
        """

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return the files of a directory, sorted by name, with their sizes in bytes; none when it does not exist."""

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted; none when it does not exist."""

    def size(self, path: Path) -> int:
        """Return a file's size in bytes."""

    def exists(self, path: Path) -> bool:
        """Return True if a file is there."""

    def read(self, path: Path) -> bytes:
        """Return a small file's content, empty when it does not exist."""

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file in place and sync it and its name."""

    def remove(self, path: Path) -> None:
        """Remove a file, or a directory with everything in it, and sync the directory that held it."""

    def unlink(self, path: Path) -> None:
        """Remove a file if it is there, and do not wait for the disk: a power cut may bring it back."""

    def used_ratio(self, directory: Path) -> float:
        """Return how much of the file system is used, 0 to 1, as `df` says. Raises OSError."""

    def move(self, path: Path, target: Path) -> None:
        """Give a file another place on the same disk, and sync both directories."""

    def lock(self, path: Path) -> Lock:
        """Take the lock that `path` stands for. Raises StoreError when another process holds it."""


def write_whole(disk: Disk, path: Path, content: bytes) -> None:
    """Write a small file so that a power cut leaves the old one or the new one, and no mixture. Raises OSError."""
    fresh = path.with_name(path.name + ".tmp")
    disk.write(fresh, content)
    disk.move(fresh, path)
