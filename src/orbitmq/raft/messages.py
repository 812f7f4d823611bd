"""The messages of Raft, one frozen value for each kind, and the tasks that a node has for its driver. Pure.

Every message names its sender, its receiver and the sender's term; only requests of a pre-vote, and the answers that
grant one, carry the term that the candidate would begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.raft.values import Entry, HardState, Position, ReadState, Snapshot


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of every message."""

    sender: int
    receiver: int
    term: int


@dataclass(frozen=True, slots=True)
class PreVoteRequest(Message):
    """Could I win an election in this term? `last` is the end of the sender's log."""

    last: Position


@dataclass(frozen=True, slots=True)
class PreVoteAnswer(Message):
    """The answer to a PreVoteRequest; it promises nothing."""

    is_granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest(Message):
    """Vote for me in this term. `is_transfer`: the leader itself asked for this campaign."""

    last: Position
    is_transfer: bool = False


@dataclass(frozen=True, slots=True)
class VoteAnswer(Message):
    """The answer to a VoteRequest."""

    is_granted: bool


@dataclass(frozen=True, slots=True)
class Append(Message):
    """Entries that follow `previous`, perhaps none, and how far the leader's log is committed."""

    previous: Position
    entries: tuple[Entry, ...]
    commit: int


@dataclass(frozen=True, slots=True)
class Appended(Message):
    """The sender's disk has the leader's log up to `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class AppendRejected(Message):
    """The sender's log has no entry like `previous` of an Append.

    Args:
        index: of `previous`.
        hint: where the logs may agree, as far as the sender can know: its last entry up to there whose term is not higher.
    """

    index: int
    hint: Position


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """The leader lives. `commit` is not beyond what the receiver has; `read_round` numbers the reads that wait."""

    commit: int
    read_round: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer(Message):
    """The sender follows this leader, and did so after the leader had taken the reads up to `read_round`."""

    read_round: int = 0


@dataclass(frozen=True, slots=True)
class InstallSnapshot(Message):
    """The state in place of entries that the leader no longer has."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class CampaignNow(Message):
    """The leader hands its office to the receiver, whose log is as long as its own."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What the driver has to do, in the order of the fields; then it calls `Raft.advance`.

    Args:
        hard_state: to persist; None when it has not changed.
        snapshot: to persist in place of the whole log, and to load into the application.
        entries: to persist; those of the same or higher indexes on the disk are replaced.
        must_sync: whether the disk has to confirm before anything below is done. When it is False, only `commit` moved.
        messages: to send, once all of the above is on the disk.
        committed: to apply, in order.
        reads: to answer once the state has what they name.
    """

    hard_state: HardState | None
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    must_sync: bool
    messages: tuple[Message, ...]
    committed: tuple[Entry, ...]
    reads: tuple[ReadState, ...]
