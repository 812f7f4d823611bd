"""Errors planted into the decisions of failover: the simulator has to find each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from failover.group import Violation, live
from orbitmq.controller import decisions
from orbitmq.ha import epochs
from orbitmq.ha.replica_acks import ReplicatedEnd, SyncMembers
from orbitmq.ha.sync_set import SyncSet


@dataclass(frozen=True)
class Mutant:
    """One planted error."""

    name: str
    owner: Any
    attribute: str
    stand_in: Callable[[Any], Any]
    """Gets what is there, returns what stands in its place."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with mock.patch.object(self.owner, self.attribute, self.stand_in(getattr(self.owner, self.attribute))):
            yield


def _removed_immediately(real: Any) -> Any:
    def decide(self: Any, *arguments: Any) -> Any:
        wanted = real(self, *arguments)
        if wanted is not None and wanted < self.ids:
            self.ids = wanted
        return wanted

    return decide


def _clears_proposals(real: Any) -> Any:
    def told(self: Any, ids: Any, epoch: int, now_ms: int) -> None:
        if epoch >= self.epoch:
            self.proposed, self._joining = None, frozenset()
        real(self, ids, epoch, now_ms)

    return told


def _takes_any(_real: Any) -> Any:
    def told(self: Any, ids: Any, epoch: int, now_ms: int) -> None:
        self.ids, self.epoch, self.proposed = ids, epoch, None
        self._seen_ms |= dict.fromkeys(ids, now_ms)
        self._current_ms |= dict.fromkeys(ids, now_ms)

    return told


def _show_all(_real: Any) -> Any:
    def advance(self: Any, log_end: int, known: Any, now_ms: int) -> int:
        self.end = log_end
        return log_end

    return advance


MUTANTS = (
    Mutant("a member that joins does not count", SyncSet, "needed",
           lambda _: property(lambda self: self.ids - {self._master})),
    Mutant("a member that joins lacks what was acknowledged", SyncSet, "decide",
           lambda real: lambda self, ends, log_end, confirmed, now_ms: real(self, ends, log_end, 0, now_ms)),
    Mutant("a member is left out before the controllers know", SyncSet, "decide", _removed_immediately),
    Mutant("an old set from the controllers ends a proposal", SyncSet, "told", _clears_proposals),
    Mutant("any set that is told counts, also an older one", SyncSet, "told", _takes_any),
    Mutant("one member of the set is enough", SyncMembers, "end_of",
           lambda _: lambda self, known: max([one.end for one in known], default=-1) if self.ids else 2**63 - 1),
    Mutant("the first member of the set is enough", SyncMembers, "end_of",
           lambda real: lambda self, known: real(SyncMembers(frozenset(sorted(self.ids)[:1])), known)),
    Mutant("slaves of the set are waited for no longer than a time", SyncMembers, "is_needed",
           lambda _: property(lambda self: False)),
    Mutant("readers see what nothing has confirmed", ReplicatedEnd, "advance", _show_all),
    Mutant("an old master's tail is not cut", epochs, "common_end", lambda _: lambda own, master, end: 1 << 40),
    Mutant("a new master begins no epoch", epochs, "begin_epoch",
           lambda real: lambda own, epoch, start, end: tuple(own) or real(own, epoch, start, end)),
    Mutant("a member outside of the set is elected", decisions, "elect",
           lambda real: lambda group, living, **rules: real(group, living, **{**rules, "is_unclean": True})),
    Mutant("a member whose machine stopped counts as complete", decisions, "_is_complete",
           lambda _: lambda broker_id, living: broker_id in living.alive),
    Mutant("incomplete members do not wait for the others", decisions, "_trusted",
           lambda _: lambda members, living, *, is_late: members),
    Mutant("of incomplete members the first is elected", decisions, "_rank", lambda _: lambda broker_id, living: broker_id),
    Mutant("a master that was elected, and never began, is alone in the set", decisions, "_first_sync_set",
           lambda _: lambda group, elected, living: frozenset([elected])),
    Mutant("a sync set of an older epoch is taken", decisions, "_check_sync_set", lambda _: lambda group, command: (0, "")),
)  # fmt: skip


def first_seed_that_finds(mutant: Mutant, seeds: int) -> int | None:
    """Return the first seed whose life breaks a claim with this error planted."""
    with mutant.planted():
        for seed in range(seeds):
            try:
                live(seed)
            except (Violation, AssertionError, IndexError):
                return seed
    return None
