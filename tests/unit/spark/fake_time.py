"""A clock of one module: only its own sleeping and the test move it, and no other code in the process sees it."""

from __future__ import annotations

from collections.abc import Callable


class FakeTime:
    """Stands in for the module `time`: `monkeypatch.setattr(module, "time", clock)`.

    Never patch `time.monotonic` itself: the event loops of the client and of the fake broker live by it.
    """

    def __init__(self, now: float = 1000.0, asleep: Callable[[], None] = lambda: None) -> None:
        self.now = now
        self.waits: list[float] = []
        """How long was slept, in seconds, one number a time."""
        self.asleep = asleep
        """Called at each sleep: what happens meanwhile."""

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        self.asleep()
