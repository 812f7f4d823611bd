"""The local disk: files that are read through memory maps, written and synced with fdatasync.

fdatasync releases the interpreter lock and covers pages dirtied through the mapping, where `mmap.flush` would stop every
other thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from struct import pack

from orbitmq.errors import DescriptorShortage, FileCut, NotWritten, StoreError
from orbitmq.store.bulk_sync import sync_file_system, tells_of_lost_writes
from orbitmq.store.disk import Buffer, BulkSync, DiskFile, Lock
from orbitmq.store.disk_usage import disk_usage

_LOOK_SIZE = 64 * 1024
_GLANCE_SIZE = 4096
_BLANK_REST = bytes(_GLANCE_SIZE - 256)
_STRIP_SIZE_MAX = 256
_NOATIME = getattr(os, "O_NOATIME", 0)
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class LocalFile:
    """A file with its descriptor, memory-mapped unless it is one of many (DiskFile). The mapping holds a second one."""

    def __init__(self, path: Path, size: int, new_names: list[Path], *, is_one_of_many: bool) -> None:
        self._size = size
        self._new_names = dict.fromkeys(new_names)
        self._map: mmap.mmap | None = None
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(self._descriptor).st_size != size:
                os.ftruncate(self._descriptor, size)
            if is_one_of_many:
                # Without it the kernel reads a hundred kilobytes around the first entry that is looked at.
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            else:
                self._map = mmap.mmap(self._descriptor, size)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def buffer(self) -> Buffer:
        """The mapping."""
        assert self._map is not None, "one of many has no buffer"
        return self._map

    def read(self, start: int, size: int) -> bytes:
        """Read (see DiskFile)."""
        found = os.pread(self._descriptor, size, start)
        return found if len(found) == size else found.ljust(size, b"\0")

    def write(self, start: int, data: bytes) -> None:
        """Write (see DiskFile)."""
        try:
            self._write(start, data)
        except OSError as error:
            raise NotWritten(error.errno, error.strerror) from error

    def reserve(self, start: int, size: int) -> None:
        """Allocate blocks (see DiskFile)."""
        os.posix_fallocate(self._descriptor, start, size)

    def blank(self, start: int, size: int) -> None:
        """Write zeros (see DiskFile): a page that is there already costs a tenth of one that a fault must make."""
        self._write(start, bytes(size))

    def is_whole(self) -> bool:
        """Ask for the end (see DiskFile): a quarter of what asking for everything about the file takes."""
        return os.lseek(self._descriptor, 0, os.SEEK_END) >= self._size

    @property
    def device(self) -> int:
        """The number of its file system."""
        return os.fstat(self._descriptor).st_dev

    def sync(self) -> None:
        """Sync content, and the names that lead to a new file."""
        os.fdatasync(self._descriptor)
        if self._map is not None and not self.is_whole():
            raise FileCut(f"a file of {self._size} bytes was cut short from outside")
        try:
            # The loop closes a full file while the flusher may be at it: each syncs all that it finds, and neither takes
            # a name from the other.
            for directory in reversed(tuple(self._new_names)):
                sync_directory(directory)
                self._new_names.pop(directory, None)
        except FileNotFoundError:
            if os.fstat(self._descriptor).st_nlink:
                raise
            self._new_names.clear()  # its topic was deleted meanwhile, on the other thread

    def zero_from(self, position: int) -> None:
        """Zero the rest of a page by hand; where data follows, cut the file and let it grow again."""
        page_end = min(-(-position // mmap.PAGESIZE) * mmap.PAGESIZE, self._size)
        if any(self.read(position, page_end - position)):
            self._write(position, bytes(page_end - position))
        if _data_ranges(self._descriptor, page_end, self._size):
            os.ftruncate(self._descriptor, page_end)
            os.ftruncate(self._descriptor, self._size)

    def data_end(self, start: int) -> int:
        """Look where the file system says that there is data, from the last place on (see DiskFile)."""
        for first, end in reversed(_data_ranges(self._descriptor, start, self._size)):
            while end > first:
                low = max(first, end - _LOOK_SIZE)
                # Read, not looked at through the map: on a full tmpfs, touching a hole kills the process.
                found = _content_size(os.pread(self._descriptor, end - low, low))
                if found:
                    return low + found
                end = low
        return start

    def hole_start(self) -> int:
        """Ask the file system (see DiskFile)."""
        ranges = _data_ranges(self._descriptor, 0, self._size)
        return ranges[-1][1] if ranges else 0

    def close(self) -> None:
        """Unmap and close; a slice that is still alive keeps the mapping until it dies."""
        if self._map is not None:
            # BufferError: a memoryview of the map is alive somewhere. The map is freed with the last of them.
            with contextlib.suppress(BufferError):
                self._map.close()
        os.close(self._descriptor)

    def _write(self, start: int, data: bytes) -> None:
        while data:
            written = os.pwrite(self._descriptor, data, start)
            start, data = start + written, data[written:]


class LocalBulkSync:
    """A directory's descriptor: a file system notes lost writes for it from when it was opened (BulkSync)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._device = os.fstat(descriptor).st_dev

    def run(self, files: Collection[DiskFile]) -> None:
        """Sync the file system, and then one file: some keep it from the disk's own cache only then (see BulkSync)."""
        sync_file_system(self._descriptor)
        others = [file for file in files if not (isinstance(file, LocalFile) and file.device == self._device)]
        for file in (*others, *list(files)[-1:]):
            file.sync()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class LocalLock:
    """An open file with a lock on its first byte, and its directory, which is locked as well (Lock)."""

    def __init__(self, descriptors: contextlib.ExitStack) -> None:
        self._descriptors = descriptors

    def close(self) -> None:
        """Closing lets go of the locks."""
        self._descriptors.close()


