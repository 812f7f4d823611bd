"""Full garbage collections of a server: what they pass over, and that nothing is left of it at the end."""

from __future__ import annotations

import gc
import math

import pytest

from orbitmq.process.collector import short_collections


class Node:
    """Something that the collector has to visit."""


def collected() -> int:
    """Return how many objects a full collection passes over, after one that found a thousand new ones."""
    kept = [Node() for _ in range(1_000)]
    gc.collect()
    passed = gc.get_freeze_count()
    assert len(kept) == 1_000
    return passed


def test_what_is_there_at_the_start_is_passed_over_until_the_end() -> None:
    before = gc.get_freeze_count()
    with short_collections():
        assert gc.get_freeze_count() > before + 1_000
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("slow_s", "is_kept"), [(0.0, True), (math.inf, False)])
def test_what_survived_a_slow_full_collection_is_passed_over_by_the_next(
    slow_s: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.process.collector.SLOW_S", slow_s)
    with short_collections():
        started = gc.get_freeze_count()
        assert (collected() >= started + 1_000) is is_kept


def test_young_collections_pass_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.process.collector.SLOW_S", 0.0)
    with short_collections():
        started = gc.get_freeze_count()
        gc.collect(1)
        assert gc.get_freeze_count() == started
    assert len(gc.callbacks) == len([watch for watch in gc.callbacks if "short_collections" not in repr(watch)])
