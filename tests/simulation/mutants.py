"""Errors planted into brokers and clients: the simulator has to find each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any
from unittest import mock

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.store import Store
from orbitmq.store.recovery import Recovery
from simulation.cluster import live


@dataclass(frozen=True)
class Mutant:
    """One planted error."""

    name: str
    owner: type
    attribute: str
    stand_in: Callable[[Any], Any]
    """Gets what is there, returns what stands in its place."""
    seed: int
    """One that has found it before, which is tried first."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with mock.patch.object(self.owner, self.attribute, self.stand_in(getattr(self.owner, self.attribute))):
            yield


def _commit_one_more(real: Any) -> Any:
    def commit(self: Any, group: str, topic: str, queue_id: int, queue_offset: int, *, offset_max: int) -> int:
        return int(real(self, group, topic, queue_id, queue_offset + 1, offset_max=offset_max))

    return commit


def _register_once(real: Any) -> Any:
    async def register(self: Any, entry: Any) -> None:
        if entry.generation < 0:
            await real(self, entry)

    return register


MUTANTS = (
    Mutant("a broker answers before the sync", Store, "wait_durable", lambda real: lambda *_: True, 12),
    Mutant("a consumer commits what it has only got", ProcessQueue, "consumed_offset",
           lambda real: property(lambda self: self.pull_offset), 1),
    Mutant("a group's offset is one too many", GroupOffsets, "commit", _commit_one_more, 1),
    Mutant("what no queue has yet is forgotten at a start", Recovery, "_place_in_queue", lambda real: lambda *_: None, 4),
    Mutant("a broker registers with each NameServer once", Registrar, "_register", _register_once, 1),
)  # fmt: skip


def first_seed_that_finds(mutant: Mutant, seeds_max: int) -> int | None:
    """Return the first seed in whose life a claim does not hold, None when there is none."""
    with mutant.planted():
        for seed in chain((mutant.seed,), range(seeds_max)):
            try:
                live(seed)
            except AssertionError:
                return seed
    return None