class LocalDisk:
    """The machine's file system (Disk)."""

    def __init__(self) -> None:
        self._unsynced_names: dict[Path, list[Path]] = {}
        """Directories that a file's making has changed, where opening it failed: the next open syncs them."""

    def open(self, path: Path, size: int, *, is_one_of_many: bool = False) -> DiskFile:
        """Open and map a file (see Disk)."""
        if not os.path.lexists(path):
            new_names = _make_directories(path.parent)
        else:
            # A process that was killed may have made it, and synced neither the file nor its name.
            new_names = [] if is_one_of_many else [path.parent.parent, path.parent]
        if self._unsynced_names:
            new_names = [*self._unsynced_names.pop(path, ()), *new_names]
        try:
            return LocalFile(path, size, new_names, is_one_of_many=is_one_of_many)
        except OSError:
            self._unsynced_names[path] = new_names
            raise

    def bulk_sync(self, directory: Path) -> BulkSync | None:
        """Open the directory where its file system can do it (see Disk)."""
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if tells_of_lost_writes(descriptor):
            return LocalBulkSync(descriptor)
        os.close(descriptor)
        return None

    def first_file(self, directory: str, name: str, following: str, size: int) -> bytes | None:
        """Read the first page, and ask for data behind it (see Disk)."""
        try:
            descriptor = _open_unnoticed(f"{directory}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            return None
        try:
            if os.fstat(descriptor).st_size != size or os.access(f"{directory}/{following}", os.F_OK):
                return None
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # as LocalFile does
            page = os.pread(descriptor, _GLANCE_SIZE, 0)
            try:
                os.lseek(descriptor, _GLANCE_SIZE, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    return None
                # Of most queues there is little: one comparison takes the rest away.
                return page[: _content_size(page.removesuffix(_BLANK_REST))]
        finally:
            os.close(descriptor)
        return None

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return files with their sizes (see Disk)."""
        try:
            with os.scandir(directory) as entries:
                found = [(entry.name, entry.stat().st_size) for entry in entries if entry.is_file()]
        except FileNotFoundError:
            return {}
        return dict(sorted(found) if len(found) > 1 else found)

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory (see Disk)."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def size(self, path: Path) -> int:
        """Return a file's size in bytes."""
        return path.stat().st_size

    def exists(self, path: Path) -> bool:
        """Return True if a file is there."""
        return path.exists()

    def read(self, path: Path) -> bytes:
        """Return a small file's content (see Disk)."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file in place (see Disk)."""
        new_names = [] if path.exists() else _make_directories(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, content, 0)
            if os.fstat(descriptor).st_size != len(content):
                os.ftruncate(descriptor, len(content))
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        for directory in reversed(new_names):
            sync_directory(directory)

    def remove(self, path: Path) -> None:
        """Remove a file or a directory (see Disk)."""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if path.parent.exists():
            sync_directory(path.parent)

    def unlink(self, path: Path) -> None:
        """Remove a file's name (see Disk)."""
        path.unlink(missing_ok=True)

    def used_ratio(self, directory: Path) -> float:
        """Ask the file system (see Disk)."""
        return disk_usage(directory).used_ratio

    def move(self, path: Path, target: Path) -> None:
        """Rename a file (see Disk)."""
        changed = _make_directories(target.parent)
        os.rename(path, target)
        for directory in (*reversed(changed), path.parent):
            sync_directory(directory)

    def lock(self, path: Path) -> Lock:
        """Lock the first byte, as Java's broker does, and the directory that holds the file.

        Where Linux has them, the lock belongs to the open file: a process's own second store is kept out as well, and
        the lock does not vanish with whatever else closes the file. Removing the file lets no other process in: the
        directory stays locked, for our brokers at least.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as descriptors:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            descriptors.callback(os.close, descriptor)
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            descriptors.callback(os.close, directory)
            try:
                _lock_first_byte(descriptor)
                _lock_directory(directory)
                os.pwrite(descriptor, b"lock", 0)
            except OSError as error:
                raise StoreError(
                    f"{path.parent} is in use by another broker: {path.name} is locked ({error})"
                ) from error
            return LocalLock(descriptors.pop_all())


def _lock_first_byte(descriptor: int) -> None:
    if hasattr(fcntl, "F_OFD_SETLK"):
        first_byte = pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, first_byte)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


def _lock_directory(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # some network file systems lock no directories: the file's lock has to do there


def sync_directory(directory: Path) -> None:
    """Return when the names in a directory are on the disk. Raises as `DiskFile.sync`."""
    descriptor = _open_existing(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_unnoticed(path: str) -> int:
    """Open a file of ours without the note of its last use, which would be a write for each of thousands that are read."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(path, flags | _NOATIME)
    except PermissionError:  # it belongs to another user
        return os.open(path, flags)


def _open_existing(path: Path, flags: int) -> int:
    """Open what is there, in order to sync it. Raises DescriptorShortage where only the means to do so are missing."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise DescriptorShortage(error.errno, error.strerror, str(path)) from error
        raise


def _content_size(data: bytes) -> int:
    """Return how many bytes are left without the zeros at the end: by bisection, for stripping takes a nanosecond each."""
    while len(data) > _STRIP_SIZE_MAX:
        half = len(data) // 2
        if data[half:] != bytes(len(data) - half):
            return half + _content_size(data[half:])
        data = data[:half]
    return len(data.rstrip(b"\0"))


def _data_ranges(descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges between `start` and `end` that are not holes; all of it where the file system cannot tell."""
    ranges = []
    try:
        while start < end:
            first = os.lseek(descriptor, start, os.SEEK_DATA)
            start = os.lseek(descriptor, first, os.SEEK_HOLE)
            ranges.append((first, min(start, end)))
    except OSError as error:
        if error.errno != errno.ENXIO:
            return [(start, end)]
    return ranges


def _make_directories(directory: Path) -> list[Path]:
    """Make a directory and its parents; return those whose list of names a new file changes, topmost first."""
    changed = [directory]
    while not changed[0].exists():
        changed.insert(0, changed[0].parent)
    directory.mkdir(parents=True, exist_ok=True)
    return changed
