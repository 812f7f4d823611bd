"""One node of a Raft group: terms, votes and roles; what a leader does is in `leadership`. Pure.

In come ticks, messages and wishes of the application; out comes a `Ready` at a time. Chance is an argument.

Source: etcd-io/raft, raft.go and rawnode.go; Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm";
Ongaro's thesis, chapters 3, 4.2.3, 6.4 and 9.6.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from orbitmq.errors import InvalidArgument, NotLeader
from orbitmq.raft.leadership import Leadership
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
    PreVoteAnswer,
    PreVoteRequest,
    Ready,
    VoteAnswer,
    VoteRequest,
)
from orbitmq.raft.progress import Progress
from orbitmq.raft.quorum import Votes
from orbitmq.raft.values import HardState, ReadState, Saved, Settings, Snapshot

_ENDED_TICKS = 3
"""Within so many ticks the nodes that note the end of their leader's process call for an election."""


class Role(Enum):
    """What a node is in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Raft:
    """One node. Nothing that it says may leave before the `Ready` that says it is on the disk.

    Args:
        settings: members and limits.
        saved: what the node's disk has; a first start has nothing.
        draw: a number from 0 to its argument, without it: `random.Random(seed).randrange`.

    Raises:
        LogDiverged: what the disk has does not fit together.
    """

    def __init__(self, settings: Settings, saved: Saved, draw: Callable[[int], int]) -> None:
        self.term = saved.hard_state.term
        self.vote = saved.hard_state.vote
        self.role = Role.FOLLOWER
        self.leader: int | None = None
        """The leader of this term, as far as the node knows."""
        self.log = RaftLog(saved)
        self._settings = settings
        self._draw = draw
        self._votes = Votes(settings.voters)
        self._leadership: Leadership | None = None
        self._elapsed = 0
        """Ticks since a leader was heard; for a leader, since it last looked for a majority."""
        self._timeout = self._draw_timeout()
        self._messages: list[Message] = []
        self._persisted_state = self._hard_state
        self._outstanding: Ready | None = None

    @property
    def id(self) -> int:
        """The number of this node."""
        return self._settings.id

    @property
    def transferee(self) -> int | None:
        """The node that this leader hands its office to."""
        return self._leadership.transferee if self._leadership else None

    def progress(self, follower: int) -> Progress:
        """Return what this leader knows of a follower.

        Raises:
            NotLeader: only a leader knows anything.
        """
        return self._leading.progress(follower)

    # What the application asks

    def propose(self, data: bytes) -> int:
        """Append an entry; return the index at which it stands if it is ever committed with this term.

        Raises:
            NotLeader: ask that node.
            ProposalsFull: too much waits for a majority.
            InvalidArgument: there are no bytes; empty entries are the leaders' own.
        """
        if not data:
            raise InvalidArgument("data", data, "at least one byte")
        return self._leading.propose(data)

    def read(self, context: object) -> None:
        """Ask for a `ReadState` with `context`, which says when the state is as new as this moment.

        It never comes when the node loses its office first.

        Raises:
            NotLeader: ask that node.
        """
        self._leading.read(context)

    def transfer(self, to: int) -> None:
        """Hand the office to another node; while it lasts, at most an election time-out, proposals are refused.

        Raises:
            NotLeader: there is nothing to hand over, or that is under way.
            InvalidArgument: no other node has this number.
        """
        leadership = self._leading
        if to not in self._settings.voters - {self.id}:
            raise InvalidArgument("to", to, "the number of another voter")
        leadership.transfer(to)
        self._elapsed = 0

    def campaign(self) -> None:
        """Call for an election now, without waiting for the leader's silence."""
        if self.role is not Role.LEADER:
            if self._settings.pre_vote:
                self._begin_pre_vote()
            else:
                self._begin_election()

    def compact(self, index: int, data: bytes, keep: int = 0) -> Snapshot:
        """Replace the log up to the applied entry at `index` by the application's state after it.

        Args:
            data: that state, in bytes of the application.
            keep: entries that stay for followers that are a little behind.

        Returns:
            What the driver has to save before the disk drops any of these entries.

        Raises:
            InvalidArgument: the entry is not applied, or behind an older snapshot.
        """
        first = self.log.snapshot.position.index + 1 if self.log.snapshot else 1
        if not first <= index <= self.log.applied:
            raise InvalidArgument("index", index, f"from {first} to {self.log.applied}")
        return self.log.compact(index, data, keep)

    def report_unreachable(self, peer: int) -> None:
        """Take note that messages to a peer were lost."""
        if self._leadership is not None and peer in self._settings.voters - {self.id}:
            self._leadership.report_unreachable(peer)

    def report_ended(self, peer: int) -> None:
        """Take note that a peer's process has ended, as its closed connection says: its silence need not be waited for.

        Should it live, a pre-vote finds that the others hear from it.
        """
        if self.role is Role.FOLLOWER and peer == self.leader:
            self.leader = None
            # Not all nodes that note it at the same time call for an election in the same tick.
            self._elapsed = self._timeout - 1 - self._draw(_ENDED_TICKS)

    def report_snapshot(self, peer: int, *, is_delivered: bool) -> None:
        """Take note of how the sending of a snapshot to a peer ended. Without a report, the node tries again in time."""
        if self._leadership is not None and peer in self._settings.voters - {self.id}:
            self._leadership.report_snapshot(peer, is_delivered)

    # Time and messages

    def tick(self) -> None:
        """One tick has passed."""
        self._elapsed += 1
        if self._leadership is not None:
            self._tick_leader(self._leadership)
        elif self._elapsed >= self._timeout:
            self._elapsed = 0
            self.campaign()

    def step(self, message: Message) -> None:
        """Take a message of another node.

        Raises:
            LogDiverged: the message proves that this node's disk has lost something. The node must stop.
        """
        if message.receiver != self.id or message.sender not in self._settings.voters - {self.id}:
            return
        if message.term > self.term:
            # A node that came back with a higher term must not depose a leader that the others still hear (thesis, 4.2.3).
            if self._is_heard_leader_safe_from(message):
                return
            # From here on the message is of this node's own term.
            self._meet_newer_term(message)
        elif message.term < self.term:
            self._answer_older_term(message)
            return
        match message:
            case PreVoteRequest() | VoteRequest():
                self._on_vote_request(message)
            case PreVoteAnswer() | VoteAnswer():
                self._on_vote_answer(message)
            case Append() | Heartbeat() | InstallSnapshot():
                self._on_leader_message(message)
            # The old leader has found this node up to date: it needs no pre-vote, and no timeout.
            case CampaignNow():
                if self.role is Role.FOLLOWER:
                    self._begin_election(is_transfer=True)
            case _:
                if self._leadership is not None:
                    self._leadership.step(message)

    # The driver's turn

    def take_ready(self) -> Ready | None:
        """Return what there is to do, or None. The next one comes after `advance`."""
        assert self._outstanding is None, "the driver does one Ready after the other"
        reads: tuple[ReadState, ...] = ()
        if self._leadership is not None:
            self._collect(self._leadership)
            # Reads are confirmed by heartbeats that are among the messages just collected.
            reads = tuple(self._leadership.take_reads())
        hard_state = self._hard_state
        entries = self.log.unstable
        # Only what the disk does not have yet: a hard state that did not change is not written again.
        before = self._persisted_state
        ready = Ready(
            hard_state=hard_state if hard_state != before else None,
            snapshot=self.log.pending_snapshot,
            entries=entries,
            # A commit index alone may be lost: the leader tells it again. Votes, terms and entries may not.
            must_sync=bool(entries or self.log.pending_snapshot)
            or (hard_state.term, hard_state.vote) != (before.term, before.vote),
            messages=tuple(self._messages),
            committed=self.log.between(self.log.applied + 1, self.log.commit, self._settings.batch_size_max),
            reads=reads,
        )
        if ready == _NOTHING:
            return None
        # The messages leave with this Ready, after its state is on the disk.
        self._messages.clear()
        self._persisted_state = hard_state
        self.log.pending_snapshot = None
        self._outstanding = ready
        return ready

    def advance(self) -> None:
        """Take note that the last `Ready` is done."""
        ready = self._outstanding
        assert ready is not None, "there is a Ready that was done"
        self._outstanding = None
        state = ready.hard_state
        if self.role is Role.CANDIDATE and state is not None and (state.term, state.vote) == (self.term, self.id):
            self._count_vote(self.id, is_granted=True)
        if ready.committed:
            self.log.applied = max(self.log.applied, ready.committed[-1].index)
        if ready.entries:
            self.log.persisted(ready.entries[-1].position)
            if self._leadership is not None:
                self._leadership.persisted()

    # Terms

    @property
    def _hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.log.commit)

    def _is_heard_leader_safe_from(self, message: Message) -> bool:
        """Return True if a vote is asked for though this node hears from its leader, which therefore has a majority, or will know."""
        return (
            isinstance(message, VoteRequest | PreVoteRequest)
            and self._settings.check_quorum
            and self.leader is not None
            and self._elapsed < self._settings.election_ticks
            and not (isinstance(message, VoteRequest) and message.is_transfer)
        )

    def _meet_newer_term(self, message: Message) -> None:
        match message:
            case PreVoteRequest() | PreVoteAnswer(is_granted=True):
                pass  # That term is only thought of.
            case Append() | Heartbeat() | InstallSnapshot():
                self._follow(message.term, message.sender)
            case _:
                self._follow(message.term, None)

    def _answer_older_term(self, message: Message) -> None:
        match message:
            case PreVoteRequest():
                self._send(PreVoteAnswer(self.id, message.sender, self.term, is_granted=False))
            case Append() | Heartbeat() | InstallSnapshot() if self._settings.check_quorum or self._settings.pre_vote:
                # A leader that is not deposed by a vote request has to learn of the newer term in another way.
                self._send(Appended(self.id, message.sender, self.term, 0))

    def _follow(self, term: int, leader: int | None) -> None:
        self._enter(term, Role.FOLLOWER)
        self.leader = leader

    def _enter(self, term: int, role: Role) -> None:
        if term != self.term:
            self.term, self.vote = term, 0
        self.role, self.leader = role, None
        if self._leadership is not None:
            self._collect(self._leadership)
            self._leadership = None
        self._votes = Votes(self._settings.voters)
        self._elapsed = 0
        self._timeout = self._draw_timeout()

    def _draw_timeout(self) -> int:
        return self._settings.election_ticks + self._draw(self._settings.election_ticks)

    # Elections

    def _begin_pre_vote(self) -> None:
        self.role, self.leader = Role.PRE_CANDIDATE, None
        self._votes = Votes(self._settings.voters)
        for peer in self._peers:
            self._send(PreVoteRequest(self.id, peer, self.term + 1, self.log.last))
        self._count_vote(self.id, is_granted=True)

    def _begin_election(self, *, is_transfer: bool = False) -> None:
        self._enter(self.term + 1, Role.CANDIDATE)
        self.vote = self.id  # Counted when it is on the disk, as those of the others.
        for peer in self._peers:
            self._send(VoteRequest(self.id, peer, self.term, self.log.last, is_transfer))

    def _on_vote_request(self, request: VoteRequest | PreVoteRequest) -> None:
        is_trial = isinstance(request, PreVoteRequest)
        is_free = (
            self.vote == request.sender
            or (self.vote == 0 and self.leader is None)
            or (is_trial and request.term > self.term)
        )
        is_granted = is_free and request.last.is_as_new_as(self.log.last)
        # A pre-vote is granted for the term asked about, which the candidate would not find in an older one.
        term = request.term if is_granted else self.term
        if is_trial:
            self._send(PreVoteAnswer(self.id, request.sender, term, is_granted))
            return
        self._send(VoteAnswer(self.id, request.sender, term, is_granted))
        if is_granted:
            self.vote = request.sender
            self._elapsed = 0

    def _on_vote_answer(self, answer: VoteAnswer | PreVoteAnswer) -> None:
        asked = PreVoteAnswer if self.role is Role.PRE_CANDIDATE else VoteAnswer
        if self.role in (Role.PRE_CANDIDATE, Role.CANDIDATE) and isinstance(answer, asked):
            self._count_vote(answer.sender, answer.is_granted)

    def _count_vote(self, voter: int, is_granted: bool) -> None:
        self._votes.record(voter, is_granted)
        if self._votes.are_lost:
            self._follow(self.term, None)
        elif self._votes.are_won and self.role is Role.PRE_CANDIDATE:
            self._begin_election()
        elif self._votes.are_won:
            self._lead()

    # Leading

    @property
    def _leading(self) -> Leadership:
        if self._leadership is None:
            raise NotLeader(self.leader)
        return self._leadership

    def _lead(self) -> None:
        self._enter(self.term, Role.LEADER)
        self.leader = self.id
        self._leadership = Leadership(self._settings, self.term, self.log)

    def _tick_leader(self, leadership: Leadership) -> None:
        if self._elapsed >= self._settings.election_ticks:
            self._elapsed = 0
            leadership.transferee = None
            leadership.recheck_snapshots()
            if not leadership.is_majority_active() and self._settings.check_quorum:
                self._follow(self.term, None)
                return
        leadership.tick()

    def _collect(self, leadership: Leadership) -> None:
        self._messages += leadership.messages
        leadership.messages.clear()

    # Following

    def _on_leader_message(self, message: Append | Heartbeat | InstallSnapshot) -> None:
        if self.role is Role.LEADER:
            return  # Two leaders in one term: not of this algorithm.
        if self.role is not Role.FOLLOWER:
            self._follow(self.term, message.sender)
        self._elapsed = 0
        self.leader = message.sender
        match message:
            case Append():
                self._on_append(message)
            case Heartbeat():
                self.log.commit_to(message.commit)
                self._send(HeartbeatAnswer(self.id, message.sender, self.term, message.read_round))
            case InstallSnapshot():
                self._on_snapshot(message)

    def _on_append(self, message: Append) -> None:
        previous = message.previous
        if previous.index < self.log.commit:
            self._send(Appended(self.id, message.sender, self.term, self.log.commit))
            return
        reached = self.log.merge(previous, message.entries)
        if reached is None:
            hint = self.log.conflict_hint(previous.index, previous.term)
            self._send(AppendRejected(self.id, message.sender, self.term, previous.index, hint))
            return
        self.log.commit_to(min(message.commit, reached))
        self._send(Appended(self.id, message.sender, self.term, reached))

    def _on_snapshot(self, message: InstallSnapshot) -> None:
        position = message.snapshot.position
        if position.index > self.log.commit:
            if self.log.matches(position):
                # The log has it all and perhaps more, which may have been acknowledged: it must not be thrown away.
                self.log.commit_to(position.index)
            else:
                self.log.restore(message.snapshot)
        self._send(Appended(self.id, message.sender, self.term, self.log.commit))

    @property
    def _peers(self) -> list[int]:
        return sorted(self._settings.voters - {self.id})

    def _send(self, message: Message) -> None:
        self._messages.append(message)


_NOTHING = Ready(None, None, (), False, (), (), ())
