"""Small files that are replaced whole: never half-written, the generation before kept as `.bak`.

apache/rocketmq#3401 lost them to power cuts. Here new content is written next to the old, synced, renamed over it, and the
directory is synced; readers take the `.bak` when the file itself is damaged. What is damaged is copied to
`.damaged-1` and so on first, since two writes later neither of the two would be there.

Source: docs/formats/config_files.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from orbitmq.errors import HeaderError, StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")

_EVERYBODYS = 0o666
DAMAGED_MAX = 100
"""Copies of damaged files that are kept of each."""


def replace_file(path: Path, content: bytes | Iterable[bytes], *, mode: int = _EVERYBODYS) -> None:
    """Make `content` the content of `path`, durably; what was there becomes `path.bak`.

    Args:
        content: all of it, or one part after the other.
        mode: its permissions, less what the umask takes; 0o600 where it holds secrets.

    Raises:
        OSError: the disk refused; the old content is still there. Or, where the error says so, the new one is, and a power
            cut may bring the old one back.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    _write(fresh, content, mode)
    kept = _hold(path) if path.exists() else None
    os.replace(fresh, path)
    if kept is not None:
        # Not before: what is there may be damaged, and the `.bak` then the one generation that can be read.
        os.replace(kept, _backup(path))
    try:
        _sync_directory(path.parent)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path} has its new content, but its directory could not be synced, and a power cut may bring the old content "
            f"back ({error.strerror or error})",
        ) from error


async def write_aside(write: Callable[..., None], *args: object) -> None:
    """Let a thread write, so that a slow disk stops no request. A caller that is cancelled meanwhile goes on when it has ended.

    Another writing may follow immediately: two would make a file between them that neither meant.

    Raises: as `write`.
    """
    writing = asyncio.ensure_future(asyncio.to_thread(write, *args))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait((writing,))
        if not writing.cancelled() and writing.exception() is not None:
            log.warning("a file was not written: %s", writing.exception())
        raise


def has_generation(path: Path) -> bool:
    """Return True if a file is there, or its `.bak`."""
    return path.exists() or _backup(path).exists()


def read_generations(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return the parsed content of `path`, or of its `.bak`, which is told; None when neither exists.

    Raises:
        StoreError: something is there, but nothing that parses.
    """
    damage: Exception | None = None
    for candidate in (path, _backup(path)):
        content = b""
        try:
            content = candidate.read_bytes()
            if not content.strip():
                raise HeaderError("the file is empty")
            found = parse(content)
        except FileNotFoundError:
            continue
        except (OSError, HeaderError, ValueError) as error:
            log.error("cannot use %s: %s", candidate, error)
            damage = damage or error
            _keep_damaged(path, content)
        else:
            if candidate != path:
                log.error("%s is read in place of %s: changes since its last save are missing", candidate, path)
            return found
    if damage is not None:
        raise StoreError(f"neither {path} nor its .bak can be used: {damage}")
    return None


def read_table(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return a table that no start goes on without, from its file or its `.bak`; None when neither exists.

    Raises:
        StoreError: something is there, but nothing that parses; it says the way out.
    """
    try:
        return read_generations(path, parse)
    except StoreError as error:
        raise StoreError(f"{error}. {way_out(path)}") from error


def read_newest(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return a table whose former generation is not to come back by itself; None when there is none.

    Raises:
        StoreError: the file is damaged, or gone while its `.bak` is there; it says the way out.
    """
    content = b""
    try:
        content = path.read_bytes()
        if not content.strip():
            raise HeaderError("the file is empty")
        return parse(content)
    except FileNotFoundError as error:
        if not _backup(path).exists():
            return None
        damage: Exception = error
    except (OSError, HeaderError, ValueError) as error:
        _keep_damaged(path, content)
        damage = error
    raise StoreError(
        f"{path} cannot be used: {damage}. Its .bak is not read in its place: what was taken back by the last change would be "
        f"in force again. Bring the file back; or copy {_backup(path).name} to {path.name}, if you want what it says; or, to "
        f"begin with an empty table, write {{}} into {path.name}"
    ) from damage


def way_out(path: Path) -> str:
    """Return what an operator can do about a table that is gone in all its generations."""
    return f"Bring one of them back; or, to begin with an empty table, write {{}} into {path.name}"


def _keep_damaged(path: Path, content: bytes) -> None:
    """Copy content that cannot be parsed to a file that is never written again: operators may still save some of it."""
    if not content.strip():
        return
    for number in range(1, DAMAGED_MAX + 1):
        kept = path.with_name(f"{path.name}.damaged-{number}")
        try:
            if not kept.exists():
                _write(kept, content, path.stat().st_mode & _EVERYBODYS)
                log.error("kept a copy of what was damaged: %s", kept)
                return
            if kept.read_bytes() == content:
                return
        except OSError as error:
            log.error("cannot keep a copy of what was damaged: %s", error)
            return


def _hold(path: Path) -> Path:
    """Give the present file a second name, so that it can become the backup; no moment is without a file of its name."""
    kept = path.with_name(path.name + ".bak.tmp")
    with suppress(FileNotFoundError):
        kept.unlink()
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        _write(kept, path.read_bytes(), path.stat().st_mode & _EVERYBODYS)
    return kept


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _write(path: Path, content: bytes | Iterable[bytes], mode: int) -> None:
    """Write a new file. It has its mode from the first byte on: no other user reads a secret in between."""
    if mode != _EVERYBODYS:
        path.unlink(missing_ok=True)  # what a crash left may be open to others, and another process may have it open
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
