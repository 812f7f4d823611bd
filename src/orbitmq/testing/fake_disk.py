"""A disk that loses power, fills up and fails on request: the store's `Disk`, in memory.

What was written but not synced may reach the platter or not, sector by sector; what was synced stays. Of what is under
way when the power goes, or the process is killed, any part may have happened.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from pathlib import Path
from random import Random

from orbitmq.errors import NotWritten, StoreError
from orbitmq.store.disk import DiskFile

SECTOR_SIZE = 512
_PAGE_SIZE = 4096


class PowerCut(BaseException):
    """The power goes at this very operation. Not an Exception: no code under test may swallow it."""


class FakeFile:
    """A file in memory (DiskFile)."""

    def __init__(self, disk: FakeDisk, path: Path, size: int) -> None:
        self.buffer = bytearray(size)
        self.durable: bytes | None = None
        """What a power cut leaves; None: not even the name."""
        self.reserved: set[int] = set()
        self.was_cut = False
        """Another program has cut the file."""
        self.is_going = False
        """The end came while the file was being removed."""
        self.target: Path | None = None
        """The end came while the file was being moved there."""
        self._disk = disk
        self._path = path

    def read(self, start: int, size: int) -> bytes:
        """Read (see DiskFile)."""
        return bytes(self.buffer[start : start + size]).ljust(size, b"\0")

    def write(self, start: int, data: bytes) -> None:
        """Write (see DiskFile); takes room as `reserve` does, and fails as `pwrite` does."""
        try:
            self._disk.act("pwrite", self._path)
            self._take_room(start, len(data))
        except OSError as error:
            raise NotWritten(error.errno, error.strerror) from error
        self.buffer[start : start + len(data)] = data

    def reserve(self, start: int, size: int) -> None:
        """Count the sectors against the disk's capacity (see DiskFile)."""
        self._disk.act("reserve", self._path)
        self._take_room(start, size)

    def blank(self, start: int, size: int) -> None:
        """Reserve, and write zeros (see DiskFile)."""
        self.reserve(start, size)
        self.buffer[start : start + size] = bytes(size)

    def is_whole(self) -> bool:
        """Say what the test has set (see DiskFile)."""
        return not self.was_cut

    def sync(self) -> None:
        """Make the content survive (see DiskFile)."""
        self._disk.act("sync", self._path)
        self.durable = bytes(self.buffer)

    def zero_from(self, position: int) -> None:
        """Zero the rest (see DiskFile)."""
        self._disk.act("zero", self._path)
        self.buffer[position:] = bytes(len(self.buffer) - position)

    def data_end(self, start: int) -> int:
        """Look for the last byte (see DiskFile)."""
        return max(start, len(self.buffer.rstrip(b"\0")))

    def hole_start(self) -> int:
        """Return the size: memory has no holes (see DiskFile)."""
        return len(self.buffer)

    def close(self) -> None:
        """Do nothing: the content stays with the disk."""

    def _take_room(self, start: int, size: int) -> None:
        wanted = set(range(start // SECTOR_SIZE, -(-(start + size) // SECTOR_SIZE))) - self.reserved
        self._disk.take_room(len(wanted) * SECTOR_SIZE)
        self.reserved |= wanted

    def survivor(self, random: Random) -> bytes | None:
        """Return what a power cut leaves of the file."""
        if (self.durable is None or self.is_going) and random.random() < 0.5:
            return None
        survivor = bytearray(bytes(len(self.buffer)) if self.durable is None else self.durable)
        if len(survivor) != len(self.buffer) and random.random() < 0.5:
            survivor = survivor[: len(self.buffer)].ljust(len(self.buffer), b"\0")
        for start in range(0, len(survivor), SECTOR_SIZE):
            end = min(start + SECTOR_SIZE, len(survivor))
            if self.buffer[start:end] != survivor[start:end] and random.random() < 0.5:
                survivor[start:end] = self.buffer[start:end].ljust(end - start, b"\0")
        return bytes(survivor)


class FakeBulkSync:
    """One sync of many files; no more survives than its caller asks for (BulkSync)."""

    def __init__(self, disk: FakeDisk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory

    def run(self, files: Collection[DiskFile]) -> None:
        """Make the files survive; a power cut leaves any of them (see BulkSync)."""
        for file in files:
            file.sync()

    def close(self) -> None:
        """Do nothing."""


class FakeLock:
    """A lock that only its disk knows (Lock)."""

    def __init__(self, disk: FakeDisk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def close(self) -> None:
        """Let go."""
        self._disk.locked.discard(self._path)


class FakeDisk:
    """A file system in memory (Disk).

    Args:
        capacity: bytes that `reserve` gives out before the disk is full.
    """

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.files: dict[Path, FakeFile] = {}
        self.locked: set[Path] = set()
        self.capacity = capacity
        self.failures: dict[str, OSError] = {}
        """Operation (open, reserve, pwrite, sync, zero, write, remove, move) to the error that it raises, until taken out."""
        self.usage = 0.0
        """What `used_ratio` says."""
        self.unlinked: dict[Path, FakeFile] = {}
        """Files whose removal was not synced: a power cut brings some of them back."""
        self.has_bulk_sync = True
        """False: each file is synced on its own."""
        self.operation_count = 0
        self.cut_at: int | None = None
        """The number of the operation at which the power goes."""

    def open(self, path: Path, size: int, *, is_one_of_many: bool = False) -> FakeFile:
        """Open a file (see Disk)."""
        self.act("open", path)
        file = self.files.get(path)
        if file is None:
            file = self.files[path] = FakeFile(self, path, size)
        if len(file.buffer) != size:
            file.buffer = file.buffer[:size].ljust(size, b"\0")
        return file

    def bulk_sync(self, directory: Path) -> FakeBulkSync | None:
        """Begin to write to many files (see Disk)."""
        return FakeBulkSync(self, directory) if self.has_bulk_sync else None

    def first_file(self, directory: str, name: str, following: str, size: int) -> bytes | None:
        """Look at a file (see Disk)."""
        path = Path(directory, name)
        if path not in self.files or Path(directory, following) in self.files:
            return None
        self.act("open", path)
        content = bytes(self.files[path].buffer)
        shown = content.rstrip(b"\0")
        return shown if len(content) == size and len(shown) <= _PAGE_SIZE else None

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory (see Disk)."""
        inside = str(directory / "_")[:-1]
        return sorted(
            {str(path)[len(inside) :].partition("/")[0] for path in self.files if str(path).startswith(inside)}
        )

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return files with their sizes (see Disk)."""
        return {path.name: len(self.files[path].buffer) for path in sorted(self.files) if path.parent == directory}

    def size(self, path: Path) -> int:
        """Return a file's size in bytes."""
        return len(self.files[path].buffer)

    def exists(self, path: Path) -> bool:
        """Return True if a file is there."""
        return path in self.files

    def read(self, path: Path) -> bytes:
        """Return a small file's content (see Disk)."""
        return bytes(self.files[path].buffer) if path in self.files else b""

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file and sync it (see Disk)."""
        try:
            self.act("write", path)
        except PowerCut:
            self._enter(path, content)
            raise
        self._enter(path, content).durable = content

    def remove(self, path: Path) -> None:
        """Remove a file or a directory (see Disk)."""
        inside = str(path / "_")[:-1]
        names = [name for name in self.files if name == path or str(name).startswith(inside)]
        try:
            self.act("remove", path)
        except PowerCut:
            for name in names:
                self.files[name].is_going = True
            raise
        for name in names:
            del self.files[name]
        # The directory is synced: whatever else was removed from it stays removed.
        self.unlinked = {name: file for name, file in self.unlinked.items() if path.parent not in name.parents}

    def unlink(self, path: Path) -> None:
        """Remove a file without a sync (see Disk)."""
        self.act("unlink", path)
        if path in self.files:
            self.unlinked[path] = self.files.pop(path)

    def used_ratio(self, directory: Path) -> float:
        """Return what the test has set (see Disk)."""
        self.act("used_ratio", directory)
        return self.usage

    def move(self, path: Path, target: Path) -> None:
        """Rename a file (see Disk)."""
        try:
            self.act("move", path)
        except PowerCut:
            self.files[path].target = target
            raise
        self.files[target] = self.files.pop(path)

    def lock(self, path: Path) -> FakeLock:
        """Take a lock (see Disk)."""
        if path in self.locked:
            raise StoreError(f"{path.parent} is in use by another broker: {path.name} is locked")
        self.locked.add(path)
        return FakeLock(self, path)

    def act(self, operation: str, path: Path) -> None:
        """Count an operation; fail, or lose power, where that was asked for."""
        self.operation_count += 1
        if self.cut_at is not None and self.operation_count >= self.cut_at:
            raise PowerCut(f"{operation} {path}")
        if operation in self.failures:
            raise self.failures[operation]

    def take_room(self, size: int) -> None:
        """Give room away. Raises OSError when there is not enough."""
        if size > self.capacity:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.capacity -= size

    def after_power_cut(self, random: Random) -> FakeDisk:
        """Return the disk as the next start finds it."""
        disk = FakeDisk(self.capacity)
        back = {path: file for path, file in self.unlinked.items() if random.random() < 0.5}
        for path, file in (back | self.files).items():
            content = file.survivor(random)
            if content is not None:
                disk.write(_place_of(path, file, random), content)
        return disk

    def after_kill(self, random: Random | None = None) -> FakeDisk:
        """Return the disk as it is after `kill -9`: the machine goes on, and everything written is there.

        Args:
            random: decides what became of that which was under way; without it all of that is still to be done.
        """
        disk, random = FakeDisk(self.capacity), random or _Never()
        for path, file in self.files.items():
            if not (file.is_going and random.random() < 0.5):
                place = _place_of(path, file, random)
                disk.write(place, bytes(file.buffer))
                disk.files[place].durable = file.durable
        return disk

    def _enter(self, path: Path, content: bytes) -> FakeFile:
        file = self.files.setdefault(path, FakeFile(self, path, len(content)))
        file.buffer = bytearray(content)
        return file


class _Never(Random):
    """A coin that always falls on the same side."""

    def random(self) -> float:
        return 1.0


def _place_of(path: Path, file: FakeFile, random: Random) -> Path:
    return file.target if file.target is not None and random.random() < 0.5 else path
