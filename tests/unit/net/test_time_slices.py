"""Claims about time slices: a connection with a backlog serves some requests, and then it is the next one's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from orbitmq.net.time_slices import TURN_COUNT, TimeSlices, cost_of
from unit.net.connection.fakes import FakeLoop

ROUND_COST = 4 * TURN_COUNT


class Harness:
    """Peers that have piled up requests, and the order in which they are served."""

    def __init__(self, **left: int) -> None:
        self.loop, self.now_s, self.took_s = FakeLoop(), 0.0, 0.0
        self.turns = TimeSlices(lambda: self.now_s)
        self.left = left
        self.served: list[str] = []
        for name in left:
            self.wait(name)

    def wait(self, name: str) -> None:
        self.turns.wait(self._serve(name), cast(asyncio.AbstractEventLoop, self.loop))

    def _serve(self, name: str) -> Callable[[], int]:
        def serve() -> int:
            self.served.append(name)
            self.left[name] -= 1
            self.now_s += self.took_s
            if self.left[name]:
                self.wait(name)
            return TURN_COUNT

        return serve


def test_peers_are_served_one_after_another():
    harness = Harness(a=3, b=1, c=2)
    harness.loop.turn()
    assert harness.served == ["a", "b", "c", "a"]
    harness.loop.turn()
    assert (harness.served, harness.loop.soon) == (["a", "b", "c", "a", "c", "a"], [])


def test_the_loop_serves_others_between_two_rounds():
    harness = Harness(a=100)
    harness.loop.call_soon(lambda: harness.served.append("others"))
    harness.loop.turn()
    harness.loop.turn()
    assert (harness.served, len(harness.loop.soon)) == (["a"] * 4 + ["others"] + ["a"] * 4, 1)


def test_a_round_ends_early_when_those_who_are_served_take_long():
    harness = Harness(a=9, b=9)
    harness.took_s = 0.003
    harness.loop.turn()
    assert harness.served == ["a", "b"]
    harness.loop.turn()
    assert harness.served == ["a", "b", "a", "b"]


def test_who_comes_after_a_pause_is_served_again():
    harness = Harness(a=1)
    harness.loop.turn()
    harness.left["a"] = 1
    harness.wait("a")
    harness.loop.turn()
    assert harness.served == ["a", "a"]


def test_large_answers_cost_as_much_as_many_requests():
    assert cost_of(3, 0) == 3
    assert cost_of(3, 16 * 1024 - 1) == 3
    assert cost_of(0, 4 * 1024 * 1024) == 256
    assert cost_of(0, 4 * 1024 * 1024) >= ROUND_COST
