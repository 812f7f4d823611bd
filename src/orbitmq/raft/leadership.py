"""The leader's part in one term: entries for each follower, what a majority has, and linearizable reads. Pure.

It is made when an election is won and dropped when the term ends, so nothing of it can outlive the term.

Source: etcd-io/raft, raft.go (stepLeader); Raft paper, sections 5.3 and 5.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from orbitmq.errors import NotLeader, ProposalsFull
from orbitmq.raft.log import RaftLog
from orbitmq.raft.messages import (
    Append,
    Appended,
    AppendRejected,
    CampaignNow,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Message,
)
from orbitmq.raft.progress import Progress, ProgressState
from orbitmq.raft.quorum import majority, reached_by_majority
from orbitmq.raft.values import Entry, ReadState, Settings


class Leadership:
    """One leader in one term. What it has to say is in `messages` until it is taken."""

    def __init__(self, settings: Settings, term: int, log: RaftLog) -> None:
        self.messages: list[Message] = []
        self.transferee: int | None = None
        """The follower that is to lead next."""
        self._settings = settings
        self._term = term
        self._log = log
        self._followers = {
            id: Progress(log.last.index + 1, settings.inflight_max) for id in sorted(settings.voters - {settings.id})
        }
        self._reads = Reads(settings.id, settings.voters)
        self._early_reads: list[object] = []
        """Reads that came before the term's first entry was committed: until then the commit index may be old."""
        self._heartbeat_elapsed = 0
        self._uncommitted_size = self._size_of(log.between(log.commit + 1, log.last.index))
        self._append(b"")
        self._send_to_all()

    def progress(self, follower: int) -> Progress:
        """Return how far a follower is."""
        return self._followers[follower]

    # What the application asks

    def propose(self, data: bytes) -> int:
        """Append an entry and send it; return its index."""
        self._refuse_during_transfer()
        if self._uncommitted_size and self._uncommitted_size + len(data) > self._settings.uncommitted_size_max:
            raise ProposalsFull(f"{self._uncommitted_size} bytes of proposals wait for a majority")
        self._append(data)
        self._send_to_all()
        return self._log.last.index

    def read(self, context: object) -> None:
        """Let a read wait until a majority has confirmed this leader."""
        if self._has_committed_in_term:
            self._reads.add(context, self._log.commit)
            self._send_heartbeats()
        else:
            self._early_reads.append(context)

    def take_reads(self) -> list[ReadState]:
        """Return the reads that are confirmed."""
        return self._reads.take_confirmed()

    def transfer(self, follower: int) -> None:
        """Hand the office to a follower as soon as its log is as long as the leader's."""
        self._refuse_during_transfer()
        self.transferee = follower
        if self._followers[follower].match == self._log.last.index:
            self._send(CampaignNow(self._settings.id, follower, self._term))
        else:
            self._send_append(follower)

    # Time

    def tick(self) -> None:
        """One tick has passed."""
        self._heartbeat_elapsed += 1
        if self._heartbeat_elapsed >= self._settings.heartbeat_ticks:
            self._heartbeat_elapsed = 0
            self._send_heartbeats()

    def is_majority_active(self) -> bool:
        """Return True if a majority has answered since the last call; then start a new count."""
        active = 1 + sum(progress.is_active for progress in self._followers.values())
        for progress in self._followers.values():
            progress.is_active = False
        return active >= majority(len(self._settings.voters))

    def recheck_snapshots(self) -> None:
        """Give up the snapshots that have had no answer for one to two calls: they may be lost."""
        for progress in self._followers.values():
            if progress.flow is ProgressState.SNAPSHOT:
                progress.snapshot_age += 1
                if progress.snapshot_age > 1:
                    progress.probe()

    # What happens outside

    def persisted(self) -> None:
        """Take note that the leader's own disk has more of the log."""
        if self._commit():
            self._send_to_all()

    def report_unreachable(self, follower: int) -> None:
        """Take note that a connection broke, so that what was sent ahead is lost perhaps."""
        if self._followers[follower].flow is ProgressState.REPLICATE:
            self._followers[follower].probe()

    def report_snapshot(self, follower: int, is_delivered: bool) -> None:
        """Take note of how the sending of a snapshot ended."""
        progress = self._followers[follower]
        if progress.flow is ProgressState.SNAPSHOT:
            if not is_delivered:
                progress.snapshot_index = 0
            progress.probe()
            progress.pause()

    def step(self, message: Message) -> None:
        """Take a follower's answer."""
        progress = self._followers.get(message.sender)
        if progress is None:
            return
        match message:
            case Appended():
                progress.is_active = True
                self._on_appended(message, progress)
            case AppendRejected():
                progress.is_active = True
                self._on_rejected(message, progress)
            case HeartbeatAnswer():
                progress.is_active = True
                self._on_heartbeat_answer(message, progress)

    def _on_appended(self, answer: Appended, progress: Progress) -> None:
        if answer.index > self._log.last.index:
            return  # Of another leader's log, which only a broken peer would say in this term.
        is_news = progress.matched(answer.index)
        if not is_news and not (progress.match == answer.index and progress.flow is ProgressState.PROBE):
            return
        if progress.flow is ProgressState.REPLICATE:
            progress.free(answer.index)
        elif progress.flow is ProgressState.PROBE or progress.match >= self._log.base.index:
            progress.replicate()
        if self._commit():
            self._send_to_all()
        elif progress.lacks_commit(self._log.commit):
            self._send_append(answer.sender)
        while self._send_append(answer.sender, is_empty_worth_it=False):
            pass
        if answer.sender == self.transferee and progress.match == self._log.last.index:
            self._send(CampaignNow(self._settings.id, answer.sender, self._term))

    def _on_rejected(self, answer: AppendRejected, progress: Progress) -> None:
        hint = answer.hint.index
        if answer.hint.term:
            # The follower has nothing newer than the hint's term there: entries of newer terms cannot be what it has.
            hint = self._log.conflict_hint(hint, answer.hint.term).index
        if progress.rejected(answer.index, hint):
            self._send_append(answer.sender)

    def _on_heartbeat_answer(self, answer: HeartbeatAnswer, progress: Progress) -> None:
        progress.resume()
        if progress.match < self._log.last.index or progress.flow is ProgressState.PROBE:
            self._send_append(answer.sender)
        self._reads.confirm(answer.sender, answer.read_round)

    # Committing

    @property
    def _has_committed_in_term(self) -> bool:
        position = self._log.position(self._log.commit)
        return position is not None and position.term == self._term

    def _commit(self) -> bool:
        """Commit what a majority has on its disks, if that is of this term (Raft paper, figure 8)."""
        before = self._log.commit
        matches = [progress.match for progress in self._followers.values()]
        position = self._log.position(reached_by_majority([self._log.stable, *matches]))
        if position is None or position.index <= before or position.term != self._term:
            return False
        self._log.commit_to(position.index)
        self._uncommitted_size -= self._size_of(self._log.between(before + 1, position.index))
        self._admit_early_reads()
        return True

    def _admit_early_reads(self) -> None:
        for context in self._early_reads:
            self._reads.add(context, self._log.commit)
        if self._early_reads:
            self._early_reads.clear()
            self._send_heartbeats()

    def _append(self, data: bytes) -> None:
        entry = Entry(self._log.last.index + 1, self._term, data)
        self._log.extend([entry])
        self._uncommitted_size += len(data)

    def _refuse_during_transfer(self) -> None:
        if self.transferee is not None:
            raise NotLeader(self.transferee)

    @staticmethod
    def _size_of(entries: Iterable[Entry]) -> int:
        return sum(len(entry.data) for entry in entries)

    # Sending

    def _send_to_all(self) -> None:
        for follower in self._followers:
            self._send_append(follower)

    def _send_append(self, follower: int, *, is_empty_worth_it: bool = True) -> bool:
        progress = self._followers[follower]
        if progress.is_paused:
            return False
        # The entry before the first one sent: the follower compares it, which keeps logs equal up to there.
        previous = self._log.position(progress.next - 1)
        if previous is None:
            # That entry was compacted away: only a snapshot brings the follower on.
            return self._send_snapshot(follower, progress)
        entries: tuple[Entry, ...] = ()
        # While probing one message is under way; while replicating as many as the window takes.
        if progress.flow is ProgressState.PROBE or not progress.is_full:
            entries = self._log.between(progress.next, self._log.last.index, self._settings.batch_size_max)
        if not entries and not is_empty_worth_it:
            return False
        self._send(Append(self._settings.id, follower, self._term, previous, entries, self._log.commit))
        progress.sent(entries, self._log.commit)
        return True

    def _send_snapshot(self, follower: int, progress: Progress) -> bool:
        snapshot = self._log.snapshot
        assert snapshot is not None, "what was cut off is in a snapshot"
        if not progress.is_active:
            return False  # It may be down for long: a snapshot is sent when it answers heartbeats.
        progress.install(snapshot.position.index)
        self._send(InstallSnapshot(self._settings.id, follower, self._term, snapshot))
        return True

    def _send_heartbeats(self) -> None:
        for follower, progress in self._followers.items():
            commit = min(progress.match, self._log.commit)
            self._send(Heartbeat(self._settings.id, follower, self._term, commit, self._reads.round))
            progress.sent_commit = commit

    def _send(self, message: Message) -> None:
        self.messages.append(message)


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
        """The number that heartbeats carry; 0 without waiting reads."""
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
