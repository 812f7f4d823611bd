"""Reads of the leader that wait until a majority has confirmed that it still leads. Pure.

A read takes the commit index of its moment. The next heartbeats carry the number of the last read that waits; who answers
them follows this leader still, so nobody else can have committed anything before the read came.

Source: etcd-io/raft, read_only.go; Raft thesis, section 6.4.
"""

from __future__ import annotations

from collections import deque

from orbitmq.raft.quorum import reached_by_majority
from orbitmq.raft.values import ReadState


class Reads:
    """Reads in the order in which they came, numbered from 1."""

    def __init__(self, id: int, voters: frozenset[int]) -> None:
        self._id = id
        self._confirmed = dict.fromkeys(voters, 0)
        self._waiting: deque[ReadState] = deque()
        self.last_round = 0
        """The number of the last read."""
        self._first_round = 1

    def add(self, context: object, commit: int) -> None:
        """Let a read wait."""
        self._waiting.append(ReadState(context, commit))
        self.last_round += 1

    @property
    def round(self) -> int:
        """The number that heartbeats carry; 0 when nobody waits."""
        return self.last_round if self._waiting else 0

    def confirm(self, voter: int, round: int) -> None:
        """Take a follower's answer to a heartbeat. Numbers that were never sent count for nothing."""
        if voter in self._confirmed and round <= self.last_round:
            self._confirmed[voter] = max(self._confirmed[voter], round)

    def take_confirmed(self) -> list[ReadState]:
        """Return the reads that a majority has confirmed, the leader itself included."""
        self._confirmed[self._id] = self.last_round
        reached = reached_by_majority(self._confirmed.values())
        confirmed = []
        while self._waiting and self._first_round <= reached:
            confirmed.append(self._waiting.popleft())
            self._first_round += 1
        return confirmed
