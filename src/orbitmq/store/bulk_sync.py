"""The system call `syncfs`: everything that a file system holds back reaches the disk in one call.

Syncing two thousand small files one after the other takes seconds, for each waits for the disk; all in one call take a
tenth. But it has to tell of each write that was lost, as `fdatasync` does, or lost bytes would count as synced.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from functools import cache
from typing import Any

_TELLING = {0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs"}
"""Types of file systems (statfs) of which `syncfs` is known to wait for the disk. FUSE and others may not."""
_KERNEL_MIN = (5, 17)
"""Older ones have `syncfs` succeed after a lost write, or where the file system could not write its journal."""
_STATFS_SIZE = 256


def tells_of_lost_writes(descriptor: int) -> bool:
    """Return True if `sync_file_system` can be relied upon for the file system of an open file."""
    if platform.system() != "Linux" or kernel_version(platform.release()) < _KERNEL_MIN:
        return False
    found = ctypes.create_string_buffer(_STATFS_SIZE)
    try:
        is_known = _libc().fstatfs(descriptor, found) == 0
    except AttributeError:  # another C library
        return False
    return is_known and ctypes.c_long.from_buffer(found).value in _TELLING


def sync_file_system(descriptor: int) -> None:
    """Return when the file system of an open file has everything on the disk that was written to it.

    Raises:
        OSError: some write was lost since the descriptor was opened, whichever file it went to.
    """
    if _libc().syncfs(descriptor):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def kernel_version(release: str) -> tuple[int, ...]:
    """Return the first two numbers of a kernel's release, fewer where it has none. Pure."""
    return tuple(int(number) for number in re.findall(r"\d+", release)[:2])


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
