"""Reading files that others may write, cut or remove meanwhile; and whether a broker holds the store.

A mapping would end the process with a bus error when a file is cut, or when a full tmpfs has a hole there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from types import TracebackType

_PIECE_SIZE = 4 << 20
"""What is read at a time; a record that is larger is read whole."""


class NotAFile(OSError):
    """A symbolic link, a pipe or a device stands where a file belongs."""


class ReadOnlyFile:
    """A regular file, open for reading; symbolic links are not followed.

    Args:
        zeros_behind: so many zeros are read behind the file's end, as if they were in it.

    Raises:
        OSError: there is none, or it cannot be read.
    """

    def __init__(self, path: Path, zeros_behind: int = 0) -> None:
        # Opening a pipe would wait for a writer.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise NotAFile(errno.EINVAL, "is not a regular file", str(path))
        self.size = status.st_size + zeros_behind
        self._zeros_behind = zeros_behind
        self._piece = b""
        self._piece_at = 0

    def __enter__(self) -> ReadOnlyFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from `at` on, fewer where the file ends."""
        pieces = []
        while size > 0 and (piece := os.pread(self._descriptor, size, at)):
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        if self._zeros_behind and size > 0:
            pieces.append(bytes(max(min(size, self.size - at), 0)))
        return b"".join(pieces)

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill a buffer with the file's own bytes from `at` on; return how many that were, fewer where the file ends."""
        size = 0
        while size < len(buffer) and (count := os.preadv(self._descriptor, [buffer[size:]], at + size)):
            size += count
        return size

    def view(self, at: int, size: int, end: int) -> memoryview:
        """Return at least `size` bytes from `at` on, fewer where the file or `end` comes first.

        What is read is kept, and served again until `forget`.
        """
        start = at - self._piece_at
        if start < 0 or start + size > len(self._piece):
            self._piece = self.read(at, min(max(size, _PIECE_SIZE), end - at))
            self._piece_at, start = at, 0
        return memoryview(self._piece)[start : end - self._piece_at]

    def forget(self) -> None:
        """Read again what is asked for next: it may have changed."""
        self._piece = b""

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between `start` and `end` that are not holes; all of it where the file system cannot tell."""
        end = min(end, self.size - self._zeros_behind)
        while start < end:
            try:
                first = os.lseek(self._descriptor, start, os.SEEK_DATA)
                stop = min(os.lseek(self._descriptor, first, os.SEEK_HOLE), end)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    yield start, end
                return
            if first < stop:
                yield first, stop
            start = stop if stop > first else end

    def data_end(self, start: int) -> int:
        """Return where the zeros at the file's end begin, at least `start`."""
        found = start
        for first, stop in self.data_ranges(start, self.size):
            for at in range(first, stop, _PIECE_SIZE):
                piece = self.read(at, min(_PIECE_SIZE, stop - at)).rstrip(b"\0")
                if piece:
                    found = at + len(piece)
        return found


def read_small(path: Path, size_max: int) -> bytes | None:
    """Return a small file's content, None when there is none.

    Raises:
        OSError: it cannot be read, or has more than `size_max` bytes.
    """
    try:
        with ReadOnlyFile(path) as file:
            if file.size > size_max:
                raise OSError(errno.EFBIG, f"has {file.size} bytes, more than {size_max}", str(path))
            return file.read(0, size_max)
    except FileNotFoundError:
        return None


_FORMAT = "hhqqi4x"
_LOCKS = Path("/proc/locks")


def is_running(root: Path) -> bool:
    """Return True if a broker, ours or Java's, has a store open."""
    return _is_first_byte_locked(root / "lock") or _is_directory_locked(root)


def _is_first_byte_locked(path: Path) -> bool:
    """Ask for the lock that both kinds of broker take, and take nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        question = pack(_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        command = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)
        return bool(unpack(_FORMAT, fcntl.fcntl(descriptor, command, question))[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_directory_locked(directory: Path) -> bool:
    """Look for the directory's own lock in the kernel's list; a broker of ours holds it even when `lock` is gone."""
    try:
        status = directory.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return False
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return any(words[1] == "FLOCK" and place in words for line in lines if len(words := line.split()) > 1)
