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
    """Run `main` to its end on a new loop and return its result."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
