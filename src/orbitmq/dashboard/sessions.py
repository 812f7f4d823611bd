"""Roles, sessions of the dashboard, and how often a login may be tried. Pure: time and tokens come in."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

C = TypeVar("C")

SESSIONS_MAX = 1_000
"""Open sessions; the one that was used least recently ends when there are more."""
SESSION_MS = 8 * 3_600_000
"""How long a session lasts after its login."""
IDLE_MS = 3_600_000
"""How long it lasts after its last request."""
COOKIE = "orbitmq_session"
CHECKED_MS = 30_000
"""How old the last look-up of a session's user may be when a page is shown; before a change there is one each time."""
ATTEMPTS_MAX, ATTEMPTS_MS = 5, 60_000
"""Failed logins of one name in so much time; the next ones are refused without a look."""
ADDRESS_ATTEMPTS_MAX = 30
"""Failed logins from one address in so much time, whatever their names are."""
NAMES_MAX = 10_000


class Role(StrEnum):
    """What a user may do; each may all that the one before may."""

    READER = "reader"
    """Look at everything."""
    OPERATOR = "operator"
    """Send messages, send them again, set where groups go on, take and give write permission."""
    ADMIN = "admin"
    """Create, change and delete topics, groups, users and rules; change settings of brokers."""

    def may(self, needed: Role) -> bool:
        """Return True if this role includes another one."""
        return _RANK[self] >= _RANK[needed]


_RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(slots=True, kw_only=True)
class Session(Generic[C]):
    """A user that is logged in, or, where there is no login, all who reach the port.

    Args:
        csrf: a secret that every form holds: what another site sends does not know it.
        clients: what the user's pages ask the cluster with.
        notices: what is to be said on the next page.
        made: the outcomes of changes by the forms that were sent.
        login: the user as `Logins` has found it; None where there is no login.
        is_super: what no broker judges is allowed: requests to NameServers, and what the dashboard's own key has found.
        checked_ms: when the user was last looked up.
    """

    user: str
    role: Role
    csrf: str
    clients: C
    began_ms: int = 0
    seen_ms: int = 0
    notices: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    login: Any = None
    is_super: bool = True
    checked_ms: int = 0

    def may(self, role: str) -> bool:
        """Return True if the user may do what a role may; templates ask by its name."""
        return self.role.may(Role(role))

    def take_notices(self) -> list[str]:
        """Return what is to be said, once."""
        taken, self.notices = self.notices, []
        return taken


class Sessions(Generic[C]):
    """Sessions by the secret of their cookie."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Session[C]] = OrderedDict()

    def add(self, token: str, session: Session[C], now_ms: int) -> list[Session[C]]:
        """Open a session; return those that end because there are too many, or because their time is over."""
        session.began_ms = session.seen_ms = session.checked_ms = now_ms
        self._open[token] = session
        ended = self._expire(now_ms)
        while len(self._open) > SESSIONS_MAX:
            ended.append(self._open.popitem(last=False)[1])
        return ended

    def find(self, token: str | None, now_ms: int) -> Session[C] | None:
        """Return the session of a cookie; None: there is none, or its time is over."""
        session = self.peek(token, now_ms)
        if session is not None:
            session.seen_ms = now_ms
            self._open.move_to_end(token or "")
        return session

    def peek(self, token: str | None, now_ms: int) -> Session[C] | None:
        """Return what `find` does; it counts as no use of the session."""
        session = self._open.get(token or "")
        return session if session is not None and _is_live(session, now_ms) else None

    def remove(self, token: str | None) -> Session[C] | None:
        """End a session, and return it."""
        return self._open.pop(token or "", None)

    def all(self) -> list[Session[C]]:
        """Return all that are open."""
        return list(self._open.values())

    def _expire(self, now_ms: int) -> list[Session[C]]:
        over = [token for token, session in self._open.items() if not _is_live(session, now_ms)]
        return [self._open.pop(token) for token in over]


def _is_live(session: Session[C], now_ms: int) -> bool:
    return now_ms - session.began_ms < SESSION_MS and now_ms - session.seen_ms < IDLE_MS


class Attempts:
    """Failed logins by name and by address, and where each name has logged in last."""

    def __init__(self) -> None:
        self._failed: OrderedDict[tuple[str, ...], deque[int]] = OrderedDict()
        self._addresses: OrderedDict[str, str] = OrderedDict()

    def is_known(self, name: str, address: str) -> bool:
        """Return True if a name has logged in last from an address. What fails elsewhere does not count there."""
        return self._addresses.get(name) == address

    def wait_ms(self, name: str, address: str, now_ms: int) -> int:
        """Return how long a name has to wait at an address until it may try again; 0: it may try now."""
        waits = [0]
        for key, count_max in self._limits(name, address):
            times = self._failed.get(key, deque())
            while times and now_ms - times[0] >= ATTEMPTS_MS:
                times.popleft()
            if len(times) >= count_max:
                waits.append(times[-count_max] + ATTEMPTS_MS - now_ms)
        return max(waits)

    def failed(self, name: str, address: str, now_ms: int) -> None:
        """Count a login that failed, or that may fail yet: those that run at the same time count, too."""
        for key, count_max in self._limits(name, address):
            self._failed.setdefault(key, deque(maxlen=count_max)).append(now_ms)
            self._failed.move_to_end(key)
        while len(self._failed) > NAMES_MAX:
            self._failed.popitem(last=False)

    def forgive(self, name: str, address: str) -> None:
        """Take back the last one that was counted: it has not failed."""
        for key, _ in self._limits(name, address):
            times = self._failed.get(key)
            if times:
                times.pop()

    def succeeded(self, name: str, address: str) -> None:
        """Remember where a name has logged in, and take back what was counted."""
        self.forgive(name, address)
        self._addresses[name] = address
        self._addresses.move_to_end(name)
        if len(self._addresses) > NAMES_MAX:
            self._addresses.popitem(last=False)

    def _limits(self, name: str, address: str) -> list[tuple[tuple[str, ...], int]]:
        if self.is_known(name, address):
            return [((name, address), ATTEMPTS_MAX)]
        return [(("name", name, ""), ATTEMPTS_MAX), (("address", address, ""), ADDRESS_ATTEMPTS_MAX)]
