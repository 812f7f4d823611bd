"""The log of one node: entries since the last snapshot, and how far they are persisted, committed and applied. Pure.

All of it is in memory: a controller's log is cut often and has kilobytes. `stable` is the last index that the disk has,
`commit` the last one that a majority has, `applied` the last one that the application has; the log ends at `last`.

Source: etcd-io/raft, log.go and log_unstable.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.errors import LogDiverged
from orbitmq.raft.values import ORIGIN, Entry, Position, Saved, Snapshot


class RaftLog:
    """Entries behind `base`, the last position whose entry was cut off."""

    def __init__(self, saved: Saved) -> None:
        self.snapshot = saved.snapshot
        self.base = saved.snapshot.position if saved.snapshot else ORIGIN
        self._entries = [entry for entry in saved.entries if entry.index > self.base.index]
        indexes = range(self.base.index + 1, self.base.index + 1 + len(self._entries))
        if [entry.index for entry in self._entries] != list(indexes):
            raise LogDiverged(f"the saved entries do not follow one another from {self.base.index + 1} on")
        self.stable = self.last.index
        self.commit = self.applied = self.base.index
        # A hint: the state may have been saved before entries that a crash has taken, and the leader tells it again.
        self.commit_to(min(saved.hard_state.commit, self.last.index))
        self.pending_snapshot: Snapshot | None = None
        """A leader's snapshot that is in place of the log, and not persisted yet."""

    @property
    def last(self) -> Position:
        """The end of the log."""
        return self._entries[-1].position if self._entries else self.base

    def position(self, index: int) -> Position | None:
        """Return the entry's place at `index`; None when the log does not know it (any more)."""
        if index == self.base.index:
            return self.base
        if self.base.index < index <= self.last.index:
            return self._at(index).position
        return None

    def matches(self, position: Position) -> bool:
        """Return True if this log and one that has `position` are equal up to there."""
        return self.position(position.index) == position

    def between(self, first: int, last: int, size_max: int | None = None) -> tuple[Entry, ...]:
        """Return the entries from `first` to `last`, as many as have `size_max` bytes together, but at least one."""
        begin = first - self.base.index - 1
        found = self._entries[begin : max(begin, last - self.base.index)]
        if size_max is None:
            return tuple(found)
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > size_max:
                return tuple(found[: max(count, 1)])
        return tuple(found)

    def extend(self, entries: Sequence[Entry]) -> None:
        """Put entries at the end."""
        self._entries += entries

    def merge(self, previous: Position, entries: Sequence[Entry]) -> int | None:
        """Take a leader's entries that follow `previous`; drop own ones that contradict them, and none else.

        Returns:
            The index up to which the logs are equal now; None when this one has no entry like `previous`.

        Raises:
            LogDiverged: a leader contradicts a committed entry.
        """
        if not self.matches(previous):
            return None
        for count, entry in enumerate(entries):
            if not self.matches(entry.position):
                self._cut(entry.index)
                self.extend(entries[count:])
                break
        return previous.index + len(entries)

    def conflict_hint(self, index: int, term: int) -> Position:
        """Return the last position up to `index` whose term is not higher than `term`.

        A log with an entry of `term` at `index` cannot agree with this one behind it. Where this log knows no term any
        more, the hint says 0 for it.
        """
        index = min(index, self.last.index)
        while (position := self.position(index)) is not None and position.term > term:
            index -= 1
        return position or Position(max(index, 0), 0)

    def commit_to(self, index: int) -> None:
        """Take note that a majority has the log up to `index`.

        Raises:
            LogDiverged: this log, which is said to have it, does not.
        """
        if index <= self.commit:
            return
        if index > self.last.index:
            raise LogDiverged(f"entry {index} is committed, and this log, which had it, ends at {self.last.index}")
        self.commit = index

    @property
    def unstable(self) -> tuple[Entry, ...]:
        """The entries that are not on the disk."""
        return self.between(self.stable + 1, self.last.index)

    def persisted(self, position: Position) -> None:
        """Take note that the disk has the log up to `position`, unless it was replaced meanwhile."""
        if self.matches(position):
            self.stable = max(self.stable, position.index)

    def compact(self, index: int, data: bytes, keep: int) -> Snapshot:
        """Put a snapshot in place of the applied entries up to `index`; leave the last `keep` of them for slow followers."""
        position = self.position(index)
        assert position is not None, "only what the log has can be cut off"
        assert index <= self.applied, "a snapshot has what is applied and no more"
        self.snapshot = Snapshot(position, data)
        cut = self.position(max(self.base.index, index - keep))
        assert cut is not None
        del self._entries[: cut.index - self.base.index]
        self.base = cut
        return self.snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Put a leader's snapshot in place of the whole log."""
        self.snapshot = self.pending_snapshot = snapshot
        self.base = snapshot.position
        self._entries.clear()
        self.stable = self.commit = self.applied = snapshot.position.index

    def _at(self, index: int) -> Entry:
        return self._entries[index - self.base.index - 1]

    def _cut(self, index: int) -> None:
        if index <= self.commit:
            raise LogDiverged(f"the leader contradicts entry {index}, and all up to {self.commit} are committed")
        del self._entries[index - self.base.index - 1 :]
        self.stable = min(self.stable, index - 1)
