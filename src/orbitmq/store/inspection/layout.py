"""The files of a store's directory: which belong to it, how large they should be, and which are unknown."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.store.inspection.issues import Issue, note
from orbitmq.store.inspection.log_walk import LogFile
from orbitmq.store.log.segment import NAME_LENGTH
from orbitmq.store.queues.consume_queues import QueueKey

SEGMENT_SIZE = 1 << 30
"""mappedFileSizeCommitLog's default."""
QUEUE_FILE_SIZE = 6_000_000
"""mappedFileSizeConsumeQueue's default."""

_KNOWN = frozenset(
    (
        "commitlog",
        "consumequeue",
        "config",
        "checkpoint",
        "abort",
        "lock",
        "begin",
        "ends",
        "rebuild",
        "deleted",
        "delivered",
        "tables",
        "index",
        "indexed",
        "jumps",
        "quarantine",
        "timerwheel",
        "timerlog",
    )
)
_UNCHECKED = {
    "begin.tmp": "an interrupted write has left it",
    "deleted.tmp": "an interrupted write has left it",
    "jumps.tmp": "an interrupted write has left it",
    "tables.tmp": "an interrupted write has left it",
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
            size = _size(directory / name)
            if size is not None:
                found.append(SizedFile(int(name), size, directory / name))
    return found


def is_log_name(name: str) -> bool:
    """Say whether a name is that of a log's file: its offset in twenty digits."""
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


def unknown_files(root: Path) -> Iterator[Issue]:
    """Yield what is in a store and is not checked."""
    for name in list_names(root):
        if name in _UNCHECKED:
            yield note(name, _UNCHECKED[name])
        elif name not in _KNOWN:
            yield note(name, "is no file of a store that is known here, and not checked")
    for name in list_names(root / "commitlog"):
        yield from _strange_log_file(root, root / "commitlog" / name)
    for topic in list_names(root / "consumequeue"):
        directory = root / "consumequeue" / topic
        if not directory.is_dir():
            yield note(_path(root, directory), "is no topic's directory, and not checked")
        for name in list_names(directory):
            if not (name.isdecimal() and name.isascii() and (directory / name).is_dir()):
                yield note(_path(root, directory / name), "is no queue's directory, and not checked")
            else:
                for file in list_names(directory / name):
                    yield from _strange_log_file(root, directory / name / file)


def _strange_log_file(root: Path, path: Path) -> Iterator[Issue]:
    if not is_log_name(path.name):
        yield note(_path(root, path), "its name is no offset in twenty digits: not checked")
    elif _size(path) is None:
        yield Issue(_path(root, path), None, "is no regular file, and not read", "put the file itself there")


def _path(root: Path, path: Path) -> str:
    return str(path.relative_to(root))


def _size(path: Path) -> int | None:
    """Return a regular file's size in bytes; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
