"""Whether a store takes messages, and why not. Pure. The table of states: docs/explain/durability.md."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class StoreState(Enum):
    """The states of a store that takes no messages; of several whose conditions hold, the first one here counts."""

    CLOSED = "closed"
    FENCED = "fenced"
    """A sync failed, or a file was cut from outside: only a restart ends it."""
    COPY = "copy"
    """Of a slave: it takes its master's records alone."""
    FULL = "full"
    UNCOPIED = "uncopied"
    """Too few brokers of the group have what is acknowledged here."""
    BEHIND = "behind"
    """Too much waits for the disk: it ends by itself."""


class Refusal(NamedTuple):
    """Why a message is not taken."""

    state: StoreState
    reason: str


class Availability(NamedTuple):
    """The conditions that hold for a store; each comes and goes alone, with `_replace`."""

    is_copy: bool = False
    is_log_behind: bool = False
    """More of the log than may wait is not on the disk."""
    are_entries_behind: bool = False
    """More entries of consume queues than may wait are not on the disk."""
    full: str | None = None
    """Why nothing may be stored for want of room."""
    uncopied: str | None = None
    """Why messages would have too few copies."""
    fault: str | None = None
    """Why what was stored is not trusted to reach the disk."""
    is_closed: bool = False

    @property
    def refusal(self) -> Refusal | None:
        """Why a message is refused now, None: it is taken."""
        if self.is_closed:
            return Refusal(StoreState.CLOSED, "the store is closed")
        if self.fault is not None:
            return Refusal(StoreState.FENCED, self.fault)
        if self.is_copy:
            return Refusal(StoreState.COPY, "this broker is a slave: it takes messages from its master alone")
        if self.full is not None:
            return Refusal(StoreState.FULL, self.full)
        if self.uncopied is not None:
            return Refusal(StoreState.UNCOPIED, self.uncopied)
        if self.are_entries_behind:
            return Refusal(StoreState.BEHIND, ENTRIES_BEHIND)
        if self.is_log_behind:
            return Refusal(StoreState.BEHIND, "the broker is busy: the disk does not keep up with what waits for it")
        return None


ENTRIES_BEHIND = "the broker is busy: the disk does not take the entries of its consume queues (see queueEntriesMax)"
