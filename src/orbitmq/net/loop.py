"""The event loop: uvloop where it is installed, plain asyncio elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory, or None for asyncio's own."""
    try:
        import uvloop  # missing on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new loop and return its result.

    Raises:
        KeyboardInterrupt: on Ctrl-C, after `main` was cancelled and has ended.
    """
    has_begun = False

    async def begin() -> T:
        nonlocal has_begun
        has_begun = True
        return await main

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(begin())
        except asyncio.CancelledError:
            if has_begun:
                raise
            # Runner.run forgets a Ctrl-C that comes after it has put up its handler and before it begins to count;
            # nobody else can have cancelled what has not begun.
            raise KeyboardInterrupt from None
        finally:
            main.close()
