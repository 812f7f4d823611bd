"""The port where slaves follow a master's log (haListenPort), and their connections.

The decisions are `ha.master`'s. Bytes go from the segments' maps into the connections' buffers, as long as these take
them; what a slave has not read is not copied. While no slave follows, nothing here runs, and sends are not slowed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from orbitmq.address import format_peer
from orbitmq.broker.replication.group_members import GroupMembers
from orbitmq.broker.replication.role import ControlledRole
from orbitmq.clock import Clock
from orbitmq.errors import FrameError, OrbitError, StoreError
from orbitmq.ha.master import ConfirmedRange, SlaveFeed
from orbitmq.ha.replica_acks import (
    Quorum,
    ReplicaAckResult,
    ReplicaAcks,
    ReplicatedEnd,
    SlaveCount,
    SyncMembers,
    Waiter,
)
from orbitmq.ha.slave import HelloDecoder, ReportDecoder, format_header
from orbitmq.ha.sync_set import SyncSet
from orbitmq.net.listening import listen
from orbitmq.store import Store
from orbitmq.wire.bodies.controller import SyncSet as ToldSyncSet
from orbitmq.wire.bodies.stats import SlaveStatus

log = logging.getLogger(__name__)

SLAVES_MAX = 32
"""Connections of slaves; one more takes the place of one that has reported nothing, or is closed. A group of brokers has a handful."""
FIRST_REPORT_MS = 10_000
"""So long a connection may say nothing at first: Java's slaves report after 5 s."""
_TICK_MS = 100
"""How often the log is looked at when no message that consumers see has come: Java's waits as long."""
_TURN_SIZE = 1024 * 1024
"""Bytes that one slave is sent before clients are served again."""
_BUFFER_SIZE = 1024 * 1024
"""Bytes that may wait in a connection's buffer."""


@dataclass(frozen=True, slots=True)
class FollowRules:
    """How slaves are served: the settings whose names begin with `ha`. Times in milliseconds, sizes in bytes."""

    segment_size: int
    heartbeat_ms: int = 5_000
    silence_ms: int = 20_000
    run_size_max: int = 32 * 1024
    gap_max: int = 256 * 1024 * 1024
    """A slave that is further behind is shown as not in sync, and sends do not wait for it."""
    slave_count: int = 1
    """Slaves that must have a message before its send is answered, with SYNC_MASTER."""
    timeout_ms: int = 3_000
    """How long a send waits for them."""
    are_waited_for: bool = False
    """Consumers see a message when slaves have it, or are waited for no more (SYNC_MASTER)."""
    members_min: int = 1
    """Of a controlled group: members of the sync set, the master counted, without which no message is taken."""


