"""The one other thread: it syncs files, and reports back to the loop.

The loop decides what is synced next; the thread only does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Task = Callable[[], None]
Done = Callable[[Exception | None], None]


class Flusher:
    """A thread that runs one task after another.

    Args:
        loop: where the outcomes are reported.
        name: the thread's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "orbitmq-flusher") -> None:
        self._loop = loop
        self._tasks: SimpleQueue[tuple[Task, Done] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[Done, Exception | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Task, done: Done) -> None:
        """Run `task` on the thread, then `done(error)` on the loop."""
        self._tasks.put((task, done))

    def stop(self) -> None:
        """Return when everything submitted has ended and was reported: no outcome gets lost on the way out."""
        self._tasks.put(None)
        self._thread.join()
        self._report()

    def _run(self) -> None:
        while (item := self._tasks.get()) is not None:
            task, done = item
            error: Exception | None = None
            try:
                task()
            except Exception as caught:  # judged on the loop, whatever it is
                error = caught
            # A queue besides the loop's own: `stop` reports what is left there without the loop having to turn.
            self._outcomes.put((done, error))
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                done, error = self._outcomes.get_nowait()
                done(error)
