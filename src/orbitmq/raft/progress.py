"""One follower as its leader knows it: how far it is, and how much may be sent to it now. Pure.

A follower is *probed* until the leader knows where their logs agree: one message with entries, then an answer. Then entries
are *replicated*: sent ahead of the answers, a number of messages at a time. Where the leader no longer has the entries, a
*snapshot* is sent, and nothing else until the follower has it.

Source: etcd-io/raft, tracker/progress.go.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from orbitmq.raft.values import Entry


class ProgressState(Enum):
    """The three ways of sending to a follower."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One follower: `match` is the last index that it is known to have, `next` the first that is to be sent."""

    def __init__(self, next_index: int, inflight_max: int) -> None:
        self.match = 0
        self.next = next_index
        self.flow = ProgressState.PROBE
        self.is_active = False
        """It has answered since the leader last looked whether a majority does."""
        self.sent_commit = 0
        """The commit index of the last message to it."""
        self.snapshot_index = 0
        self.snapshot_age = 0
        """How many times the leader looked for a majority since it sent the snapshot."""
        self._is_waiting = False
        self._inflight: deque[int] = deque()
        self._inflight_max = inflight_max

    @property
    def is_paused(self) -> bool:
        """Return True if nothing may be sent before an answer, or a heartbeat's, comes."""
        return self.flow is ProgressState.SNAPSHOT or self._is_waiting

    @property
    def is_full(self) -> bool:
        """Return True if as many messages with entries are unanswered as may be."""
        return len(self._inflight) >= self._inflight_max

    def probe(self) -> None:
        """Find out where the logs agree. After a snapshot, they may do so behind it."""
        self.next = max(self.match, self.snapshot_index) + 1
        self._change(ProgressState.PROBE)

    def replicate(self) -> None:
        """Send entries ahead of the answers."""
        self.next = self.match + 1
        self._change(ProgressState.REPLICATE)

    def install(self, snapshot_index: int) -> None:
        """Take note that a snapshot is under way."""
        self._change(ProgressState.SNAPSHOT)
        self.snapshot_index = snapshot_index
        self.next = snapshot_index + 1
        self.sent_commit = snapshot_index

    def sent(self, entries: tuple[Entry, ...], commit: int) -> None:
        """Take note that an Append was sent."""
        self.sent_commit = commit
        if self.flow is ProgressState.REPLICATE:
            if entries:
                self.next = entries[-1].index + 1
                self._inflight.append(entries[-1].index)
            self._is_waiting = self.is_full
        elif entries:
            self._is_waiting = True

    def matched(self, index: int) -> bool:
        """Take note that the follower has everything up to `index`. False: that was known."""
        if index <= self.match:
            return False
        self.match = index
        self.next = max(self.next, index + 1)
        self._is_waiting = False
        return True

    def free(self, index: int) -> None:
        """Take note that the messages up to `index` are answered."""
        while self._inflight and self._inflight[0] <= index:
            self._inflight.popleft()

    def resume(self) -> None:
        """Allow one more message: the follower answers heartbeats, and an Append may have been lost."""
        self._is_waiting = False

    def pause(self) -> None:
        """Wait for an answer, or for a heartbeat's."""
        self._is_waiting = True

    def rejected(self, index: int, match_hint: int) -> bool:
        """Go back because the follower has no entry like the leader's at `index`. False: an old answer, nothing changes."""
        if self.flow is ProgressState.REPLICATE:
            if index <= self.match:
                return False
            self.probe()
        elif self.next - 1 != index:
            return False
        else:
            self.next = max(min(index, match_hint + 1), self.match + 1)
            self._is_waiting = False
        self.sent_commit = min(self.sent_commit, self.next - 1)
        return True

    def lacks_commit(self, commit: int) -> bool:
        """Return True if a message with this commit index would tell the follower anything."""
        return commit > self.sent_commit and self.sent_commit < self.next - 1

    def _change(self, flow: ProgressState) -> None:
        self.flow = flow
        self.snapshot_index = self.snapshot_age = 0
        self._is_waiting = False
        self._inflight.clear()
        self.sent_commit = min(self.sent_commit, self.next - 1)
