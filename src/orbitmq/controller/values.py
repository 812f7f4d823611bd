"""Broker groups as a controller knows them, and the limits of each value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orbitmq.codes import ResponseCode

GROUPS_MAX = 10_000
"""Groups of one controller, those that were cleaned away included."""
REPLICAS_MAX = 64
"""Members of one group."""
TEXT_SIZE_MAX = 255
"""Bytes of a name or an address."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A member of a group. `check_code` shows that a broker that asks for its id again is the one that got it."""

    address: str
    check_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """The brokers of one name: ids are given once, epochs only grow, also when all members are cleaned away.

    Args:
        next_id: the id of the next member.
        master: None while there is none.
        master_epoch: grows with every change of the master, to none as well.
        sync_set: the members that have all that was confirmed.
        was_led: False until the first election since the group began, or began again.
        elected_at_ms: when the master last changed, by the clock of the leader of that time.
    """

    cluster: str
    name: str
    next_id: int = 1
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    master: int | None = None
    master_epoch: int = 0
    sync_set: frozenset[int] = frozenset()
    sync_set_epoch: int = 0
    was_led: bool = False
    elected_at_ms: int = 0

    def address_of(self, broker_id: int | None) -> str | None:
        """Return a member's address; None when there is no such member."""
        replica = self.replicas.get(broker_id) if broker_id is not None else None
        return replica.address if replica is not None else None


class Standing(NamedTuple):
    """The latest that a living member has told of itself: the larger log of the newer epoch wins, then the lower priority.

    `is_complete` is False: its machine stopped, and its log may lack what it acknowledged; None: it does not say (Java's).
    """

    epoch: int = -1
    max_offset: int = -1
    priority: int = 2**31 - 1
    is_complete: bool | None = None


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """The members of one group as the leader sees them.

    Args:
        alive: by id.
        unheard: neither alive nor lost: this controller has not listened for long enough to say.
    """

    alive: Mapping[int, Standing] = field(default_factory=dict)
    unheard: frozenset[int] = frozenset()


class CommandResult(NamedTuple):
    """The end of a command.

    Args:
        group: the group afterwards; None when there is none.
        is_change: False: the state is as before.
    """

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    group: ReplicaGroup | None = None
    is_change: bool = False
