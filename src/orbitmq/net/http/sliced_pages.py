"""Pages that are made in slices: one slice per turn of the loop, all connections together, so that nobody else waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from orbitmq.net.http.page import Answer
from orbitmq.wire.slices import Slices


class SlicedPage(NamedTuple):
    """A page under way.

    Args:
        done: is given the answer.
        failed: is given what went wrong instead.
        is_wanted: False once whoever asked is gone.
    """

    slices: Slices[Answer]
    done: Callable[[Answer], None]
    failed: Callable[[Exception], None]
    is_wanted: Callable[[], bool]


class SlicedPages:
    """Makes pages one after another, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._pages: deque[SlicedPage] = deque()

    def begin(self, page: SlicedPage) -> None:
        """Make a page in the turns of the running loop to come."""
        self._pages.append(page)
        if len(self._pages) == 1:
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        page = self._pages[0]
        if not page.is_wanted() or self._is_done(page):
            page.slices.close()
            self._pages.popleft()
        if self._pages:
            asyncio.get_running_loop().call_soon(self._step)

    def _is_done(self, page: SlicedPage) -> bool:
        try:
            next(page.slices)
        except StopIteration as end:
            page.done(end.value)
        except Exception as error:
            page.failed(error)
        else:
            return False
        return True