class SlaveListener:
    """Lets slaves follow the log: `await start(...)`, then `await close()`.

    Args:
        monotonic: the clock that silences are counted on.
        role: of the master of a controlled group: its members alone may follow, and those of the sync set must have what is
            acknowledged.
    """

    def __init__(self, store: Store, rules: FollowRules, monotonic: Clock, role: ControlledRole | None = None) -> None:
        self.role = role
        self.store = store
        self.rules = rules
        self.monotonic = monotonic
        self.members = GroupMembers(rules.members_min)
        """Of the master of a controlled group."""
        self._slaves: dict[_SlaveConnection, None] = {}
        quorum: Quorum = SlaveCount(rules.slave_count)
        self.sync_set: SyncSet | None = None
        """Of the master of a controlled group."""
        if role is not None and role.is_master:
            self.sync_set = SyncSet(role.broker_id, role.sync_set.ids, role.sync_set.epoch, monotonic())
            quorum = self._members(self.sync_set)
        self._proposing: asyncio.Task[None] | None = None
        waits = quorum, rules.timeout_ms, rules.gap_max
        self._replica_acks = ReplicaAcks(*waits)
        self._replicated: ReplicatedEnd | None = None
        if rules.are_waited_for:
            self._replicated = ReplicatedEnd(store.max_physical_offset, *waits)
            store.on_held.append(self._pump_soon)
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_pumping = False

    async def start(self, host: str, port: int) -> int:
        """Listen; return the bound port (0 lets the system choose one).

        Raises:
            ConfigError: no name service knows `host`.
            OSError: the address cannot be bound.
        """
        self._listener = await listen(lambda: _SlaveConnection(self), "bindAddress", host, port)
        if self.sync_set is not None and self._timer is None:
            self._tick()
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Send the slaves what they have not been sent yet, as far as they take it without waiting, and close."""
        if self._listener is not None:
            self._listener.close()
        if self._proposing is not None:
            self._proposing.cancel()
        self._pump()
        await asyncio.sleep(0)  # the loop writes at the end of a turn
        for slave in tuple(self._slaves):
            slave.transport.abort()
            self.lost(slave)
        _answer(self._replica_acks.abandon(), ReplicaAckResult.LATE)
        self._replicated = None  # no reader is left; the store keeps what they had not seen
        if self._timer is not None:
            self._timer.cancel()

    @property
    def slaves(self) -> Sequence[SlaveStatus]:
        """The slaves that have reported, and how far each is."""
        end, gap_max = self.store.max_physical_offset, self.rules.gap_max
        return [
            SlaveStatus(
                address=slave.remote,
                acknowledged=slave.feed.acknowledged,
                behind=end - slave.feed.acknowledged,
                is_in_sync=end - slave.feed.acknowledged < gap_max,
                size_per_second=slave.size_per_second(),
                sent=slave.feed.sent,
            )
            for slave in self._slaves
            if slave.feed.sent >= 0
        ]

    def bytes_behind(self) -> dict[str, int]:
        """Return how far each slave is behind: by its id in a controlled group, by its host elsewhere (the furthest of a host)."""
        behind: dict[str, int] = {}
        end = self.store.max_physical_offset
        for slave in self._slaves:
            if slave.feed.sent >= 0:
                name = slave.remote.rpartition(":")[0] if self.role is None else str(slave.feed.broker_id)
                behind[name] = max(behind.get(name, 0), end - slave.feed.acknowledged)
        return behind

    def group_facts(self) -> dict[str, str]:
        """Tell the epoch of a controlled group, and at its master the sync set and the missing members, as run-time values."""
        facts = {} if self.role is None else {"masterEpoch": str(self.role.epoch)}
        if self.role is not None and self.sync_set is not None:
            # NameServers know the master as 0, whatever its id in the group.
            members = [0 if member == self.role.broker_id else member for member in self.sync_set.ids]
            facts["syncStateSet"] = " ".join(map(str, sorted(members)))
            facts["membersMissing"] = str(len(self.members.missing))
            facts["membersLacking"] = str(self.members.lacking)
        return facts

    def wait_replicated(self, end: int, waiter: Waiter) -> ReplicaAckResult | None:
        """Ask for an answer when enough slaves have the log up to `end`, or the time is over.

        Returns:
            None: `waiter` is called on the loop. Otherwise what there is to know already.
        """
        outcome = self._replica_acks.wait(end, self._confirmed(), self.monotonic(), waiter)
        if outcome is ReplicaAckResult.NO_SLAVE:
            self._show_replicated()
        if outcome is None:
            # Also what no consumer is told of, and with SYNC_FLUSH before the disk has it: both happen at the same time.
            self._pump_soon()
        return outcome

    def acknowledged(self) -> None:
        """Complete the waiters of what slaves have reported now, after consumers see what they waited for."""
        self._show_replicated()
        if len(self._replica_acks):
            _answer(self._replica_acks.advance(self._confirmed()), ReplicaAckResult.DONE)

    def _show_replicated(self) -> None:
        if self._replicated is not None:
            end = self._replicated.advance(self.store.max_physical_offset, self._confirmed(), self.monotonic())
            self.store.replicated_to(end)
            if self._replicated.is_waiting and self._timer is None:
                self._tick_later()

    def _confirmed(self) -> list[ConfirmedRange]:
        return [confirmed for slave in self._slaves if (confirmed := slave.feed.confirmed) is not None]

    def tell_sync_set(self, told: ToldSyncSet) -> None:
        """Take the sync set that the controllers have in this epoch."""
        if self.sync_set is not None:
            self.sync_set.told(told.ids, told.epoch, self.monotonic())
            self._need_members(self.sync_set)

    def _review_sync_set(self, sync_set: SyncSet) -> None:
        """Propose members out that do not follow, and in that have everything."""
        replicated = self._replicated
        if replicated is None:
            return
        # Who joins has to have what was acknowledged until this moment, also what no other slave had to confirm.
        self._show_replicated()
        ends = {slave.feed.broker_id: slave.feed.acknowledged for slave in self._slaves if slave.feed.sent >= 0}
        proposal = sync_set.decide(ends, self.store.max_physical_offset, replicated.end, self.monotonic())
        self._need_members(sync_set)
        if proposal is not None:
            self._proposing = asyncio.get_running_loop().create_task(self._propose(proposal, sync_set))

    async def _propose(self, proposal: frozenset[int], sync_set: SyncSet) -> None:
        """Ask the controllers for another sync set until it is known what became of it, from them or from their other answers."""
        assert self.role is not None
        log.info("the sync set %s is to be %s", sorted(sync_set.ids), sorted(proposal))
        while sync_set.proposed is proposal:
            try:
                told = await self.role.propose(ToldSyncSet(proposal, sync_set.epoch))
            except OrbitError as error:
                log.warning("the controllers have not answered for the sync set %s: %s", sorted(proposal), error)
                await asyncio.sleep(_TICK_MS / 1000)
            else:
                sync_set.settled(proposal, told.ids, told.epoch, self.monotonic())
                self._need_members(sync_set)
                return

    def _members(self, sync_set: SyncSet) -> SyncMembers:
        """Return who must have a message; refuse messages while the controllers know too few members of the set."""
        ids, least = sync_set.ids, self.rules.members_min
        is_enough = len(ids) >= least
        reason = f"the sync set of this group is {sorted(ids)}, and minInSyncReplicas={least}"
        self.store.note_uncopied(None if is_enough else reason)
        return SyncMembers(sync_set.needed, is_enough)

    def _need_members(self, sync_set: SyncSet) -> None:
        quorum = self._members(sync_set)
        if self._replica_acks.quorum != quorum and self._replicated is not None:
            self._replica_acks.quorum = self._replicated.quorum = quorum
            self.acknowledged()

    def joined(self, slave: _SlaveConnection) -> bool:
        """Take a new connection, unless there are too many."""
        strangers = (other for other in self._slaves if other.feed.sent < 0)
        if len(self._slaves) >= SLAVES_MAX and (stranger := next(strangers, None)) is not None:
            stranger.end("it has reported nothing, and another one comes")
            self.lost(stranger)
        if len(self._slaves) >= SLAVES_MAX:
            log.warning("%s would follow, but %d slaves do already", slave.remote, SLAVES_MAX)
            return False
        self._slaves[slave] = None
        if len(self._slaves) == 1:
            self.store.on_arrived.append(self._arrived)
            if self._timer is None:
                self._tick()
        return True

    def followers(self, broker_id: int) -> list[_SlaveConnection]:
        """Return the connections of a member."""
        return [slave for slave in self._slaves if slave.feed.broker_id == broker_id]

    def lost(self, slave: _SlaveConnection) -> None:
        """Forget a connection."""
        if slave not in self._slaves:
            return
        del self._slaves[slave]
        if not self._slaves:
            self.store.on_arrived.remove(self._arrived)

    def _arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._is_pumping:
            # Once for all that this turn of the loop appends.
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        for slave in tuple(self._slaves):
            slave.pump()
        self._show_replicated()

    def _tick(self) -> None:
        self._timer = None
        for slave in tuple(self._slaves):
            slave.tick()
        if self.sync_set is not None:
            self._review_sync_set(self.sync_set)
        self._show_replicated()
        _answer(self._replica_acks.expire(self.monotonic()), ReplicaAckResult.LATE)
        if self._timer is None and (self._slaves or len(self._replica_acks) or self.sync_set is not None):
            self._tick_later()

    def _tick_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_MS / 1000, self._tick)


class _SlaveConnection(asyncio.Protocol):
    """One slave's connection."""

    def __init__(self, listener: SlaveListener) -> None:
        self.feed = SlaveFeed(listener.rules.segment_size, listener.rules.run_size_max, listener.monotonic())
        self.remote = ""
        self._listener = listener
        self._hello = None if listener.role is None else HelloDecoder()
        self._reports = ReportDecoder()
        self._is_full = False
        self._is_behind = False
        self._second, self._size_in_second, self._size_before = 0, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.remote = format_peer(transport.get_extra_info("peername"))
        self.transport.set_write_buffer_limits(high=_BUFFER_SIZE)
        if self._listener.joined(self):
            log.info("%s follows", self.remote)
        else:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        log.info("%s follows no more; it had %d", self.remote, self.feed.acknowledged)
        self._listener.lost(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.pump()

    def data_received(self, data: bytes) -> None:
        store = self._listener.store
        try:
            if self._hello is not None:
                data = self._greet(self._hello, data)
            reported = self._reports.feed(data)
            if reported is not None:
                self.feed.report(
                    reported, store.min_physical_offset, store.max_physical_offset, self._listener.monotonic()
                )
        except FrameError as error:
            self.end(str(error))
        else:
            self._listener.acknowledged()
            self.pump()

    def _greet(self, decoder: HelloDecoder, data: bytes) -> bytes:
        """Take a member's hello; return what came behind it. Raises FrameError: it is of another group, or epoch."""
        found = decoder.feed(data)
        if found is None:
            return b""
        hello, rest = found
        listener, role = self._listener, self._listener.role
        if role is None or not role.is_master or hello.epoch != role.epoch:
            epoch = None if role is None else role.epoch
            raise FrameError(f"the member {hello.broker_id} follows in epoch {hello.epoch}, and this is epoch {epoch}")
        for other in listener.followers(hello.broker_id):
            other.transport.abort()  # the same member has come again, and may not have noticed that it was gone
            listener.lost(other)
        rules = listener.rules
        self.feed = SlaveFeed(rules.segment_size, rules.run_size_max, listener.monotonic(), hello.broker_id)
        self._hello = None
        return rest

    def pump(self) -> None:
        """Send what there is, as long as the connection takes it, and then let others have their turn."""
        room, store, feed = _TURN_SIZE, self._listener.store, self.feed
        while not self._is_full and not self.transport.is_closing():
            # Runs end with their segment, so that each is one slice of a mapping.
            run = feed.next_run(store.max_physical_offset)
            if run is None:
                return
            if room <= 0:
                self._go_on_soon()
                return
            try:
                content = store.read_raw(*run)
            except StoreError as error:
                self.end(str(error))
                return
            # Retention was faster than the slave: it has to begin again with the log's new start.
            if len(content) < run.size:
                self.end(f"the log has no bytes at {run.offset} any more: they were deleted before the slave had them")
                return
            self.transport.writelines((format_header(*run), content))
            feed.note_sent(run.size, self._listener.monotonic())
            self._count(run.size)
            room -= run.size

    def tick(self) -> None:
        """Check deadlines, and send what was not announced."""
        now_ms, rules = self._listener.monotonic(), self._listener.rules
        silence_ms = rules.silence_ms if self.feed.sent >= 0 else min(rules.silence_ms, FIRST_REPORT_MS)
        if self.feed.is_silent(now_ms, silence_ms):
            self.end(f"it has reported nothing for {silence_ms} ms")
            return
        self.pump()
        if self.feed.is_heartbeat_due(now_ms, rules.heartbeat_ms) and not self._is_full:
            self.transport.write(format_header(self.feed.sent, 0))
            self.feed.note_sent(0, now_ms)

    def size_per_second(self) -> int:
        """Return how many bytes were sent in the last whole second."""
        self._count(0)
        return self._size_before

    def _count(self, size: int) -> None:
        second = self._listener.monotonic() // 1000
        if second != self._second:
            self._size_before = self._size_in_second if second == self._second + 1 else 0
            self._second, self._size_in_second = second, 0
        self._size_in_second += size

    def _go_on_soon(self) -> None:
        if not self._is_behind:
            self._is_behind = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_behind = False
        self.pump()

    def end(self, reason: str) -> None:
        """Close the connection."""
        log.warning("the connection of the slave %s ends: %s", self.remote, reason)
        self.transport.abort()


def _answer(waiters: list[Waiter], outcome: ReplicaAckResult) -> None:
    for waiter in waiters:
        try:
            waiter(outcome)
        except Exception:
            log.exception("a waiter for slaves failed")
