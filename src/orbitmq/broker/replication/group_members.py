"""The members of a controlled group, as its master knows them from the controllers, and those that are missing. Pure.

Shown in health, alerts, metrics and run-time values of the master. A member that begins and dies again every few seconds stays
missing since the first time: it counts as back after it has been alive for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from orbitmq.wire.bodies.controller import BrokerMember

SETTLED_MS = 3_000
"""So long a member has to be away before it is missing, and alive before it is back: a restart takes less."""


class MissingMember(NamedTuple):
    """A member that the controllers know and do not hear; `since_ms`: ms since 1970."""

    broker_id: int
    address: str
    since_ms: int

    @property
    def text(self) -> str:
        """Return its name, and since when it is missing."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return f"{self.broker_id} ({self.address}) since {since:%Y-%m-%d %H:%M:%S} UTC"


class GroupMembers:
    """The members of one group, its master included.

    Args:
        needed: with fewer members there is an error: the group stores nothing (minInSyncReplicas), or has one copy alone.
    """

    def __init__(self, needed: int) -> None:
        self.needed = max(2, needed)
        self.count = 0
        self.missing: tuple[MissingMember, ...] = ()
        self._away: dict[int, MissingMember] = {}
        self._alive_since_ms: dict[int, int] = {}

    def told(self, members: Iterable[BrokerMember], now_ms: int) -> None:
        """Take what the controllers have said of all members at a time (ms since 1970)."""
        known = {member.broker_id: member for member in members}
        self.count = len(known)
        self._away = {broker_id: away for broker_id, away in self._away.items() if broker_id in known}
        for broker_id, member in known.items():
            if not member.is_alive:
                self._alive_since_ms.pop(broker_id, None)
                since_ms = self._away[broker_id].since_ms if broker_id in self._away else now_ms
                self._away[broker_id] = MissingMember(broker_id, member.address, since_ms)
            elif now_ms - self._alive_since_ms.setdefault(broker_id, now_ms) >= SETTLED_MS:
                self._away.pop(broker_id, None)
        self.missing = tuple(
            self._away[broker_id]
            for broker_id in sorted(self._away)
            if now_ms - self._away[broker_id].since_ms >= SETTLED_MS
        )

    @property
    def lacking(self) -> int:
        """How many more members are needed; 0 where none is missing: a group that never had more is what it was made as."""
        return max(0, self.needed - (self.count - len(self.missing))) if self.missing else 0

    @property
    def issue(self) -> str | None:
        """Return which members are missing, what follows, and what to do; None: none is."""
        if not self.missing:
            return None
        there = self.count - len(self.missing)
        names = ", ".join(member.text for member in self.missing)
        follows = f", at least {self.needed} are needed" if self.lacking else ""
        return (
            f"no sign of member {names}: {there} of {self.count} are there{follows}; start it again, or remove it from the "
            "group: orbitmq mqadmin cleanBrokerMetadata"
        )
