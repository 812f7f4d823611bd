"""An event loop and a flusher's thread that are moved by hand: every order of their steps can be played, and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from orbitmq.store.sync.flusher import Done, Task


class HandTimer:
    """What `call_later` returns."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act

    def cancel(self) -> None:
        self.act = None


class HandLoop:
    """As much of an event loop as the store asks for; its time moves with `advance`."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._ready: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, HandTimer]] = []
        self._arrival = count()

    def time(self) -> float:
        return self._now_s

    def call_soon(self, act: Callable[..., None], *arguments: Any) -> None:
        self._ready.append(lambda: act(*arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, act: Callable[[], None]) -> HandTimer:
        timer = HandTimer(act)
        heappush(self._timers, (self._now_s + delay_s, next(self._arrival), timer))
        return timer

    def turn(self) -> None:
        """Run what is ready now."""
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def advance(self, duration_s: float) -> None:
        """Let time go by, with every timer at its moment."""
        end = self._now_s + duration_s
        while self._timers and self._timers[0][0] <= end:
            self._now_s, _, timer = heappop(self._timers)
            if timer.act is not None:
                timer.act()
            self.turn()
        self._now_s = end


class HandFlusher:
    """Stands where `orbitmq.store.sync.flusher.Flusher` would: a task runs when `work` is called."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self._tasks: deque[tuple[Task, Done]] = deque()
        self._outcomes: deque[tuple[Done, Exception | None]] = deque()

    def submit(self, task: Task, done: Done) -> None:
        self._tasks.append((task, done))

    def work(self) -> bool:
        """Do what was submitted first; False: nothing was."""
        if not self._tasks:
            return False
        task, done = self._tasks.popleft()
        error: Exception | None = None
        try:
            task()
        except Exception as caught:
            error = caught
        self._outcomes.append((done, error))
        self._loop.call_soon(self._report)
        return True

    def stop(self) -> None:
        while self._tasks:
            self.work()
        self._report()

    def _report(self) -> None:
        while self._outcomes:
            done, error = self._outcomes.popleft()
            done(error)
