"""Whether a broker holds a store: asked without taking its locks, not even for a moment."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from struct import pack, unpack

_FORMAT = "hhqqi4x"
_LOCKS = Path("/proc/locks")


def is_running(root: Path) -> bool:
    """Say whether a broker, ours or Java's, has a store open."""
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
