"""The tasks that a Raft node has for its driver: the one way out of the state machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.raft.messages import Message
from orbitmq.raft.values import Entry, HardState, ReadState, Snapshot


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
