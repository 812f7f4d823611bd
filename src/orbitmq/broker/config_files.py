"""The small files under `store/config`: replaced whole, never half-written, the previous one kept as `.bak`.

Upstream #3401 lost them to power cuts. Here a new generation is written beside the old one, synced, renamed over it,
and the directory is synced; whoever loads takes the `.bak` when the file itself is damaged.

Source: docs/formats/config_files.md; facts C13.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from orbitmq.errors import HeaderError, StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")


def write_config_file(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, durably; what was there becomes `path.bak`.

    Raises:
        OSError: the disk refused; the old content is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        _keep_previous(path)
    os.replace(temporary, path)
    _sync_directory(path.parent)


def read_config_file(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return the parsed content of `path`, or of its `.bak`; None when neither exists.

    Raises:
        StoreError: something is there, but nothing that parses.
    """
    damage: Exception | None = None
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
            if not data.strip():
                raise HeaderError("the file is empty")
            return parse(data)
        except FileNotFoundError:
            continue
        except (OSError, HeaderError, ValueError) as error:
            log.error("cannot use %s: %s", candidate, error)
            damage = damage or error
    if damage is not None:
        raise StoreError(f"neither {path} nor its .bak can be used: {damage}")
    return None


def _keep_previous(path: Path) -> None:
    """Make the present file the backup without a moment in which neither name exists."""
    link = path.with_name(path.name + ".bak.tmp")
    with suppress(FileNotFoundError):
        link.unlink()
    try:
        os.link(path, link)
    except OSError:  # a file system without hard links
        link.write_bytes(path.read_bytes())
    os.replace(link, _backup(path))


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
