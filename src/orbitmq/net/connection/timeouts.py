"""How long a peer may be idle, slow or deaf, and how often it may ask. Pure: time comes in as an argument."""

from __future__ import annotations

from orbitmq.net.limits import Limits


class Watch:
    """One connection's patience. Looked at in ticks, so that nothing on the path of a request reads a clock."""

    __slots__ = ("_frame_ms", "_idle_ms", "_seen", "_seen_frames", "_stall_ms")

    def __init__(self) -> None:
        self._idle_ms = self._frame_ms = self._stall_ms = 0
        self._seen = 0
        self._seen_frames = 0

    def tick(
        self,
        limits: Limits,
        elapsed_ms: int,
        *,
        activity: int,
        frames: int,
        awaits_answer: bool,
        waits_for_frame: bool,
        is_deaf: bool,
    ) -> str | None:
        """Return why the connection has to end, None when it may go on.

        Args:
            activity: a number that is another one after each read and write.
            frames: how many frames have become whole.
            awaits_answer: it is us who wait for the peer, so that the request's own time-out decides.
            waits_for_frame: a frame or handshake has begun, and it is not us who do not read.
            is_deaf: the peer does not read what waits for it.
        """
        is_silent = activity == self._seen and not awaits_answer
        self._idle_ms = self._idle_ms + elapsed_ms if is_silent else 0
        self._frame_ms = self._frame_ms + elapsed_ms if waits_for_frame and frames == self._seen_frames else 0
        self._stall_ms = self._stall_ms + elapsed_ms if is_deaf else 0
        self._seen, self._seen_frames = activity, frames
        if limits.idle_ms and self._idle_ms >= limits.idle_ms:
            return "idle"
        if limits.frame_ms and self._frame_ms >= limits.frame_ms:
            return "frame deadline"
        if limits.write_stall_ms and self._stall_ms >= limits.write_stall_ms:
            return "write stall"
        return None

    def hears_again(self) -> None:
        """Note that the peer has read what waited for it."""
        self._stall_ms = 0


class Allowance:
    """A rate of requests, with a burst of one second."""

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._left = float(rate)
        self._at = 0.0

    def take(self, count: int, now: float) -> float:
        """Use up `count` requests; return for how many seconds the peer must not be read (0: go on)."""
        self._left = min(float(self._rate), self._left + (now - self._at) * self._rate) - count
        self._at = now
        return max(0.0, -self._left / self._rate)
