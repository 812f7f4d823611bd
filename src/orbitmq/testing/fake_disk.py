"""A disk that loses power, fills up and fails on request: the store's `Disk`, in memory.

What was written but not synced may reach the platter or not, sector by sector; what was synced stays.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

from orbitmq.errors import StoreError

SECTOR_SIZE = 512


class PowerCut(BaseException):
    """The power goes at this very operation. Not an Exception: no code under test may swallow it."""


class FakeFile:
    """A file in memory (DiskFile)."""

    def __init__(self, disk: FakeDisk, path: Path, size: int) -> None:
        self.buffer = bytearray(size)
        self.durable: bytes | None = None
        """What a power cut leaves; None: not even the name."""
        self.reserved: set[int] = set()
        self._disk = disk
        self._path = path

    def reserve(self, start: int, size: int) -> None:
        """Count the sectors against the disk's capacity (see DiskFile)."""
        self._disk.act("reserve", self._path)
        wanted = set(range(start // SECTOR_SIZE, -(-(start + size) // SECTOR_SIZE))) - self.reserved
        self._disk.take_room(len(wanted) * SECTOR_SIZE)
        self.reserved |= wanted

    def blank(self, start: int, size: int) -> None:
        """Reserve, and write zeros (see DiskFile)."""
        self.reserve(start, size)
        self.buffer[start : start + size] = bytes(size)

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

    def survivor(self, random: Random) -> bytes | None:
        """Return what a power cut leaves of the file."""
        if self.durable is None and random.random() < 0.5:
            return None
        survivor = bytearray(self.durable or bytes(len(self.buffer)))
        for start in range(0, len(survivor), SECTOR_SIZE):
            end = start + SECTOR_SIZE
            if self.buffer[start:end] != survivor[start:end] and random.random() < 0.5:
                survivor[start:end] = self.buffer[start:end]
        return bytes(survivor)


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
        """Operation (open, reserve, sync, zero, write, remove, move) to the error that it raises, until taken out."""
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

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory (see Disk)."""
        depth = len(directory.parts)
        return sorted({path.parts[depth] for path in self.files if path.parts[:depth] == directory.parts})

    def size(self, path: Path) -> int:
        """Return a file's size in bytes."""
        return len(self.files[path].buffer)

    def exists(self, path: Path) -> bool:
        """Say whether a file is there."""
        return path in self.files

    def read(self, path: Path) -> bytes:
        """Return a small file's content (see Disk)."""
        return bytes(self.files[path].buffer) if path in self.files else b""

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file and sync it (see Disk)."""
        self.act("write", path)
        file = self.files.setdefault(path, FakeFile(self, path, len(content)))
        file.buffer = bytearray(content)
        file.durable = content

    def remove(self, path: Path) -> None:
        """Remove a file or a directory (see Disk)."""
        self.act("remove", path)
        for name in [name for name in self.files if name == path or path in name.parents]:
            del self.files[name]

    def move(self, path: Path, target: Path) -> None:
        """Rename a file (see Disk)."""
        self.act("move", path)
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
        for path, file in self.files.items():
            content = file.survivor(random)
            if content is not None:
                disk.write(path, content)
        return disk

    def after_kill(self) -> FakeDisk:
        """Return the disk as it is after `kill -9`: the machine goes on, and everything written is there."""
        disk = FakeDisk(self.capacity)
        for path, file in self.files.items():
            disk.write(path, bytes(file.buffer))
            disk.files[path].durable = file.durable
        return disk
