"""One call of a user's handler, async or not, with an end in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar

T = TypeVar("T")


async def call_handler(handler: Callable[[T], Awaitable[object] | object], argument: T, timeout_ms: int) -> None:
    """Call a handler and wait until it has ended.

    Args:
        timeout_ms: an async handler that takes longer is cancelled.

    Raises:
        Exception: what the handler raises; TimeoutError when it takes too long.
    """
    try:
        result = handler(argument)
        if isawaitable(result):
            async with asyncio.timeout(timeout_ms / 1000):
                await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled the task that handles messages, but something that the handler waited for. Passed on, it
        # would end that task for ever.
        raise RuntimeError("what the handler waited for was cancelled") from error
