"""The claims of Raft (figure 3 of the paper) and of this implementation, asserted after every step of every node."""

from __future__ import annotations

from typing import Any
from zlib import crc32


class Violation(AssertionError):
    """Something happened that never may."""


def claim(is_true: bool, *words: Any) -> None:
    """Raise unless something is true."""
    if not is_true:
        raise Violation(" ".join(map(str, words)))


class Checker:
    """All that has ever been said and done in one group, to compare the next step with."""

    def __init__(self, disks: dict[int, Disk]) -> None:
        self._disks = disks
        self._leaders: dict[int, tuple[int, int]] = {}
        self._entries: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._committed: dict[int, tuple[int, int]] = {}
        """By index: the term of the entry, and the term in which it was committed."""
        self._digests: dict[int, int] = {0: 0}
        self.last_committed = 0
        self.elections = 0

    def check(self, node: Node) -> None:
        """Compare a node that has just done something with everything before."""
        raft = node.raft
        if raft.role.value == "leader":
            self._check_leader(node)
        if raft.log.commit != node.seen_commit:
            self._check_commit(node)
        claim(raft.log.applied <= raft.log.commit <= raft.log.last.index, "applied, committed, last are out of order")

    def check_ready(self, node: Node, ready: Any) -> None:
        """Check what is about to be persisted: log matching, by induction over the entries as they come."""
        for entry in ready.entries:
            before = node.raft.log.position(entry.index - 1)
            claim(before is not None, "an entry without one before it")
            known = self._entries.setdefault((entry.index, entry.term), (entry.data, before.term))
            claim(known == (entry.data, before.term), "log matching: two entries at", entry.index, entry.term)

    def check_applied(self, index: int, digest: int) -> None:
        """State machine safety: after the entry at `index`, every node is in the same state."""
        known = self._digests.setdefault(index, digest)
        claim(known == digest, "state machine safety: two states after entry", index)

    def check_read(self, index: int, committed_when_asked: int) -> None:
        """Reads see everything that was committed before they were asked for."""
        claim(index >= committed_when_asked, "a read at", index, "does not see", committed_when_asked)

    def _check_leader(self, node: Node) -> None:
        raft = node.raft
        me = (node.id, node.incarnation)
        known = self._leaders.setdefault(raft.term, me)
        claim(known == me, "election safety: two leaders of term", raft.term, known, me)
        if node.checked_term == raft.term:
            return
        node.checked_term = raft.term
        self.elections += 1
        for index, (term, committed_in) in self._committed.items():
            if committed_in < raft.term and index > raft.log.base.index:
                position = raft.log.position(index)
                claim(
                    position is not None and position.term == term,
                    "leader completeness: the leader of term", raft.term, "lacks entry", index, "of term", term,
                )  # fmt: skip

    def _check_commit(self, node: Node) -> None:
        raft = node.raft
        claim(raft.log.commit > node.seen_commit, "a commit index went back")
        for index in range(max(node.seen_commit, raft.log.base.index) + 1, raft.log.commit + 1):
            term = raft.log.position(index).term
            if index not in self._committed:
                self._check_durable(index, term)
                self._committed[index] = (term, raft.term)
                self.last_committed = max(self.last_committed, index)
            claim(self._committed[index][0] == term, "two entries are committed at", index)
        node.seen_commit = raft.log.commit

    def _check_durable(self, index: int, term: int) -> None:
        holders = [id for id, disk in self._disks.items() if disk.has(index, term)]
        claim(
            2 * len(holders) > len(self._disks),
            "entry",
            index,
            "is committed, and only the disks of",
            holders,
            "have it",
        )


class Disk:
    """What would be left of a node after a crash. What was not synced may be left, or not."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.hard_state = core.HardState()
        self.snapshot: Any = None
        self.entries: dict[int, Any] = {}
        self._last = 0
        self._unsynced: list[Any] = []

    def save(self, ready: Any) -> None:
        """Keep what a Ready asks for; for good, if it asks for that."""
        self._unsynced.append(ready)
        if ready.must_sync:
            self.sync()

    def sync(self) -> None:
        """Keep everything."""
        for ready in self._unsynced:
            self._write(ready)
        self._unsynced.clear()

    def forget(self) -> None:
        """Lose what was not synced."""
        self._unsynced.clear()

    def _write(self, ready: Any) -> None:
        if ready.hard_state is not None:
            before, after = self.hard_state, ready.hard_state
            claim(after.term >= before.term, "the term went back")
            claim(after.term > before.term or before.vote in (0, after.vote), "two votes in term", after.term)
            self.hard_state = after
        if ready.snapshot is not None:
            self.snapshot = ready.snapshot
            self.entries.clear()
            self._last = ready.snapshot.position.index
        if ready.entries:
            for index in range(ready.entries[0].index, self._last + 1):
                self.entries.pop(index, None)
            self.entries.update((entry.index, entry) for entry in ready.entries)
            self._last = ready.entries[-1].index

    def compact(self, snapshot: Any, keep: int) -> None:
        """Keep a snapshot of the node's own in place of entries."""
        self.sync()
        self.snapshot = snapshot
        for index in [index for index in self.entries if index <= snapshot.position.index - keep]:
            del self.entries[index]

    def has(self, index: int, term: int) -> bool:
        """Return True if an entry, or a snapshot with it, is there."""
        if self.snapshot is not None and index <= self.snapshot.position.index:
            return True
        return index in self.entries and self.entries[index].term == term

    def load(self) -> Any:
        """Return what a node begins with."""
        entries = tuple(self.entries[index] for index in sorted(self.entries))
        return self._core.Saved(self.hard_state, self.snapshot, entries)


class Node:
    """One node: its disk, and, while it runs, its Raft and its application, which is a checksum of all it was given."""

    def __init__(self, id: int, disk: Disk) -> None:
        self.id = id
        self.disk = disk
        self.raft: Any = None
        self.writing: Any = None
        self.incarnation = 0
        self.seen_commit = 0
        self.checked_term = 0
        self.applied = 0
        self.digest = 0

    def start(self, raft: Any) -> None:
        """Begin with what the disk has."""
        self.raft = raft
        self.writing = None
        self.incarnation += 1
        self.seen_commit = raft.log.base.index
        self.checked_term = 0
        self.applied = self.digest = 0
        if self.disk.snapshot is not None:
            self.restore(self.disk.snapshot)

    def restore(self, snapshot: Any) -> None:
        """Take the application's state from a snapshot."""
        self.applied, self.digest = map(int, snapshot.data.split())
        claim(self.applied == snapshot.position.index, "a snapshot of another index")

    def apply(self, entry: Any) -> None:
        claim(entry.index == self.applied + 1, "entry", entry.index, "is applied after", self.applied)
        self.applied = entry.index
        self.digest = crc32(b"%d %b" % (entry.term, entry.data), self.digest)
