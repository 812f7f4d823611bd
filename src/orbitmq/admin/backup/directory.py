"""The files of a backup: written once, each with its checksum, and read again only when that still fits."""

from __future__ import annotations

import fcntl
import gzip
import os
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, NamedTuple

from orbitmq.admin.backup.manifest import (
    MANIFEST_NAME,
    MANIFEST_SIZE_MAX,
    BackupFile,
    Manifest,
    QueueFile,
    decode_manifest,
    encode_manifest,
)
from orbitmq.admin.backup.records import RecordReader, is_batch
from orbitmq.errors import ConfigError, CorruptRecord, HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.wire.messages.record import Record

FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_CHUNK_SIZE = 1024 * 1024
_LEVEL = 3
"""Of gzip: most of what the highest saves, at a third of its time."""


class Written(NamedTuple):
    """A file's size in bytes, and its checksum."""

    size: int
    sha256: str


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a directory for one backup or restore at a time; the lock ends with its process, however that ends.

    Raises:
        StoreError: another one has it.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"another backup or restore is at work in {directory}") from None
        except OSError:
            pass  # some network file systems lock no directories
        yield
    finally:
        os.close(descriptor)


def create_directory(directory: Path) -> None:
    """Make the directory of a new backup, which only its owner can read: messages and passwords will be in it.

    Raises:
        ConfigError: a file is there.
    """
    try:
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError("directory", str(directory), "a directory, not a file") from None


def check_new(directory: Path) -> None:
    """Refuse a directory that holds something.

    Raises:
        ConfigError: it does.
    """
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigError("directory", str(directory), "a new or an empty directory")
    if directory.exists() and not directory.is_dir():
        raise ConfigError("directory", str(directory), "a directory, not a file")


def write_file(path: Path, content: bytes) -> Written:
    """Write a new file, durably."""
    with named(path), _open_new(path) as file:
        file.write(content)
        _sync(file)
    return Written(len(content), sha256(content).hexdigest())


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, which makes a backup whole."""
    with named(directory / MANIFEST_NAME):
        replace_file(directory / MANIFEST_NAME, encode_manifest(manifest), mode=FILE_MODE)


class RecordsWriter:
    """Writes the records of one queue, compressed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _HashingFile(_open_new(path))
        self._gzip = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)

    def write(self, records: bytes) -> None:
        """Append whole records."""
        with named(self._path):
            self._gzip.write(records)

    def close(self) -> Written:
        """End the file, durably."""
        with named(self._path):
            try:
                self._gzip.close()
                return self._file.finish()
            finally:
                self._file.close()


class _HashingFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> Written:
        _sync(self._file)
        return Written(self._size, self._hash.hexdigest())

    def close(self) -> None:
        self._file.close()


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a backup.

    Raises:
        StoreError: there is none, so that the backup was interrupted, or it is damaged.
    """
    try:
        content = read_bounded(directory / MANIFEST_NAME, MANIFEST_SIZE_MAX)
    except FileNotFoundError:
        reason = "an interrupted backup, or none" if directory.is_dir() else "there is no such directory"
        raise StoreError(f"{directory} has no {MANIFEST_NAME}: {reason}") from None
    try:
        return decode_manifest(content)
    except HeaderError as error:
        raise StoreError(f"{directory / MANIFEST_NAME}: {error.remark}") from error
    except StoreError as error:
        raise StoreError(f"{directory / MANIFEST_NAME}: {error}") from error


def read_bounded(path: Path, size_max: int) -> bytes:
    """Return the content of a file of at most so many bytes.

    Raises:
        StoreError: it has more, or is a link, a pipe or a device.
    """
    with _open_regular(path) as file:
        content = file.read(size_max + 1)
    if len(content) > size_max:
        raise StoreError(f"{path} has more than {size_max} bytes")
    return content


def read_file(directory: Path, entry: BackupFile) -> bytes:
    """Return the content of a file of tables.

    Raises:
        StoreError: it is not there, or not what was written.
    """
    _check_file(directory, entry)
    with _open_regular(directory / entry.name) as file:
        content = file.read(entry.size + 1)
    if len(content) != entry.size or sha256(content).hexdigest() != entry.sha256:
        raise StoreError(f"{entry.name} is damaged: it changed while it was read")
    return content


class FileCheck(NamedTuple):
    """What is wrong with a file, None where it is as it was written; and whether it holds batches (type BatchCQ)."""

    damage: str | None
    has_batches: bool = False


def check_file(directory: Path, entry: BackupFile) -> FileCheck:
    """Compare a file with the manifest; of messages each record is looked at."""
    has_batches = False
    try:
        _check_file(directory, entry)
        if isinstance(entry, QueueFile):
            for record in read_records(directory, entry):
                has_batches = has_batches or is_batch(record)
    except (StoreError, OSError) as error:
        return FileCheck(str(error))
    return FileCheck(None, has_batches)


def read_records(directory: Path, entry: QueueFile) -> Generator[Record, None, None]:
    """Yield the records of a queue.

    Raises:
        StoreError: the file does not hold the records that the manifest says.
    """
    reader = RecordReader(entry.topic, entry.queue_id, entry.begin, entry.end)
    size = 0
    try:
        with _open_regular(directory / entry.name) as file, gzip.GzipFile(fileobj=file, mode="rb") as records:
            while chunk := records.read(_CHUNK_SIZE):
                size += len(chunk)
                if size > entry.records_size:
                    raise StoreError(f"{entry.name} is damaged: more than {entry.records_size} bytes of records")
                yield from reader.feed(chunk)
            reader.finish()
    except (CorruptRecord, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise StoreError(f"{entry.name} is damaged: {error}") from error
    if reader.count != entry.count or size != entry.records_size:
        raise StoreError(
            f"{entry.name} is damaged: {reader.count} messages with {size} bytes of records in it, "
            f"expected {entry.count} with {entry.records_size}"
        )


def _check_file(directory: Path, entry: BackupFile) -> None:
    checksum, size = sha256(), 0
    try:
        with _open_regular(directory / entry.name) as file:
            while chunk := file.read(_CHUNK_SIZE):
                checksum.update(chunk)
                size += len(chunk)
                if size > entry.size:
                    break
    except FileNotFoundError:
        raise StoreError(f"{entry.name} is missing") from None
    if size != entry.size:
        is_longer = "more than " if size > entry.size else ""
        raise StoreError(f"{entry.name} is damaged: {is_longer}{min(size, entry.size)} bytes, expected {entry.size}")
    if checksum.hexdigest() != entry.sha256:
        raise StoreError(f"{entry.name} is damaged: its checksum does not match")


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Name the file in an error of the disk: writes do not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _open_new(path: Path) -> IO[bytes]:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, FILE_MODE))


@contextmanager
def _open_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; a link, a directory or a pipe in its place is refused, and never waited for."""
    if path.is_symlink() or path.is_dir():
        raise StoreError(f"{path} is not a file")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise StoreError(f"{path} is not a file")
        yield file


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
