"""The directory of a job: for one job on one subject, and one run at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import orjson

from orbitmq.errors import ConfigError, JobFailed
from orbitmq.files import replace_file

NAME = "_job.json"
"""What a directory is for."""
CONTENT_SIZE_MAX = 65_536
"""Bytes of `NAME` that are read; a job writes some hundred."""
_LOCK = "_lock"
"""Readers of Parquet pass over names that begin so."""
_FIRST = {_LOCK, f"{NAME}.tmp"}
"""All that a run has made which is killed before it has claimed its directory."""


@contextmanager
def claimed(directory: Path, subject: Mapping[str, str]) -> Iterator[None]:
    """Keep a directory for this run; a new one is made, and remembers what it is for.

    Args:
        subject: what the job works on. A directory that is for something else is refused.

    Raises:
        ConfigError: it is for something else, or holds files of others.
        JobFailed: another run is under way.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _check_contents(directory)
    with locked(directory / _LOCK, str(directory)):
        if not _check_note(directory, subject):
            replace_file(directory / NAME, orjson.dumps(dict(subject)))
        yield


def check_claimable(directory: Path, subject: Mapping[str, str]) -> None:
    """Refuse now what `claimed` would refuse later, as before a job has started Spark; nothing is made.

    Raises: as `claimed`, and ConfigError where the directory cannot be made or written.
    """
    found = directory if directory.exists() else next(parent for parent in directory.parents if parent.exists())
    if not found.is_dir() or not os.access(found, os.W_OK | os.X_OK):
        raise ConfigError(
            "directory", str(directory), f"one that can be written: {found} is not a directory that this user may write"
        )
    if found != directory:
        return
    _check_contents(directory)
    _check_note(directory, subject)
    if (directory / _LOCK).exists():
        with locked(directory / _LOCK, str(directory)):
            pass


@contextmanager
def locked(file: Path, directory: str, *, is_shared: bool = False) -> Iterator[None]:
    """Lock a file, or a directory, for this run; the lock ends with its process, however that ends.

    Some network file systems lock no directories: a run of this machine is not kept out there.

    Args:
        file: is made where it is not there.
        is_shared: others may have it as well, but for one that is not shared.

    Raises:
        JobFailed: another run has it; `directory` says where.
    """
    is_directory = file.is_dir()
    lock = os.open(file, os.O_RDONLY if is_directory else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobFailed(f"another run is under way in {directory}") from None
        except OSError:
            if not is_directory:
                raise
        yield
    finally:
        os.close(lock)


def lock_of(uri: str) -> Path:
    """Return the file of this machine that its runs lock for a directory elsewhere."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    lock = home / "orbitmq" / "locks" / sha256(uri.encode()).hexdigest()
    lock.parent.mkdir(parents=True, exist_ok=True)
    return lock


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep a job's directory as it is while it is read; others may read it, too. Any other directory is left alone.

    Raises:
        JobFailed: a run is under way that writes there.
    """
    if not (directory / _LOCK).exists():
        yield
        return
    with (directory / _LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobFailed(f"a run is under way in {directory}") from None
        yield


def check_subject(directory: str, content: bytes, subject: Mapping[str, str]) -> None:
    """Raise ConfigError when the content of its `NAME` says that a directory is for something else."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise ConfigError("directory", directory, f"one whose {NAME} can be read") from None
    if found != subject:
        raise ConfigError("directory", f"{directory}, which is for {found!s:.300}", f"one for {subject}, or a new one")


def _check_note(directory: Path, subject: Mapping[str, str]) -> bool:
    """Check what a directory remembers that it is for; return whether it remembers anything."""
    path = directory / NAME
    if not path.exists():
        return False
    with path.open("rb") as file:
        check_subject(str(directory), file.read(CONTENT_SIZE_MAX), dict(subject))
    return True


def _check_contents(directory: Path) -> None:
    names = {entry.name for entry in directory.iterdir()}
    if NAME not in names and not names <= _FIRST:
        raise ConfigError("directory", f"{directory}, which holds other files", "an empty one, or a new one")
