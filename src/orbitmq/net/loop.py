"""The event loop: uvloop where it is installed, plain asyncio elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)


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
            unclosed = _Unclosed()
            with unclosed.kept():
                super().close()
            for text in unclosed.texts:
                warnings.warn(text, ResourceWarning, stacklevel=2)

    return Loop


class _Unclosed:
    """A pattern of a filter of warnings: it keeps uvloop's warnings of the thread that closes a loop, and matches no others.

    `warnings.catch_warnings` is no way to do so: it is the whole process's, and where two threads overlap in it, what the
    inner one has set stays for good.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._thread = threading.get_ident()

    def match(self, text: str) -> bool:
        """Return True if it is such a warning, and keep it."""
        is_one = threading.get_ident() == self._thread and text.startswith("unclosed resource")
        if is_one:
            self.texts.append(text)
        return is_one

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the warnings inside, whatever the other filters say."""
        # A filter's pattern is anything with a method `match`.
        added: Any = ("ignore", self, ResourceWarning, None, 0)
        filters = warnings.filters
        filters.insert(0, added)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for each in (filters, warnings.filters):  # another one, where another thread has come into a catch_warnings
                with suppress(ValueError):
                    each.remove(added)  # type: ignore[attr-defined]


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

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(begin())
    except asyncio.CancelledError:
        if has_begun:
            raise
        # Runner.run forgets a Ctrl-C that comes after it has put up its handler and before it begins to count;
        # no one else can have cancelled what has not begun.
        raise KeyboardInterrupt from None
    finally:
        main.close()


async def do_all(*steps: Callable[[], object]) -> list[BaseException]:
    """Do every step of a stop, whatever becomes of the others; return what those that failed have raised."""
    failures: list[BaseException] = []
    for step in steps:
        try:
            if inspect.isawaitable(done := step()):
                await done
        except (Exception, asyncio.CancelledError) as error:
            log.exception("a step of a stop has failed")
            failures.append(error)
    return failures


@asynccontextmanager
async def stopped_on_failure(stop: Callable[[], object]) -> AsyncIterator[None]:
    """Stop a server whose start fails or is cancelled inside: its caller does not have it yet."""
    try:
        yield
    except BaseException:
        await do_all(stop)
        raise


async def start_together(*starts: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start servers that wait for each other; where one fails, the starts under way are cancelled and have ended.

    Raises:
        BaseException: what the first start that failed has raised.
    """
    tasks = [asyncio.get_running_loop().create_task(start()) for start in starts]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def failure_of(failures: Sequence[BaseException]) -> BaseException:
    """Return what a stop raises of what its steps have raised: a cancellation, else the first."""
    return next((error for error in failures if isinstance(error, asyncio.CancelledError)), failures[0])
