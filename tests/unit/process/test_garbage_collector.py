"""Full garbage collections of a server: when they come, what they pass over, and that nothing is left of it at the end."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from collections.abc import Callable

import pytest

from orbitmq.process.garbage_collector import EVERY_S, short_collections


class Loop:
    """A loop whose one timer runs when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Loop:
        self.timers.append((delay_s, call))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def tick(self) -> None:
        (delay_s, call), self.timers = self.timers[0], []
        assert delay_s == EVERY_S
        call()


class Node:
    """Something that the collector has to visit."""


def grow(count: int) -> list[Node]:
    """Make objects, and let the collections of the younger generations happen that lead to a full one."""
    kept = [Node() for _ in range(count)]
    for _ in range(gc.get_threshold()[1] + 1):
        gc.collect(1)
    return kept


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take the place of freezing and its end, which would be of all objects of the run of tests."""
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    return calls


def test_what_is_there_at_the_start_is_passed_over_until_the_end(calls: list[str]) -> None:
    thresholds = gc.get_threshold()
    loop = Loop()
    with short_collections(loop):  # type: ignore[arg-type]
        assert calls == ["freeze"]
        assert gc.get_threshold()[:2] == thresholds[:2]
        assert gc.get_threshold()[2] > thresholds[2]
    assert calls == ["freeze", "unfreeze"]
    assert gc.get_threshold() == thresholds
    assert loop.cancelled == 1


@pytest.mark.parametrize(("slow_s", "is_passed_over"), [(0.0, True), (math.inf, False)])
def test_what_survived_a_slow_full_collection_is_passed_over(
    slow_s: float, is_passed_over: bool, monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    monkeypatch.setattr("orbitmq.process.garbage_collector.SLOW_S", slow_s)
    loop = Loop()
    with short_collections(loop):  # type: ignore[arg-type]
        grow(1_000)
        assert gc.get_count()[2] > 0
        loop.tick()
        assert gc.get_count()[2] == 0, "there was a full collection"
        assert calls[1:] == ["freeze"] * is_passed_over
        assert len(loop.timers) == 1


def test_a_full_collection_waits_for_some_of_the_younger_ones() -> None:
    loop = Loop()
    with short_collections(loop):  # type: ignore[arg-type]
        gc.collect()
        gc.collect(1)
        loop.tick()
        assert gc.get_count()[2] == 1


async def test_garbage_of_a_running_loop_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.process.garbage_collector.EVERY_S", 0)
    with short_collections(asyncio.get_running_loop()):
        node = Node()
        node.circle = node  # type: ignore[attr-defined]
        seen = weakref.ref(node)
        del node
        grow(0)
        async with asyncio.timeout(30):
            while seen() is not None:
                await asyncio.sleep(0)
