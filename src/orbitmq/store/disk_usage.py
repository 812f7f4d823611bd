"""Disk usage: how much of the disk below a store is taken."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple, TypeVar, cast

T = TypeVar("T")


class DiskUsage(NamedTuple):
    """Bytes of a file system: all there are, those that are used, and those that a process may still take."""

    total: int
    used: int
    free: int

    @property
    def used_ratio(self) -> float:
        """Share that is used, 0 to 1, as `df` says: what only the superuser may use counts on neither side."""
        return self.used / (self.used + self.free or 1)


def ask_aside(ask: Callable[[], T]) -> asyncio.Future[T]:
    """Ask a disk something on a thread of its own, for which no exit waits: a disk that hangs may never answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def give(found: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(cast(T, found))

    def work() -> None:
        found, failure = None, None
        try:
            found = ask()
        except BaseException as error:  # the waiter gets every error
            failure = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(give, found, failure)

    Thread(target=work, name="orbitmq-disk-usage", daemon=True).start()
    return answer


def disk_usage(path: Path) -> DiskUsage:
    """Ask the file system that holds `path`. Raises OSError."""
    found = os.statvfs(path)
    unit = found.f_frsize
    return DiskUsage(found.f_blocks * unit, (found.f_blocks - found.f_bfree) * unit, found.f_bavail * unit)
