"""The directory of a job: for one job on one subject, and one run at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson

from orbitmq.errors import ConfigError, JobFailed
from orbitmq.files import replace_file

NAME = "_job.json"
"""What a directory is for."""
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
        _check(directory, subject)
        yield


@contextmanager
def locked(file: Path, directory: str) -> Iterator[None]:
    """Lock a file for this run; the lock ends with its process, however that ends.

    Raises:
        JobFailed: another run has it; `directory` says where.
    """
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobFailed(f"another run is under way in {directory}") from None
        yield


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
        raise ConfigError("directory", f"{directory}, which is for {found}", f"one for {subject}, or a new one")


def _check(directory: Path, subject: Mapping[str, str]) -> None:
    path = directory / NAME
    if path.exists():
        check_subject(str(directory), path.read_bytes(), dict(subject))
        return
    replace_file(path, orjson.dumps(dict(subject)))


def _check_contents(directory: Path) -> None:
    names = {entry.name for entry in directory.iterdir()}
    if NAME not in names and not names <= _FIRST:
        raise ConfigError("directory", f"{directory}, which holds other files", "an empty one, or a new one")
