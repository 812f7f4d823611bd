"""The attempts of one send, and fault tolerance: which brokers a producer avoids, and until when. Pure.

State: what the attempts met. In: outcomes, and the time in seconds of any one clock. Out: pauses, and when it is over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionBroken, ConnectionFailed, OrbitError, RemoteRefused, RouteNotFound

FIRST_PAUSE_MS = 200
"""Before the next attempt on a broker that has just failed; four times as long with each one."""
PAUSE_MAX_MS = 1_000
"""A broker that is back is noticed so soon, however long it was away."""

_NOT_NOW = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.GO_AWAY,
    ResponseCode.NOT_LEADER_FOR_QUEUE,
)
"""With these a broker says that it has stored nothing, and that another time is better, or, by then, another broker."""


class Attempts:
    """What one send has tried so far.

    Attempts that reached no broker, or a broker that is busy or not ready, do not count: such a broker is
    waited for until the time is over. Unless there are to be no retries at all.

    Args:
        retries: attempts after the first one, of those that count.
        deadline_s: when the send's time is over.
    """

    __slots__ = ("_left", "_retries", "causes", "cut", "deadline_s", "denied", "failed")

    def __init__(self, retries: int, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.causes: list[OrbitError] = []
        """The error of each attempt, in order."""
        self.failed: frozenset[str] = frozenset()
        """The names of the brokers that failed."""
        self.cut: frozenset[str] = frozenset()
        """The names of those whose connection broke behind the message. A proxy takes connections for a broker that is away."""
        self.denied: frozenset[str] = frozenset()
        """The names of those that do not let this client send: they are not asked again."""
        self._retries = retries
        self._left = retries

    @property
    def goes_on(self) -> bool:
        """True while another attempt is allowed."""
        return self._left >= 0

    def left_s(self, now_s: float) -> float:
        """Return how much of the send's time is left."""
        return max(0.0, self.deadline_s - now_s)

    def record(self, error: OrbitError, broker_name: str | None) -> None:
        """Take note of an attempt without a usable answer; None: there was no broker to try."""
        self.causes.append(error)
        if broker_name is not None:
            self.failed |= {broker_name}
            if isinstance(error, ConnectionBroken):
                self.cut |= {broker_name}
            if isinstance(error, RemoteRefused) and error.code == ResponseCode.NO_PERMISSION:
                self.denied |= {broker_name}
        if not self._retries or not _is_waited_for(error):
            self._left -= 1

    def pause_s(self, broker_name: str, now_s: float) -> float:
        """Return how long to wait before the next attempt: not at all on a broker that has not failed."""
        if broker_name not in self.failed:
            return 0.0
        return self.next_pause_s(now_s)

    def next_pause_s(self, now_s: float) -> float:
        """Return the pause that is due after so many attempts, within what is left of the time."""
        pause_ms = min(FIRST_PAUSE_MS << 2 * min(len(self.causes) - 1, 8), PAUSE_MAX_MS)
        return min(pause_ms / 1000, self.left_s(now_s))


def _is_waited_for(error: OrbitError) -> bool:
    if isinstance(error, ConnectionBroken):  # the message may be stored: each further attempt may double it
        return False
    return isinstance(error, ConnectionFailed | RouteNotFound) or (
        isinstance(error, RemoteRefused) and error.code in _NOT_NOW
    )


LATENCY_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
AVOID_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""A send that took LATENCY_MS[i] or longer keeps its broker out for AVOID_MS[i]."""
FAILED_LATENCY_MS = 10_000
"""What a send counts for that got no usable answer."""


def avoidance_ms(latency_ms: int) -> int:
    """Return for how long a broker is avoided after a send that took `latency_ms`."""
    reached = bisect_right(LATENCY_MS, latency_ms)
    return AVOID_MS[reached - 1] if reached else 0


class FaultTolerance:
    """The brokers that are avoided now. Times are in ms of any one clock."""

    def __init__(self) -> None:
        self._avoided_until_ms: dict[str, int] = {}

    def record_answer(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Take an answered send into account: a fast one ends the avoidance of its broker, a slow one begins it."""
        avoid_ms = avoidance_ms(latency_ms)
        if avoid_ms:
            self._avoided_until_ms[broker_name] = now_ms + avoid_ms
        elif self._avoided_until_ms:
            self._avoided_until_ms.pop(broker_name, None)

    def record_failure(self, broker_name: str, now_ms: int) -> None:
        """Take a send without usable answer into account."""
        self.record_answer(broker_name, FAILED_LATENCY_MS, now_ms)

    def avoided(self, now_ms: int) -> frozenset[str]:
        """Return the brokers to avoid now."""
        if not self._avoided_until_ms:
            return frozenset()
        return frozenset(name for name, until_ms in self._avoided_until_ms.items() if until_ms > now_ms)

    def soonest(self, broker_names: Iterable[str]) -> str:
        """Return the broker whose avoidance ends first: the one to choose when all are avoided."""
        return min(broker_names, key=lambda name: self._avoided_until_ms.get(name, 0))
