"""The master's side of one slave's connection: where it begins, what is sent next, and what it has. Pure.

State: how far the slave was sent the log, and how far it says that it has it. In: its reports, the log's ends, times.
Out: the next run of bytes to send, or the reason with which the connection ends.

Source: Java DefaultHAConnection. Where Java believes any report, this refuses those that cannot be true: a slave with
another history than its master's must not count as a copy (apache/rocketmq#3015, apache/rocketmq#1155).
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.errors import FrameError


class LogChunk(NamedTuple):
    """Bytes of the log: of one segment."""

    offset: int
    size: int


UNKNOWN_ID = -1


class ConfirmedRange(NamedTuple):
    """A slave has what was stored from `start` to `end`, places of the log; its id is known of members of a controlled group."""

    start: int
    end: int
    broker_id: int = UNKNOWN_ID


class SlaveFeed:
    """What a master has still to send to one slave.

    Args:
        segment_size: bytes of each file of the log.
        run_size_max: bytes of one frame.
        now_ms: when the connection was made.
        broker_id: of a member of a controlled group, whose log is known to be a part of this one; it gets all files.
    """

    def __init__(self, segment_size: int, run_size_max: int, now_ms: int, broker_id: int = UNKNOWN_ID) -> None:
        self.broker_id = broker_id
        self.sent = -1
        """Up to here (bytes) the log was sent; -1 before the slave's first report."""
        self.acknowledged = -1
        """Up to here the slave says that it has it; -1 before its first report."""
        self._log_end_at_start = 0
        self.reported_at_ms = now_ms
        self.sent_at_ms = now_ms
        self._segment_size = segment_size
        self._run_size_max = run_size_max
        self._start = -1

    def report(self, offset: int, log_start: int, log_end: int, now_ms: int) -> None:
        """Take note that the slave's log ends at `offset`; the first report says where to begin.

        Raises:
            FrameError: the slave cannot be a copy of this log, or can never become one.
        """
        self.reported_at_ms = now_ms
        if self.sent < 0:
            self.sent = self._start = self._first(offset, log_start, log_end)
            self._log_end_at_start = log_end if self.broker_id == UNKNOWN_ID else -1
        elif offset != self.acknowledged and not max(self._start, self.acknowledged) <= offset <= self.sent:
            raise FrameError(
                f"a slave that had {self.acknowledged} and was sent the log up to {self.sent} says that it has {offset}"
            )
        self.acknowledged = offset

    @property
    def confirmed(self) -> ConfirmedRange | None:
        """What the slave's reports stand for; None before the first one.

        Of a slave that is not a known member only messages that were stored later: the first report is its word alone, and its log
        may have another history.
        """
        if self.sent < 0:
            return None
        return ConfirmedRange(self._log_end_at_start, self.acknowledged, self.broker_id)

    def _first(self, offset: int, log_start: int, log_end: int) -> int:
        if offset == 0 and self.broker_id != UNKNOWN_ID:
            return log_start
        if offset == 0:
            # As Java: an empty slave is sent the last file only. Its log has to begin where a file does.
            return max(log_end - log_end % self._segment_size, log_start)
        if offset > log_end:
            raise FrameError(
                f"a slave has {offset} bytes and this master {log_end}: its log is another one, or this log has lost its end"
            )
        if offset < log_start:
            raise FrameError(
                f"a slave ends at {offset}, and this log begins at {log_start}: what is between was deleted; "
                "empty the slave's store, and it begins with the last file"
            )
        return offset

    def next_run(self, log_end: int) -> LogChunk | None:
        """Return what is to be sent now, None when the slave has been sent everything."""
        if self.sent < 0 or self.sent >= log_end:
            return None
        segment_end = self.sent - self.sent % self._segment_size + self._segment_size
        return LogChunk(self.sent, min(self._run_size_max, segment_end - self.sent, log_end - self.sent))

    def note_sent(self, size: int, now_ms: int) -> None:
        """Take note that the next `size` bytes of the log were sent, 0 for a heartbeat."""
        self.sent += size
        self.sent_at_ms = now_ms

    def is_heartbeat_due(self, now_ms: int, interval_ms: int) -> bool:
        """Return True if the slave was sent nothing for so long."""
        return self.sent >= 0 and now_ms - self.sent_at_ms >= interval_ms

    def is_silent(self, now_ms: int, silence_ms: int) -> bool:
        """Return True if the slave has reported nothing for so long."""
        return now_ms - self.reported_at_ms > silence_ms
