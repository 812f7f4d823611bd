"""The files of a store's directory: which belong to it, and how large they should be."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.store.inspection.log_walk import LogFile
from orbitmq.store.log.segment import NAME_LENGTH
from orbitmq.store.queues.consume_queues import QueueKey

SEGMENT_SIZE = 1 << 30
"""mappedFileSizeCommitLog's default."""
QUEUE_FILE_SIZE = 6_000_000
"""mappedFileSizeConsumeQueue's default."""

NOT_CHECKED = {
    "consumequeue_ext": "extended consume queues are not known here, and not checked",
    "batchconsumequeue": "batch consume queues are not known here, and not checked",
    "consumequeue_r": "consume queues in RocksDB are not known here, and not checked",
}


class SizedFile(NamedTuple):
    """A file of a log, named by the offset of its first byte, and the bytes it has."""

    base: int
    size: int
    path: Path


def check_is_store(root: Path) -> None:
    """Raise InvalidArgument unless a directory is a store."""
    if not root.is_dir():
        raise InvalidArgument("directory", str(root), "a directory that a broker keeps its store in")
    # A broker that never had a message has no log yet.
    if not any((root / name).exists() for name in ("commitlog", "consumequeue", "checkpoint", "begin")):
        raise InvalidArgument("directory", str(root), "a store: commitlog/ or checkpoint is in it")


def list_names(directory: Path) -> list[str]:
    """Return the names in a directory, sorted; none when it does not exist or cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def log_files(directory: Path) -> list[SizedFile]:
    """Return the files of a log, oldest first."""
    found = []
    for name in list_names(directory):
        if is_log_name(name):
            size = size_of(directory / name)
            if size is not None:
                found.append(SizedFile(int(name), size, directory / name))
    return found


def is_log_name(name: str) -> bool:
    """Return True if a name is that of a log's file: its offset in twenty digits."""
    return len(name) == NAME_LENGTH and name.isdecimal() and name.isascii()


def usual_size(sizes: Iterable[int], default: int) -> int:
    """Return the size that most files of a log have: they are made with it, and damage spares most of them."""
    counted = Counter(size for size in sizes if size)
    return max(counted, key=lambda size: (counted[size], size)) if counted else default


def commit_log_files(found: Iterable[SizedFile], segment_size: int) -> list[LogFile]:
    """Return the CommitLog's files as they are walked."""
    return [LogFile(file.base, segment_size, file.path) for file in found]


def queue_directories(directory: Path) -> Iterator[tuple[QueueKey, Path]]:
    """Yield every queue that has a directory."""
    for topic in list_names(directory):
        for name in list_names(directory / topic):
            if name.isdecimal() and name.isascii() and (directory / topic / name).is_dir():
                yield (topic, int(name)), directory / topic / name


def size_of(path: Path) -> int | None:
    """Return a regular file's size in bytes; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
