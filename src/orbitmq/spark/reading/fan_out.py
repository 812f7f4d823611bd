"""Questions to several servers at the same time: one that does not answer does not delay the answers of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from orbitmq.errors import RequestTimeout

T = TypeVar("T")


class _Query(Generic[T]):
    """One question on its way, in a thread that the process does not wait for."""

    def __init__(self, address: str, question: Callable[[], T]) -> None:
        self.address = address
        self._question = question
        self._done = threading.Event()
        self._outcome: T | Exception | None = None
        threading.Thread(target=self._run, name=f"asking {address}", daemon=True).start()

    def _run(self) -> None:
        try:
            self._outcome = self._question()
        except Exception as error:  # whatever it is, the round hands it on
            self._outcome = error
        self._done.set()

    def outcome(self, timeout_s: float | None) -> T | Exception | None:
        """Return what was answered, or the error; None while there is neither."""
        return self._outcome if self._done.wait(timeout_s) else None


class Rounds(Generic[T]):
    """Asks servers in rounds. A server that has not answered yet is not asked again: its round goes on."""

    def __init__(self) -> None:
        self._late: dict[str, _Query[T]] = {}

    def ask(self, questions: Mapping[str, Callable[[], T]], within_s: float | None) -> dict[str, T | Exception]:
        """Ask each address its question; return the answers, or what failed.

        Args:
            within_s: no server is waited for longer than so many seconds in all: it counts as failed until it has answered what
                he was asked; None: until all have answered.
        """
        due_s = None if within_s is None else time.monotonic() + within_s
        late = (
            {} if within_s is None else {one: asking for one, asking in self._late.items() if asking.outcome(0) is None}
        )
        asked = {address: _Query(address, ask) for address, ask in questions.items() if address not in late}
        found: dict[str, T | Exception] = {
            address: RequestTimeout(f"{address} has not answered yet") for address in questions if address in late
        }
        for address, asking in asked.items():
            outcome = asking.outcome(None if due_s is None else max(0.0, due_s - time.monotonic()))
            if outcome is None:
                late[address] = asking
                outcome = RequestTimeout(f"{address} has not answered within {within_s:g} s")
            found[address] = outcome
        if within_s is not None:
            self._late = late
        return found
