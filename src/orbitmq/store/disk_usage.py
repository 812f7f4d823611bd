"""Disk usage: how much of the disk below a store is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class DiskUsage(NamedTuple):
    """Bytes of a file system: all there are, those that are used, and those that a process may still take."""

    total: int
    used: int
    free: int

    @property
    def used_ratio(self) -> float:
        """Share that is used, 0 to 1, as `df` says: what only the superuser may use counts on neither side."""
        return self.used / (self.used + self.free or 1)


def disk_usage(path: Path) -> DiskUsage:
    """Ask the file system that holds `path`. Raises OSError."""
    found = os.statvfs(path)
    unit = found.f_frsize
    return DiskUsage(found.f_blocks * unit, (found.f_blocks - found.f_bfree) * unit, found.f_bavail * unit)
