"""The directory of a job: for one job on one subject, and one run at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson

from orbitmq.errors import ConfigError, JobFailed
from orbitmq.files import replace_file

_NAME = "_job.json"
_LOCK = "_lock"
"""Readers of Parquet pass over names that begin so."""
_FIRST = {_LOCK, f"{_NAME}.tmp"}
"""All that a run has made which is killed before it has claimed its directory."""


@contextmanager
def claimed(directory: Path, subject: Mapping[str, str]) -> Iterator[None]:
    """Keep a directory for this run; a new one is made, and remembers what it is for.

    The lock ends with its process, however that ends.

    Args:
        subject: what the job works on. A directory that is for something else is refused.

    Raises:
        ConfigError: it is for something else, or holds files of others.
        JobFailed: another run is under way.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _check_contents(directory)
    with (directory / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobFailed(f"another run is under way in {directory}") from None
        _check(directory, dict(subject))
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


def _check(directory: Path, subject: dict[str, str]) -> None:
    path = directory / _NAME
    if path.exists():
        try:
            found = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError:
            raise ConfigError("directory", str(directory), f"one whose {_NAME} can be read") from None
        if found != subject:
            raise ConfigError("directory", f"{directory}, which is for {found}", f"one for {subject}, or a new one")
        return
    replace_file(path, orjson.dumps(subject))


def _check_contents(directory: Path) -> None:
    names = {entry.name for entry in directory.iterdir()}
    if _NAME not in names and not names <= _FIRST:
        raise ConfigError("directory", f"{directory}, which holds other files", "an empty one, or a new one")
