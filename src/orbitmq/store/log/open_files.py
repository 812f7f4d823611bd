"""The files of a store that are open now, within a limit: those not used for longest are closed first.

A file is closed only when nothing in it waits for a sync: Linux reports a lost write to those that have the file open, and may
have forgotten it when the file is opened again.
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

_MAP_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPS_DEFAULT = 65_530
_SHARE = 4
_FILES_MIN = 16


class Openable(Protocol):
    """A file that is opened when it is needed; using it again opens it again."""

    was_used: bool
    """Set by every use, cleared by the search for the one to be closed."""
    holders: int
    """How many rely on it to stay open."""

    @property
    def descriptor_count(self) -> int:
        """How many descriptors it takes while it is open."""

    @property
    def map_count(self) -> int:
        """How many memory maps it takes while it is open."""

    def close(self) -> None:
        """Close it; it leaves the table by `OpenFiles.left`."""


class OpenFiles:
    """The open files, in about the order of their last use (the clock algorithm: a use costs one assignment).

    Args:
        descriptors_max: of all files together; files that are held stay open beyond it.
    """

    def __init__(self, descriptors_max: int) -> None:
        self.descriptors_max = descriptors_max
        self.descriptors = 0
        self.maps = 0
        self.evicted_count = 0
        """Files closed to make room for others, since the store was opened."""
        self._files: OrderedDict[Openable, None] = OrderedDict()

    def entered(self, file: Openable) -> None:
        """Take note of a file that was opened; close others where it is one too many."""
        self._files[file] = None
        self.descriptors += file.descriptor_count
        self.maps += file.map_count
        if self.descriptors > self.descriptors_max:
            file.holders += 1
            self._evict()
            file.holders -= 1

    def left(self, file: Openable) -> None:
        """Take note of a file that was closed."""
        del self._files[file]
        self.descriptors -= file.descriptor_count
        self.maps -= file.map_count

    def _evict(self) -> None:
        # Every file gets a second chance, so two rounds find whatever can be closed.
        for _ in range(2 * len(self._files)):
            if self.descriptors <= self.descriptors_max:
                return
            oldest = next(iter(self._files))
            if oldest.holders or oldest.was_used:
                oldest.was_used = False
                self._files.move_to_end(oldest)
            else:
                oldest.close()
                self.evicted_count += 1


def affordable_files(wanted: int, descriptors: int, maps: int) -> int:
    """Return how many descriptors the files of a store may take. Pure.

    A quarter of what the process may have: clients' connections get half. A mapped file takes two descriptors and one
    map, so maps stay below half of what the kernel allows.

    Args:
        wanted: what was configured; 0: as many as can be afforded.
        descriptors: how many the process may have; 0: any number.
        maps: how many memory maps the kernel allows.
    """
    affordable = min(descriptors // _SHARE, maps) if descriptors else maps
    return max(min(wanted, affordable) if wanted else affordable, _FILES_MIN)


def allowed_descriptors() -> int:
    """Return how many descriptors this process may have; 0: any number."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def allowed_maps() -> int:
    """Return how many memory maps this process may have (vm.max_map_count)."""
    try:
        return int(_MAP_LIMIT.read_text())
    except (OSError, ValueError):
        return _MAPS_DEFAULT
