"""The sync set of a controlled group, as its master sees it: the members whose acknowledgements count. Pure.

State: the set that the controller knows, what was proposed to it, and how far each slave was when. In: how far the connected
slaves are, the controller's answers, times. Out: sets to propose, and the members that must have a message.

A member counts from before it is proposed until after it is removed: at each moment the acknowledgements of the master cover
every set that the controller may have by then (apache/rocketmq#5663).

Source: Java AutoSwitchHAService.
"""

from __future__ import annotations

from collections.abc import Mapping

LOST_MS = 500
"""A member without a connection for so long is proposed out."""
BEHIND_MS = 1_500
"""So is one that did not come to what was the log's end then."""
REFUSED_MS = 5_000
"""One that the controllers have refused is not proposed again earlier: it is not a member, and keeps others out."""


class SyncSet:
    """One master's view, for one epoch of its.

    Args:
        master: its own id, a member always.
        ids: the set that the controller has told.
        epoch: how often that has changed.
        now_ms: the start, from which members have time to connect.
    """

    def __init__(self, master: int, ids: frozenset[int], epoch: int, now_ms: int) -> None:
        self.ids = ids
        self.epoch = epoch
        self.proposed: frozenset[int] | None = None
        """What the controller was asked for, until it is known what became of it."""
        self._master = master
        self._joining: frozenset[int] = frozenset()
        self._seen_ms = dict.fromkeys(ids, now_ms)
        self._current_ms = dict.fromkeys(ids, now_ms)
        self._targets: dict[int, int] = {}
        self._refused_ms: dict[int, int] = {}

    @property
    def needed(self) -> frozenset[int]:
        """The slaves that must have a message before it is acknowledged."""
        return (self.ids | (self.proposed or frozenset()) | self._joining) - {self._master}

    def decide(self, ends: Mapping[int, int], log_end: int, confirmed: int, now_ms: int) -> frozenset[int] | None:
        """Return the set to propose, None: it stays, or a proposal is under way.

        Args:
            ends: up to where each connected slave has the log, by id.
            confirmed: up to where messages were acknowledged, or may have been.
        """
        current = self._note(ends, log_end, now_ms)
        if self.proposed is not None:
            return None
        lost = {
            member
            for member in self.ids - {self._master}
            if now_ms - self._seen_ms.get(member, now_ms) >= LOST_MS
            or now_ms - self._current_ms.get(member, now_ms) >= BEHIND_MS
        }
        if lost:
            self._joining = frozenset()
            self.proposed = self.ids - lost
            return self.proposed
        # Who joins counts first, so that what is acknowledged goes on no further than it is; then it can reach that.
        refused = {member for member, since_ms in self._refused_ms.items() if now_ms - since_ms < REFUSED_MS}
        following = {member for member in self._joining & ends.keys() if now_ms - self._current_ms[member] < LOST_MS}
        self._joining = frozenset(following | current) - self.ids - refused
        ready = {member for member in self._joining if ends[member] >= confirmed}
        if not ready:
            return None
        # One by one: a refusal is one of all that are proposed.
        self.proposed = self.ids | {min(ready)}
        return self.proposed

    def told(self, ids: frozenset[int], epoch: int, now_ms: int) -> None:
        """Take the set that the controller has, of this master's epoch; older ones are left out.

        The same set once more says nothing of what was proposed: it may become the set still.
        """
        if epoch <= self.epoch:
            return
        for member in ids - self.ids:
            self._seen_ms[member] = self._current_ms[member] = now_ms
        self.ids, self.epoch, self.proposed = ids, epoch, None
        self._joining -= ids

    def settled(self, proposal: frozenset[int], ids: frozenset[int], epoch: int, now_ms: int) -> None:
        """Take the set that the controller has after a proposal, which has not, and will not become it if it is another."""
        if epoch == self.epoch and proposal == self.proposed:
            for member in proposal - ids:
                self._refused_ms[member] = now_ms
            self._joining -= proposal
            self.proposed = None
        self.told(ids, epoch, now_ms)

    def _note(self, ends: Mapping[int, int], log_end: int, now_ms: int) -> frozenset[int]:
        """Note how far slaves are; return those that have what was the log's end at the last look."""
        current = set()
        for member, end in ends.items():
            self._seen_ms[member] = now_ms
            if end >= self._targets.get(member, log_end):
                self._current_ms[member] = now_ms
                current.add(member)
                self._targets[member] = log_end
            elif member not in self._targets:
                self._targets[member] = log_end
        for gone in self._targets.keys() - ends.keys():
            del self._targets[gone]
        return frozenset(current)
