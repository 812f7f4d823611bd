"""Waiting in tests: for what is so, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], pause_s: float = 0) -> None:
    """Let the loop turn until something is so; the time limit of tests ends one that waits for ever.

    Args:
        condition: looked at again and again.
        pause_s: seconds between two looks; 0 is one turn of the loop, for what needs neither time nor another process.
    """
    while not condition():
        await asyncio.sleep(pause_s)
