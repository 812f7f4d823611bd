"""The event loop: uvloop where it is installed, plain asyncio elsewhere."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's loops, or None for asyncio's own."""
    try:
        import uvloop  # noqa: F401 - missing on Windows
    except ImportError:
        return None
    return _loop_class()


@cache
def _loop_class() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    class Loop(uvloop.Loop):
        """uvloop's loop, which closes also where warnings are errors.

        uvloop warns of each handle that is still open and closes it afterwards (`__uv_walk_close_all_handles_cb`). Where
        the warning is an error, as pytest can make it, the handle stays open and `close` waits for it without end.
        """

        def close(self) -> None:
            with warnings.catch_warnings(record=True) as unclosed:
                warnings.simplefilter("always", ResourceWarning)
                super().close()
            for warning in unclosed:
                warnings.warn(warning.message, stacklevel=2)

    return Loop


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
