"""The files of a backup: written once, each with its checksum, and read again only when that still fits."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from io import BufferedReader
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
from orbitmq.admin.backup.messages import parse_message
from orbitmq.errors import ConfigError, CorruptRecord, HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.message import SysFlag
from orbitmq.wire.messages.record import RECORD_SIZE_MIN, Record

FILE_MODE = 0o600
_RECORD_SIZE_MAX = 128 * 1024 * 1024
"""Bytes of one record; brokers take messages of 4 MiB unless they are set otherwise."""
_SIZE_BYTES = 4
_LEVEL = 3
"""Of gzip: most of what the highest saves, at a third of its time."""
_GZIP_HEADER = 31
"""What zlib calls a window of 32 KiB with gzip's header and trailer."""


class Written(NamedTuple):
    """A file's size in bytes, and its checksum."""

    size: int
    sha256: str


def check_new(directory: Path) -> None:
    """Refuse a directory that holds something.

    Raises:
        ConfigError: it does, or is a file.
    """
    if directory.exists() and not directory.is_dir():
        raise ConfigError("directory", str(directory), "a directory, not a file")
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError("directory", str(directory), "a new or an empty directory")


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
        self._file = _open_new(path)
        self._gzip = zlib.compressobj(_LEVEL, wbits=_GZIP_HEADER)
        self._checksum = sha256()
        self._size = 0

    def write(self, records: bytes) -> None:
        """Append whole records."""
        self._append(self._gzip.compress(records))

    def close(self) -> Written:
        """End the file, durably."""
        with self._file, named(self._path):
            self._append(self._gzip.flush())
            _sync(self._file)
        return Written(self._size, self._checksum.hexdigest())

    def _append(self, data: bytes) -> None:
        with named(self._path):
            self._file.write(data)
        self._checksum.update(data)
        self._size += len(data)


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a backup.

    Raises:
        StoreError: there is none, so that the backup was interrupted, or it is damaged.
    """
    try:
        return decode_manifest(read_bounded(directory / MANIFEST_NAME, MANIFEST_SIZE_MAX))
    except FileNotFoundError:
        reason = "an interrupted backup, or none" if directory.is_dir() else "there is no such directory"
        raise StoreError(f"{directory} has no {MANIFEST_NAME}: {reason}") from None
    except HeaderError as error:
        raise StoreError(f"{directory / MANIFEST_NAME}: {error.remark}") from error


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


def check_file(directory: Path, entry: BackupFile) -> None:
    """Compare a file with the manifest; of messages every record is parsed.

    Raises:
        StoreError: it is not there, or not what was written; or holds batches, which cannot be sent message by message.
    """
    try:
        with _open_regular(directory / entry.name) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.size:
                raise StoreError(f"{entry.name} is damaged: {size} bytes, expected {entry.size}")
            if file_digest(file, "sha256").hexdigest() != entry.sha256:
                raise StoreError(f"{entry.name} is damaged: its checksum does not match")
    except FileNotFoundError:
        raise StoreError(f"{entry.name} is missing") from None
    if isinstance(entry, QueueFile):
        for record in read_records(directory, entry):
            if record.sys_flag & SysFlag.INNER_BATCH:
                raise StoreError(
                    f"{entry.name} holds batches (the topic {entry.topic} has the type BatchCQ), which cannot be sent again: "
                    "choose other topics with --topic"
                )


def read_records(directory: Path, entry: QueueFile) -> Generator[Record, None, None]:
    """Yield the records of a queue. No more is unpacked than the manifest says.

    Raises:
        StoreError: the file does not hold the records that the manifest says.
    """
    count, offset, left = 0, entry.begin, entry.records_size
    try:
        with _open_regular(directory / entry.name) as file, gzip.GzipFile(fileobj=file, mode="rb") as records:
            while begin := records.read(_SIZE_BYTES):
                size = int.from_bytes(begin, "big")
                if not RECORD_SIZE_MIN <= size <= min(left, _RECORD_SIZE_MAX):
                    raise StoreError(
                        f"{entry.name} is damaged: a record of {size} bytes behind {count} others, with {left} bytes left of "
                        f"{entry.records_size}"
                    )
                content = begin + records.read(size - _SIZE_BYTES)
                record = parse_message(content, entry.topic, entry.queue_id, offset, entry.end)
                count, offset, left = count + 1, record.queue_offset + 1, left - size
                yield record
    except (CorruptRecord, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise StoreError(f"{entry.name} is damaged: {error}") from error
    if count != entry.count or left:
        raise StoreError(
            f"{entry.name} is damaged: {count} messages with {entry.records_size - left} bytes of records in it, "
            f"expected {entry.count} with {entry.records_size}"
        )


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
def _open_regular(path: Path) -> Iterator[BufferedReader]:
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
