"""The values of Raft: entries, what a node must not forget, and its settings. Pure.

Indexes count entries from 1, terms count elections from 1; 0 is "before the first" of either.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log: two logs that have an entry of this term at this index are equal up to it."""

    index: int
    term: int

    def is_as_new_as(self, other: Position) -> bool:
        """Return True if a log that ends here may lead one that ends there (Raft paper, section 5.4.1)."""
        return (self.term, self.index) >= (other.term, other.index)


ORIGIN = Position(0, 0)
"""Before the first entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log. Empty data is the mark with which a leader begins its term: it changes no state."""

    index: int
    term: int
    data: bytes

    @property
    def position(self) -> Position:
        """Return the entry's place."""
        return Position(self.index, self.term)

    @property
    def is_mark(self) -> bool:
        """Return True if the entry is a leader's own, so that there is nothing to apply."""
        return not self.data


@dataclass(frozen=True, slots=True)
class HardState:
    """What a node must know after a crash besides its log. `vote` is 0 for none; `commit` is a hint that may be old."""

    term: int = 0
    vote: int = 0
    commit: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after the entry at `position`, in the application's own bytes."""

    position: Position
    data: bytes


@dataclass(frozen=True, slots=True)
class Saved:
    """All that a node's disk knows: where a node begins. Entries follow one another, and the snapshot if there is one."""

    hard_state: HardState = HardState()
    snapshot: Snapshot | None = None
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadState:
    """A read that may be answered as soon as the entry at `index` is applied."""

    context: object
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The members, and the limits of a node.

    Args:
        id: this node, from 1.
        voters: all nodes, this one included. The same on each of them.
        election_ticks: silence of a leader, in ticks, after which a node may campaign; it waits for up to twice as long.
            A leader that has not heard from a majority for as long steps down.
        heartbeat_ticks: ticks between two heartbeats.
        pre_vote: ask whether an election could be won before a term is begun, so that a node that comes back does not
            depose a leader that works (Raft thesis, section 9.6).
        check_quorum: a leader steps down without a majority, and followers that hear from theirs give no votes.
        batch_size_max: bytes of entries in one message and in one `Ready.committed`; one entry may be larger.
        inflight_max: messages with entries that one follower has not answered.
        uncommitted_size_max: bytes of proposals that are not committed; more are refused.
    """

    id: int
    voters: frozenset[int]
    election_ticks: int = 10
    heartbeat_ticks: int = 1
    pre_vote: bool = True
    check_quorum: bool = True
    batch_size_max: int = 1 << 20
    inflight_max: int = 64
    uncommitted_size_max: int = 16 << 20

    def __post_init__(self) -> None:
        if not self.voters or min(self.voters) < 1:
            raise InvalidArgument("voters", sorted(self.voters), "numbers from 1")
        if self.id not in self.voters:
            raise InvalidArgument("id", self.id, f"one of the voters {sorted(self.voters)}")
        if not 0 < self.heartbeat_ticks < self.election_ticks:
            raise InvalidArgument("heartbeat_ticks", self.heartbeat_ticks, f"from 1 to {self.election_ticks - 1}")
        for name in ("batch_size_max", "inflight_max", "uncommitted_size_max"):
            if getattr(self, name) < 1:
                raise InvalidArgument(name, getattr(self, name), "at least 1")
