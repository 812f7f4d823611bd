"""Timeouts of one connection: how long it may be idle, a frame incomplete, the peer not reading. Pure."""

from __future__ import annotations

from orbitmq.net.limits import Limits

_NO_FRAME = -1


class Timeouts:
    """Adds up how long each state has lasted, a tick at a time, so that nothing on the path of a request reads a clock."""

    __slots__ = ("_frame_ms", "_idle_ms", "_seen_activity", "_seen_frames", "_stall_ms", "_was_stalled")

    def __init__(self) -> None:
        self._idle_ms = self._frame_ms = self._stall_ms = 0
        self._seen_activity = 0
        self._seen_frames = _NO_FRAME
        self._was_stalled = False

    def tick(
        self,
        limits: Limits,
        elapsed_ms: int,
        *,
        activity: int,
        frames: int,
        awaits_answer: bool,
        waits_for_frame: bool,
        is_stalled: bool,
    ) -> str | None:
        """Return why the connection has to end, None when it may go on.

        Args:
            elapsed_ms: since the last tick.
            activity: a number that is another one after each read and write.
            frames: how many frames have become whole.
            awaits_answer: this side waits for the peer, so that the request's own time-out decides.
            waits_for_frame: a frame has begun, and it is the peer that is silent.
            is_stalled: the peer does not read what waits for it.
        """
        is_silent = activity == self._seen_activity and not awaits_answer
        self._idle_ms = self._idle_ms + elapsed_ms if is_silent else 0
        # What was not so at the last tick has begun since then: no connection is ended before the time that the limit says.
        self._frame_ms = self._frame_ms + elapsed_ms if waits_for_frame and frames == self._seen_frames else 0
        self._stall_ms = self._stall_ms + elapsed_ms if is_stalled and self._was_stalled else 0
        self._seen_activity, self._seen_frames = activity, frames if waits_for_frame else _NO_FRAME
        self._was_stalled = is_stalled
        if limits.idle_ms and self._idle_ms >= limits.idle_ms:
            return "idle"
        if limits.frame_ms and self._frame_ms >= limits.frame_ms:
            return "frame deadline"
        if limits.write_stall_ms and self._stall_ms >= limits.write_stall_ms:
            return "write stall"
        return None

    def end_stall(self) -> None:
        """Note that the peer has read what waited for it, even if it stalls again before the next tick."""
        self._stall_ms = 0
        self._was_stalled = False
