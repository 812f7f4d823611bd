"""Flow control of one connection: when its peer is read, which requests have to wait, and the rate limit.

A peer that does not read its answers makes them pile up here. So a server stops reading from it (back-pressure), and
holds back the requests that it has read already. A client never stops: if both ends did, both would wait for ever.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterator

from orbitmq.net.counters import Counters
from orbitmq.net.limits import Limits
from orbitmq.net.time_slices import TURN_COUNT, TURN_S
from orbitmq.wire.frame import Frame

_NONE_HELD: list[Frame] = []
"""Shared by all connections that hold nothing back; never added to."""


class FlowControl:
    """Pauses and resumes reading from one transport.

    `pending_size` counts the bytes of answers since the last write; past `pending_size_max` it is time to write, and to
    look whether the peer reads.
    """

    __slots__ = (
        "_counters",
        "_is_listener",
        "_is_throttled",
        "_loop",
        "_transport",
        "held",
        "held_since",
        "is_paused",
        "is_queued",
        "pending_size",
        "pending_size_max",
        "rate_limit",
        "turn_count",
        "turn_s",
        "work",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: Limits,
        counters: Counters,
        is_listener: bool,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._counters = counters
        self._is_listener = is_listener
        self._is_throttled = False
        self.is_paused = False
        """True while the transport's buffer is too full: the peer does not read."""
        self.held = _NONE_HELD
        """Frames that were read and are not served yet."""
        self.held_since = 0.0
        """When the first of them was read, by the loop's clock."""
        self.is_queued = False
        """True while a turn is to come in which they are served."""
        self.work: Iterator[None] | None = None
        """What is left to do for a request that takes several turns; those behind it wait."""
        self.pending_size = 0
        self.pending_size_max = limits.write_pause_size if is_listener else sys.maxsize
        self.turn_count = TURN_COUNT if is_listener else sys.maxsize
        """Requests that are served in one turn of the loop."""
        self.turn_s = TURN_S if is_listener else math.inf
        """And the time after which a turn ends earlier."""
        rate = limits.requests_per_second_max
        self.rate_limit = RateLimit(rate) if rate else None

    def move_onto(self, transport: asyncio.Transport) -> None:
        """Pause and resume the reading of another transport from now on."""
        self._transport = transport

    @property
    def is_holding_back(self) -> bool:
        """True while it is this side that does not read."""
        return self.is_paused or self._is_throttled or bool(self.held) or self.work is not None

    def choose_reading(self) -> None:
        """Let the transport read, or not."""
        if not self._is_listener or self._transport.is_closing():
            return
        if self.is_holding_back:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def throttle(self, count: int) -> None:
        """Count requests; read nothing more for a while from a peer that asks more often than its `rate_limit`."""
        assert self.rate_limit is not None, "callers look, so that most reads need no call"
        pause_s = self.rate_limit.spend(count, self._loop.time())
        if pause_s and not self._is_throttled:
            self._is_throttled = True
            self._counters.throttled += 1
            self.choose_reading()
            self._loop.call_later(pause_s, self._end_throttling)

    def hold(self, frames: list[Frame]) -> None:
        """Hold frames back, behind those that are held already."""
        if self.held:
            self.held = [*self.held, *frames]
            self.choose_reading()  # its turn has not come yet: what more it sends waits in the kernel
        else:
            self.held, self.held_since = frames, self._loop.time()

    def take_held(self) -> list[Frame]:
        """Return the frames that were held back, and hold none."""
        frames, self.held = self.held, _NONE_HELD
        return frames

    def _end_throttling(self) -> None:
        self._is_throttled = False
        self.choose_reading()


class RateLimit:
    """Fills by `rate` requests per second, up to one second's worth: that is the burst that it lets pass.

    It goes below zero, because a read is served whole: the debt is paid by a pause before the next read.
    """

    __slots__ = ("_filled_at", "_left", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._left = float(rate)
        self._filled_at = 0.0

    def spend(self, count: int, now: float) -> float:
        """Count `count` requests at `now` (seconds); return the pause in seconds before the next read, 0 for none."""
        self._left = min(float(self._rate), self._left + (now - self._filled_at) * self._rate) - count
        self._filled_at = now
        return max(0.0, -self._left / self._rate)
