"""A controller's node of Raft as a program: its clock, its disk, its peers, and proposals with their outcomes.

One step after the other: what a step promises is on the disk before it leaves, and messages, ticks and proposals that come
meanwhile are in the next step. A disk that fails ends nothing for good: the node leaves the others alone, reads what the disk has as at a
start, and goes on from there when it takes writes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.consensus.codec import decode_messages
from orbitmq.controller.consensus.log_file import RaftLogFile
from orbitmq.controller.consensus.peers import Disks, Peers
from orbitmq.controller.replicas import Replicas
from orbitmq.errors import NotLeader, OrbitError, OutcomeUnknown, RaftError
from orbitmq.monitoring.alerts import Alert
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import load_security
from orbitmq.raft import Raft, ReadState, Ready, Role, Saved, Settings
from orbitmq.store.disk import Disk
from orbitmq.store.local_disk import LocalDisk
from orbitmq.wire.headers import RaftMessages

log = logging.getLogger(__name__)

TICK_S = 0.1
ELECTION_TICKS = 5
"""A leader that is silent for half a second to a second is replaced."""
COMPACT_COUNT = 1_000
"""Entries after which the log is shortened."""
KEPT_COUNT = 100
"""Entries that stay then, for peers that are a little behind."""
DISK_PAUSE_S = 0.5
"""After so long a disk that failed is tried again, then after twice as long, and so on."""
DISK_PAUSE_MAX_S = 15.0
_CONNECT_TIMEOUT_MS = 500
_NO_CONTROLLER = 2**32 - 1


class RaftNode:
    """The consensus of controllers (`controller.app.RunningConsensus`).

    Args:
        replicas: the state machine; it is restored at the start.
        on_leadership: told whenever this node begins, or ceases, to lead.
    """

    def __init__(
        self,
        config: ControllerConfig,
        replicas: Replicas,
        on_leadership: Callable[[bool], None],
        *,
        disk: Disk | None = None,
        random: Random | None = None,
    ) -> None:
        self.failure: str | None = None
        """Why this node takes no part: until its disk works, or until it is started again."""
        self._replicas = replicas
        self._on_leadership = on_leadership
        self._random = random or SystemRandom()
        disk, directory = disk or LocalDisk(), _directory(config)
        self._directory = directory
        self._disk = disk
        self._log_file = RaftLogFile(disk, directory)
        self._disks = Disks(disk, directory)
        self._pool = ConnectionPool(
            name="controller",
            connect_timeout_ms=_CONNECT_TIMEOUT_MS,
            **load_security(config.security_file)._asdict(),
        )
        self._pool.on_connection_lost(self._connection_lost)
        self._peers = Peers(
            config.controller_d_leger_group,
            config.controller_d_leger_self_id,
            config.peers,
            self._pool,
            self._disks,
            unreachable=self._unreachable,
            delivered=self._delivered,
        )
        self._raft: Raft | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._was_leader = False
        self._applied_term = 0
        self._proposals: dict[int, tuple[int, asyncio.Future[Any]]] = {}
        self._asking: list[asyncio.Future[None]] = []
        """Reads that wait for those under way: all of them are one read then."""
        self._confirming: list[asyncio.Future[None]] = []
        self._confirmed: list[tuple[int, list[asyncio.Future[None]]]] = []

    @property
    def is_leader(self) -> bool:
        """True at the leader, once it has applied all of the terms before its own."""
        raft = self._raft
        return (
            raft is not None and self.failure is None and raft.role is Role.LEADER and self._applied_term == raft.term
        )

    @property
    def leader_id(self) -> int | None:
        """The node that leads; None while unknown."""
        return None if self._raft is None or self.failure is not None else self._raft.leader

    @property
    def peers(self) -> Mapping[int, str]:
        """Where clients reach each node, as host:port."""
        return self._peers.addresses

    @property
    def warnings(self) -> list[str]:
        """What an operator should know."""
        said = [f"the controller {name}: {reason}" for name, reason in sorted(self._peers.refusals.items())]
        return said if self.failure is None else [self.failure, *said]

    @property
    def alerts(self) -> list[Alert]:
        """The rules about this node, and about the others, that hold now."""
        if self.failure is not None:
            return [Alert("takes_no_part", self.failure)]
        found = [Alert("controllers_differ", warning) for warning in self.warnings[:1]]
        # A follower sends nothing to other followers, and so does not know them.
        missing = self._peers.missing_text() if self.leader_id in (None, self._peers.own_number) else None
        if missing is not None:
            found.append(Alert("controller_missing", missing, is_warning=self.leader_id is not None))
        return found

    async def start(self) -> None:
        """Read what is on disk, apply it, and talk to the others.

        Raises:
            RaftError: what the disk has does not fit together, or cannot be read by this version.
            StoreError, OSError: the disk gives or takes nothing.
        """
        await asyncio.to_thread(self._disks.load)
        self._raft = self._restored(await asyncio.to_thread(self._load))
        self._peers.start()
        self._task = asyncio.get_running_loop().create_task(self._run(self._raft))
        self._tick()

    async def stop(self) -> None:
        """Leave the others."""
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._peers.stop()
        await self._pool.close()
        self._lose_all(OutcomeUnknown("this controller stops"))
        self._log_file.close()

    async def propose(self, command: bytes) -> Any:
        """Return what the state machine of this node made of a command.

        Raises:
            NotLeader, ProposalsFull: it was not taken.
            OutcomeUnknown: it was, and may become part of the log still, or not.
        """
        raft = self._working
        index = raft.propose(command)
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._proposals[index] = raft.term, outcome
        self._wake.set()
        try:
            return await outcome
        finally:
            self._proposals.pop(index, None)

    async def read(self) -> None:
        """Return when this node has applied all that was committed before the call.

        Raises:
            NotLeader: ask that node.
            OutcomeUnknown: it leads no more.
        """
        raft = self._working
        if raft.role is not Role.LEADER:
            raise NotLeader(raft.leader)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.append(confirmed)
        self._wake.set()
        await confirmed

    def receive(self, header: RaftMessages, body: bytes) -> str | None:
        """Take a peer's messages; return why they are not believed, None when they are.

        Raises:
            FrameError: they cannot be read.
        """
        raft = self._raft
        if raft is None or self.failure is not None:
            return self.failure or "this controller is not started yet"
        try:
            refusal = self._peers.refusal_of(header)
            self._peers.note_refusal(header.sender, refusal, disk=header.disk)
            if refusal is None:
                for message in decode_messages(body):
                    raft.step(message)
                self._wake.set()
        except RaftError as error:
            self._fail(error)
            return self.failure
        return refusal

    @property
    def _working(self) -> Raft:
        if self._raft is None or self.failure is not None:
            raise NotLeader(None)
        return self._raft

    def _tick(self) -> None:
        self._tick_timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        if self._raft is not None and self.failure is None:
            self._raft.tick()
            self._wake.set()

    async def _run(self, raft: Raft) -> None:
        """Take part until this node fails or is stopped."""
        try:
            while True:
                try:
                    await self._take_part(raft)
                except OSError as error:
                    raft = await self._reload(error)
        except OrbitError as error:
            self._fail(error)

    async def _take_part(self, raft: Raft) -> None:
        """Do one step after the other. Raises OSError, OrbitError."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._ask_reads(raft)
            while (ready := raft.take_ready()) is not None:
                await self._do(raft, ready)
                self._ask_reads(raft)
            self._note_leadership(raft)
            await self._compact(raft)

    async def _reload(self, error: OSError) -> Raft:
        """Leave the others alone until the disk works; return the node that it has then, as after a start.

        Raises:
            RaftError: what the disk has does not fit together.
        """
        pause_s = DISK_PAUSE_S
        while True:
            self._leave(
                f"this controller takes no part: its disk fails ({error}); it goes on when {self._directory} takes writes",
                error,
            )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, DISK_PAUSE_MAX_S)
            self._log_file.close()
            self._log_file = RaftLogFile(self._disk, self._directory)
            try:
                await asyncio.to_thread(self._disks.check)
                saved = await asyncio.to_thread(self._log_file.load)
                await asyncio.to_thread(self._log_file.rewrite)
            except OSError as again:
                error = again
                continue
            self._raft, self._applied_term = self._restored(saved), 0
            self.failure = None
            log.warning("the disk of this controller takes writes: it takes part again")
            return self._raft

    def _load(self) -> Saved:
        """Return what the disk has. Under another list of controllers than before, a vote is one for none of them.

        Votes are kept by number, and numbers count the names of the list: a vote for the second one of the old list must not be
        given once more, in the same term, to the second one of the new list.

        Raises:
            RaftError, OSError: as `RaftLogFile.load`, or the disk does not take it.
        """
        saved = self._log_file.load()
        if not self._disks.is_list_kept(self._peers.list):
            if saved.hard_state.vote:
                saved = replace(saved, hard_state=replace(saved.hard_state, vote=_NO_CONTROLLER))
                self._log_file.save(saved.hard_state, ())
            self._disks.keep_list(self._peers.list)
        return saved

    def _restored(self, saved: Saved) -> Raft:
        """Return the node that a disk has, and put the state machine where its snapshot is. Raises RaftError."""
        settings = Settings(
            id=self._peers.own_number,
            voters=frozenset(self._peers.addresses),
            election_ticks=ELECTION_TICKS,
        )
        raft = Raft(settings, saved, self._random.randrange)
        self._replicas.restore(Replicas().snapshot() if saved.snapshot is None else saved.snapshot.data)
        return raft

    async def _do(self, raft: Raft, ready: Ready) -> None:
        """Save, send, apply and answer, in this order."""
        if ready.must_sync:
            # A commit index alone is a hint, and not worth a sync.
            await asyncio.to_thread(self._log_file.save, ready.hard_state, ready.entries, ready.snapshot)
        self._peers.send(ready.messages)
        if ready.snapshot is not None:
            self._replicas.restore(ready.snapshot.data)
            self._applied_term = ready.snapshot.position.term
        for entry in ready.committed:
            outcome = self._replicas.apply(entry.data)
            self._applied_term = entry.term
            term, proposal = self._proposals.get(entry.index, (0, None))
            if proposal is not None and not proposal.done():
                if term == entry.term:
                    proposal.set_result(outcome)
                else:
                    proposal.set_exception(NotLeader(raft.leader))  # another entry is there: this one is in no log
        raft.advance()
        self._answer_reads(raft, ready.reads)

    def _ask_reads(self, raft: Raft) -> None:
        """Begin one read for all that wait, when none is under way."""
        if self._asking and not self._confirming and raft.role is Role.LEADER:
            self._confirming, self._asking = self._asking, []
            raft.read(self._confirming)

    def _answer_reads(self, raft: Raft, reads: tuple[ReadState, ...]) -> None:
        for read in reads:
            self._confirmed.append((read.index, self._confirming))
            self._confirming = []
        waiting = []
        for index, futures in self._confirmed:
            if index > raft.log.applied:
                waiting.append((index, futures))
                continue
            for future in futures:
                if not future.done():
                    future.set_result(None)
        self._confirmed = waiting

    def _note_leadership(self, raft: Raft) -> None:
        if raft.role is not Role.LEADER:
            self._lose_all(OutcomeUnknown("this controller leads no more"))
        if self.is_leader is not self._was_leader:
            self._was_leader = self.is_leader
            self._on_leadership(self._was_leader)

    async def _compact(self, raft: Raft) -> None:
        if self._log_file.entry_count >= COMPACT_COUNT + KEPT_COUNT:
            applied = raft.log.applied
            snapshot = raft.compact(applied, self._replicas.snapshot(), KEPT_COUNT)
            await asyncio.to_thread(self._log_file.compact, snapshot, applied - KEPT_COUNT)

    def _lose_all(self, error: RaftError) -> None:
        """Tell all that wait that this node will not know."""
        waiting: list[asyncio.Future[Any]] = [proposal for _, proposal in self._proposals.values()]
        waiting += self._asking + self._confirming + [future for _, futures in self._confirmed for future in futures]
        self._asking, self._confirming, self._confirmed = [], [], []
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def _fail(self, error: Exception) -> None:
        """Take part no more: what the disk has is not what was promised."""
        self._leave(f"this controller takes part no more ({error}); start it again on a healthy disk", error)

    def _leave(self, reason: str, error: Exception) -> None:
        """Take no part, and tell all that wait here."""
        if self.failure != reason:
            log.error("%s", reason, exc_info=error)
        self.failure = reason
        self._lose_all(OutcomeUnknown(reason))
        if self._was_leader:
            self._was_leader = False
            self._on_leadership(False)

    def _connection_lost(self, _peer: Peer) -> None:
        raft = self._raft
        if raft is not None and raft.leader is not None and not self._peers.is_connected(raft.leader):
            raft.report_ended(raft.leader)

    def _unreachable(self, number: int) -> None:
        if self._raft is not None:
            self._raft.report_unreachable(number)

    def _delivered(self, number: int, is_delivered: bool) -> None:
        if self._raft is not None:
            self._raft.report_snapshot(number, is_delivered=is_delivered)
            self._wake.set()


def _directory(config: ControllerConfig) -> Path:
    return config.controller_store_path / f"raft-{config.controller_d_leger_self_id}"
