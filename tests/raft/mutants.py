"""Errors that implementations of Raft have had, planted into copies of `orbitmq.raft`: the simulator has to find each.

A mutant is a text in one module and what stands in its place. The copies are packages of their own next to the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from itertools import count
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from types import ModuleType

import orbitmq.raft
from raft.checker import Violation
from raft.simulation import live

PACKAGE = "orbitmq.raft"
SOURCE = Path(orbitmq.raft.__file__).parent
_numbers = count(1)


@dataclass(frozen=True)
class Mutant:
    """One planted error."""

    name: str
    module: str
    before: str
    after: str
    seed: int = 0
    """The seed that has found it before, which is tried first; when the core has changed, another one will."""


MUTANTS = (
    Mutant(
        "a vote for another may be lost",
        "raft.py",
        "            or (hard_state.term, hard_state.vote)",
        "            or hard_state.vote in (0, self.id)\n            and (hard_state.term, hard_state.vote)",
        seed=30,
    ),
    Mutant(
        "a term may be lost",
        "raft.py",
        "(hard_state.term, hard_state.vote) != (before.term, before.vote)",
        "hard_state.vote not in (0, before.vote)",
        seed=193,
    ),
    Mutant(
        "a candidate's own vote counts before it is on its disk",
        "raft.py",
        "        self.vote = self.id  # Counted when it is on the disk, as those of the others.\n",
        "        self.vote = self.id\n        self._count_vote(self.id, is_granted=True)\n",
        seed=36,
    ),
    Mutant(
        "votes without a look at the log",
        "raft.py",
        "is_granted = is_free and request.last.is_as_new_as(self.log.last)",
        "is_granted = is_free",
    ),
    Mutant("the longer log is the newer one", "values.py", "(self.term, self.index) >=", "(0, self.index) >="),
    Mutant(
        "an equal term is enough of a log",
        "values.py",
        "(other.term, other.index)",
        "(other.term, min(self.index, other.index))",
    ),
    Mutant("two votes in one term", "raft.py", "            self.vote == request.sender\n", "            True\n"),
    Mutant("half is a majority", "quorum.py", "return count // 2 + 1", "return (count + 1) // 2", seed=2),
    Mutant(
        "entries of older terms are committed by count",
        "leadership.py",
        " or position.term != self._term",
        "",
        seed=48,
    ),
    Mutant(
        "entries count for the leader before they are on its disk",
        "leadership.py",
        "[self._log.stable, *matches]",
        "[self._log.last.index, *matches]",
        seed=17,
    ),
    Mutant(
        "a leader's entries are appended without a look",
        "log.py",
        "        if not self.matches(previous):",
        "        if self.position(previous.index) is None:",
    ),
    Mutant(
        "an old Append cuts the log",
        "log.py",
        "            if not self.matches(entry.position):\n",
        "            if True:\n",
    ),
    Mutant("a late snapshot throws the log away", "raft.py", "if self.log.matches(position):", "if False:", seed=30),
    Mutant("an old snapshot is taken", "raft.py", "if position.index > self.log.commit:", "if True:", seed=4),
    Mutant(
        "a heartbeat commits what the follower lacks",
        "leadership.py",
        "min(progress.match, self._log.commit)",
        "self._log.commit",
    ),
    Mutant(
        "a replaced entry counts as persisted",
        "log.py",
        "        if self.matches(position):\n            self.stable",
        "        if position.index <= self.last.index:\n            self.stable",
        seed=5,
    ),
    Mutant("a cut log is still persisted", "log.py", "        self.stable = min(self.stable, index - 1)\n", ""),
    Mutant("a vote outlives its term", "raft.py", "self.term, self.vote = term, 0", "self.term = term"),
    Mutant(
        "messages leave before the disk has confirmed",
        "raft.py",
        "must_sync=bool(entries or",
        "must_sync=bool(False and",
    ),
    Mutant(
        "reads need no majority",
        "leadership.py",
        "reached = reached_by_majority(self._confirmed.values())",
        "reached = self.last_round",
        seed=4,
    ),
    Mutant(
        "reads before the term's first commit",
        "leadership.py",
        "        if self._has_committed_in_term:",
        "        if True:",
    ),
    Mutant(
        "answers to older heartbeats confirm reads",
        "leadership.py",
        "self._reads.confirm(answer.sender, answer.read_round)",
        "self._reads.confirm(answer.sender, self._reads.last_round)",
        seed=477,
    ),
    Mutant("a lost Append is never sent again", "leadership.py", "        progress.resume()\n", "", seed=1),
    Mutant(
        "a lost snapshot is never sent again",
        "leadership.py",
        "                    progress.probe()\n",
        "                    pass\n",
        seed=3,
    ),
    Mutant(
        "a rejected Append goes back too far to be sent again",
        "progress.py",
        "max(min(index, match_hint + 1), self.match + 1)",
        "max(min(index, match_hint + 1), self.match + 2)",
        seed=84,
    ),
    Mutant(
        "older leaders never learn of a newer term",
        "raft.py",
        "self._send(Appended(self.id, message.sender, self.term, 0))",
        "pass",
        seed=3,
    ),
    Mutant("everybody has the same time-out", "raft.py", "+ self._draw(self._settings.election_ticks)", "", seed=14),
    Mutant("a transfer never ends", "raft.py", "            leadership.transferee = None\n", "", seed=18),
)


@contextmanager
def planted(mutant: Mutant) -> Iterator[ModuleType]:
    """Provide a copy of the package with one error."""
    alias = f"mutated_raft_{next(_numbers)}"
    with TemporaryDirectory() as folder:
        copy = Path(folder) / alias
        copytree(SOURCE, copy, ignore=ignore_patterns("__pycache__"))
        module = copy / mutant.module
        text = module.read_text()
        assert text.count(mutant.before) == 1, (
            f"{mutant.name}: {text.count(mutant.before)} such places in {mutant.module}"
        )
        module.write_text(text.replace(mutant.before, mutant.after))
        for path in copy.rglob("*.py"):
            path.write_text(path.read_text().replace(PACKAGE, alias))
        sys.path.insert(0, folder)
        try:
            invalidate_caches()
            yield import_module(alias)
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split(".")[0] == alias]:
                del sys.modules[name]


def first_seed_that_finds(mutant: Mutant, seeds: int) -> Violation | None:
    """Return the first violation that the simulator finds with a mutant."""
    with planted(mutant) as core:
        for seed in (mutant.seed, *range(seeds)):
            try:
                live(seed, core)
            except Violation as violation:
                return violation
    return None
