"""A broker of a controlled group: it runs as the master or as a slave, as its controllers say, and changes when they do.

A change of the role is a stop and a start within the process, on the same port: the store is closed in order and opened for the
new role. So a promotion is what an operator's promotion is, and no part of a broker ever has two roles.

It tells every controller several times a second that it lives; one of them notices a closed connection immediately. A notice
(1008) or the next question brings a new role, as one of them comes first.

Source: Java ReplicasManager.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, suppress
from dataclasses import replace
from random import Random
from typing import NamedTuple

from orbitmq.admin.controllers import Controllers
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.failover.complete_log import CompleteLog, boot_id
from orbitmq.broker.failover.identity import IdentityFiles, obtain_id
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.persistence import ConfigFiles, KnownTables
from orbitmq.broker.registration.addresses import BrokerAddress, broker_address, kept_port, reserved_port
from orbitmq.broker.replication.role import ControlledRole, EpochFile
from orbitmq.broker.security import make_client_security
from orbitmq.broker.service import BrokerService
from orbitmq.broker.settings.store_settings import store_config
from orbitmq.broker.tables import StoredTables
from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, HeaderError, OrbitError, RemoteRefused, StoreError
from orbitmq.ha.epochs import Epochs, EpochStart, common_end, epoch_at
from orbitmq.net.loop import do_all, failure_of, stopped_on_failure
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.store import Store
from orbitmq.wire.bodies.controller import SyncSet, decode_epochs, decode_sync_set, encode_sync_set
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    AlterSyncStateSet,
    BrokerHeartbeat,
    ElectMaster,
    ElectMasterResponse,
    ExchangeReplicationInfo,
    ExchangeReplicationInfoResponse,
    GetBrokerEpochs,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    RegisterBrokerToController,
)

log = logging.getLogger(__name__)

_BEATS_PER_TIMEOUT = 5
_SILENT_TIMEOUTS = 3
"""Of heartbeats: so long a member that could not begin to lead waits for another one, and then tries again."""
_POLL_S = 0.5
"""How often controllers are asked for the role where no notice comes."""
_MEMBERS_MS = 1_000
"""How often a master asks the controllers which members are alive."""
_RETRY_S = 0.05
"""How often it is tried again while there is no role, or it cannot be taken."""
_ASK_TIMEOUT_MS = 1_000
_LOOK_TIMEOUT_MS = 300
"""Of questions that change nothing: the controller that led may be the one that is lost."""
_SETTLED_MS = 10_000
"""So long after a proposal without an answer it may still become the sync set: a controller gives up earlier."""
_DEFINITE = frozenset(
    {
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_INVALID_MASTER,
        ResponseCode.CONTROLLER_INVALID_REPLICAS,
        ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    }
)
"""Refusals of a sync set that leave no doubt: it has not become the set, and will not."""


class Leadership(NamedTuple):
    """Who leads the group, since which epoch, and its sync set."""

    master_id: int
    master_address: str
    epoch: int
    sync_set: SyncSet


class ControlledBroker:
    """One member of a controlled group: `await start()`, then it serves until `await stop()`.

    Args:
        config: with controllerAddr; brokerRole and brokerId are the controllers' to say.
        random: see `Broker`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock = now_ms,
        monotonic: Clock = monotonic_ms,
        random: Random | None = None,
    ) -> None:
        self.config = config
        self.broker_id = 0
        """The id in the group; 0 before there is one."""
        self.role: ControlledRole | None = None
        """What this broker is now; None before the first role, and while it changes."""
        self._clock = clock
        self._monotonic = monotonic
        self._random = random
        self._pool = ConnectionPool(name=f"broker {config.broker_name}", **make_client_security(config)._asdict())
        self._controllers = Controllers(config.controllers, self._pool)
        self._epochs = EpochFile(config.store_path_root_dir)
        is_flushed = config.flush_disk_type == "SYNC_FLUSH"
        self._log = CompleteLog(config.store_path_root_dir, is_flushed=is_flushed, boot=boot_id())
        self._log_epoch = 0
        """The epoch of the log's last record, where the log may be incomplete and there is no role."""
        self._broker: Broker | None = None
        self._names: tuple[str, ...] = ()
        """The NameServers of the last role: their list may not be readable when the next one begins."""
        self._next_start: dict[str, str] = {}
        """Settings that were changed in an earlier role, and count from the next start of the process on."""
        self._address: BrokerAddress | None = None
        self._ports = ExitStack()
        self._wake = asyncio.Event()
        self._log_end = 0
        self._unanswered_ms = -_SETTLED_MS
        self._members_asked_ms = -_MEMBERS_MS
        self._tasks: list[asyncio.Task[None]] = []
        self._silent_until_ms = self._monotonic()
        """After a failed start as the master this member sends no heartbeats, so that controllers elect another one."""
        self._failure = RepeatedFailure(log, "the role of this broker is not known, it is asked again")

    @property
    def address(self) -> str:
        """Where clients reach this broker, as host:port."""
        assert self._address is not None, "the broker is not started"
        return self._address.announced

    @property
    def metrics_address(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, as host:port; None without, and while the role changes."""
        return None if self._broker is None else self._broker.metrics_address

    @property
    def service(self) -> BrokerService:
        """The running broker's state; another one after each change of the role."""
        assert self._broker is not None, "the broker has no role"
        return self._broker.service

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers from now on (see `Broker.set_name_servers`)."""
        self.config = replace(self.config, namesrv_addr=addresses)
        if self._broker is not None:
            self._broker.set_name_servers(addresses)

    async def start(self) -> None:
        """Get an identity and a role from the controllers, and serve in it; waits until they answer.

        Raises:
            StoreError: the store or its tables cannot be opened.
            OSError: the port cannot be bound.
        """
        config = self.config
        async with stopped_on_failure(self.stop):
            reserved = reserved_port(config.bind_address, config.listen_port, has_vip=config.vip_channel_enable)
            port = self._ports.enter_context(reserved)
            if config.ha_listen_port <= 0:
                # Any will do: slaves ask their master where it is.
                kept = self._ports.enter_context(kept_port(config.bind_address, 0))
                self.config = config = replace(config, ha_listen_port=kept.getsockname()[1])
            self._address = await asyncio.to_thread(broker_address, config, port)
            await asyncio.to_thread(self._log.start)
            await asyncio.to_thread(self._check_store)
            await self._join()
            self._tasks = [asyncio.get_running_loop().create_task(self._beat())]
            while not await self._follow_controllers():
                await asyncio.sleep(_RETRY_S)
            self._tasks.append(asyncio.get_running_loop().create_task(self._run()))

    async def stop(self) -> None:
        """Leave the group's heartbeats and stop the broker. Safe to call twice. Raises as `Broker.stop`."""
        failures = await do_all(self._leave_group, self._save, self._pool.close, self._ports.close)
        if failures:
            raise failure_of(failures)

    async def _leave_group(self) -> None:
        """End the tasks, and the connections to the controllers: another member may lead while this one saves."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for address in self.config.controllers:
                self._pool.close_address(address)

    async def _save(self) -> None:
        """Stop in the role there is, and keep that the log has everything."""
        has_run = self._broker is not None
        await self._leave()
        if has_run:
            await asyncio.to_thread(self._log.stop)

    async def _join(self) -> None:
        """Become a member of the group, and tell the controllers the address. Waits for them."""
        config, address = self.config, self.address
        names = config.broker_cluster_name, config.broker_name
        files = IdentityFiles(config.store_path_root_dir, *names)
        while True:
            try:
                self.broker_id = await obtain_id(files, self._controllers, *names, address, self._clock)
                registration = RegisterBrokerToController(
                    cluster_name=names[0], broker_name=names[1], broker_id=self.broker_id, broker_address=address
                )
                await self._controllers.ask(registration)
            except ClientError as error:
                self._failure.note(error)
                await asyncio.sleep(_RETRY_S)
            else:
                self._failure.note(None)
                return

    async def _beat(self) -> None:
        """Tell the controllers that this broker lives, until it is cancelled."""
        timeout_ms = self.config.controller_heart_beat_timeout_mills
        await self._controllers.beat(lambda: self._heartbeat(timeout_ms), timeout_ms / _BEATS_PER_TIMEOUT / 1000)

    def _heartbeat(self, timeout_ms: int) -> BrokerHeartbeat | None:
        config, role = self.config, self.role
        if self._monotonic() < self._silent_until_ms:
            return None
        if self._broker is not None and role is not None:
            self._log_end = self._broker.service.store.max_physical_offset
        return BrokerHeartbeat(
            cluster_name=config.broker_cluster_name,
            broker_addr=self.address,
            broker_name=config.broker_name,
            broker_id=self.broker_id,
            epoch=self._log_epoch if role is None else role.epoch,
            max_offset=self._log_end,
            heartbeat_timeout_mills=timeout_ms,
            log_complete=self._log.is_complete,
        )

    async def _run(self) -> None:
        """Follow what the controllers say, until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S if self.role is not None else _RETRY_S):
                    await self._wake.wait()
            self._wake.clear()
            if await self._follow_controllers():
                await self._ask_members()

    async def _follow_controllers(self) -> bool:
        """Ask for the role, and take it; False: there is none that could be taken now.

        Raises:
            StoreError, OSError: the first role cannot be taken: the store cannot be opened.
        """
        is_first = not self._tasks[1:]
        try:
            told = await self._ask_leadership()
            if self.role is None or told.epoch > self.role.epoch:
                await self._change(told)
            elif told.epoch == self.role.epoch and self.role.is_master:
                self.service.slave_listener.tell_sync_set(told.sync_set)
            if not self._log.is_complete:
                await self._complete()
        except (OrbitError, OSError) as error:
            if is_first and isinstance(error, (StoreError, OSError)) and not isinstance(error, ClientError):
                raise
            self._failure.note(error)
            return False
        self._failure.note(None)
        return True

    async def _ask_members(self) -> None:
        """Let the master know which members are alive; without an answer it knows what it knew."""
        now_ms, role, name = self._monotonic(), self.role, self.config.broker_name
        if role is None or not role.is_master or now_ms - self._members_asked_ms < _MEMBERS_MS:
            return
        self._members_asked_ms = now_ms
        with suppress(ClientError, HeaderError):
            state = (await self._controllers.sync_states([name])).get(name)
            if state is not None:
                self.service.slave_listener.members.told((*state.in_sync, *state.not_in_sync), self._clock())

    async def _ask_leadership(self) -> Leadership:
        """Ask who leads; where no broker does, offer to.

        Raises:
            ClientError: no controller answers, or no broker can lead now.
        """
        name = self.config.broker_name
        found, body = await self._ask_replica_info()
        resigns = self.role is None and found.master_broker_id == self.broker_id and not self._log.is_complete
        before = found.master_epoch or 0
        if found.master_broker_id is None or found.master_address is None or resigns:
            wish = ElectMaster(cluster_name=self.config.broker_cluster_name, broker_name=name, broker_id=self.broker_id)
            await self._controllers.ask(wish, ElectMasterResponse)
            found, body = await self._ask_replica_info()
        if found.master_broker_id is None or found.master_address is None:
            raise ConnectionFailed(name, "no broker of the group leads")
        if resigns and found.master_broker_id == self.broker_id and found.master_epoch == before:
            # It was elected when it had more, or the controllers do not know yet that it may have less.
            raise ConnectionFailed(
                name, "this broker's log may be incomplete, other members of the sync set are waited for"
            )
        return Leadership(found.master_broker_id, found.master_address, found.master_epoch or 0, decode_sync_set(body))

    async def _ask_replica_info(self) -> tuple[GetReplicaInfoResponse, bytes]:
        header = GetReplicaInfo(broker_name=self.config.broker_name)
        return await self._controllers.ask(header, GetReplicaInfoResponse, timeout_ms=_LOOK_TIMEOUT_MS)

    async def _change(self, told: Leadership) -> None:
        """Stop in the old role, and start in the new one.

        Not before all is known that the new one needs: until then NameServers know this broker, and the group's topics.
        """
        role = ControlledRole(
            broker_id=self.broker_id,
            epoch=told.epoch,
            master_id=told.master_id,
            master_address=told.master_address,
            sync_set=told.sync_set,
            propose=self._propose_in_role,
            changed=self._wake.set,
        )
        told_set = role.sync_set
        if not role.is_master:
            role = await self._as_slave(role)
        elif told_set.ids != {self.broker_id}:
            if self._monotonic() < self._silent_until_ms:
                raise ConnectionFailed(
                    self.config.broker_name, "this member could not begin to lead, others are waited for"
                )
            role = await self._alone(role)
        await self._leave()
        config = replace(
            self.config,
            listen_port=self._listen_port,
            broker_role="SYNC_MASTER" if role.is_master else "SLAVE",
            broker_id=0 if role.is_master else self.broker_id,
        )
        broker = Broker(
            config, clock=self._clock, monotonic=self._monotonic, random=self._random, role=role, names=self._names
        )
        try:
            await broker.start()
        except (StoreError, OSError):
            if role.is_master:
                await self._give_up_lead(role, told_set)
            raise
        texts = broker.config.to_properties()
        pending = {key: text for key, text in self._next_start.items() if texts[key] != text}
        broker.service.settings.next_start = pending
        self._broker, self.role, self._silent_until_ms = broker, role, self._monotonic()
        what = "leads" if role.is_master else f"follows {role.master_address}"
        log.info("member %d of %s %s in epoch %d", self.broker_id, config.broker_name, what, role.epoch)

    def _check_store(self) -> None:
        """Recover the store, and find where the log ends, and in which epoch.

        A member whose store cannot be opened must not be elected, nor leave others out of the sync set: it asks no controller.

        Raises:
            StoreError, OSError: the store or its tables cannot be opened.
        """
        assert self._address is not None
        config, tables = self.config, self.config.store_path_root_dir / "config"
        KnownTables(tables).check()
        StoredTables.load(ConfigFiles(tables, has_lmq=config.enable_lmq), config)
        store = Store.open(store_config(config), store_host=self._address.host, clock=self._clock)
        try:
            self._log_end, found = store.max_physical_offset, store.recovery_report
        finally:
            store.close()
        epochs = self._epochs.read()
        self._log_epoch = epoch_at(epochs, self._log_end)
        begun = epochs[-1].start if epochs else 0
        if found.cut_size or found.missing_size or found.lost_size or begun > self._log_end:
            log.warning("the log of this member ends at %d and has had more: it counts as incomplete", self._log_end)
            self._log.note_incomplete()

    async def _complete(self) -> None:
        """Keep that the log is complete again, once it is. Raises OSError."""
        role = self.role
        assert role is not None
        # An elected master has what is left; a slave copies what its master had when it began to follow.
        if role.is_master or self.service.store.max_physical_offset >= role.master_end:
            await asyncio.to_thread(self._log.note_complete)

    @property
    def _listen_port(self) -> int:
        assert self._address is not None
        return self._address.host.port

    async def _leave(self) -> None:
        """Stop in the role there is."""
        broker, self._broker, self.role = self._broker, None, None
        if broker is not None:
            self._log_end = broker.service.store.max_physical_offset
            self._names = broker.running.others.name_servers.names
            self._next_start = broker.service.settings.next_start
            own = self.config  # settings that were changed meanwhile count in the next role, too
            self.config = replace(
                broker.config, listen_port=own.listen_port, broker_role=own.broker_role, broker_id=own.broker_id
            )
            await broker.stop()

    async def _alone(self, role: ControlledRole) -> ControlledRole:
        """Begin to lead: the others of the sync set have not what consumers may read here from now on.

        Raises:
            ClientError: the controllers do not agree, or it is not known.
        """
        sync_set = await self._propose(SyncSet(frozenset([self.broker_id]), role.sync_set.epoch), role)
        if sync_set.ids != {self.broker_id}:
            raise ConnectionFailed(self.config.broker_name, f"the sync set is {sorted(sync_set.ids)} meanwhile")
        return replace(role, sync_set=sync_set)

    async def _give_up_lead(self, role: ControlledRole, former: SyncSet) -> None:
        """Bring back the sync set, whose members have what this one has, and send no heartbeats until one of them leads."""
        self._silent_until_ms = self._monotonic() + _SILENT_TIMEOUTS * self.config.controller_heart_beat_timeout_mills
        log.error("member %d of %s was elected, and cannot begin to lead", self.broker_id, self.config.broker_name)
        sync_set = role.sync_set
        for member in sorted(former.ids - sync_set.ids):  # one by one: a set with a member that is gone is refused
            with suppress(ClientError):
                sync_set = await self._propose(SyncSet(sync_set.ids | {member}, sync_set.epoch), role)

    async def _as_slave(self, role: ControlledRole) -> ControlledRole:
        """Compare the log with the master's, by epochs; return the role with what a slave needs.

        Raises:
            StoreError: the logs have nothing in common.
            ClientError: the master does not answer, or does not lead yet.
        """
        command = await self._pool.request(role.master_address, GetBrokerEpochs(), timeout_ms=_ASK_TIMEOUT_MS)
        theirs = decode_epochs(bytes(expect(command, role.master_address).body))
        epochs: Epochs = tuple(EpochStart(part.epoch, part.start_offset) for part in theirs.epochs)
        if not epochs or epochs[-1].epoch != role.epoch:
            raise ConnectionFailed(role.master_address, f"it does not lead in epoch {role.epoch} yet")
        asked = ExchangeReplicationInfo()
        command = await self._pool.request(role.master_address, asked, timeout_ms=_ASK_TIMEOUT_MS)
        address = decode_header(ExchangeReplicationInfoResponse, command.ext_fields).master_ha_address or ""
        own = await asyncio.to_thread(self._epochs.read)
        cut_at = common_end(own, epochs, theirs.max_offset)
        if cut_at is None and _has_log(self.config):
            raise StoreError(
                f"the log below {self.config.store_path_root_dir} has no epoch in common with the master's at "
                f"{role.master_address}: it is not a copy; move the store away, and it is copied from the master"
            )
        return replace(
            role, master_epochs=epochs, master_end=theirs.max_offset, master_ha_address=address, cut_at=cut_at
        )

    async def _propose_in_role(self, wanted: SyncSet) -> SyncSet:
        """As `_propose`, in the role there is."""
        if self.role is None:
            raise ConnectionFailed(self.config.broker_name, "the role changes")
        return await self._propose(wanted, self.role)

    async def _propose(self, wanted: SyncSet, role: ControlledRole) -> SyncSet:
        """Ask the controllers for another sync set; return the one that they have then.

        Raises:
            ClientError: it is not known what became of it, and it may become the set still.
        """
        header = AlterSyncStateSet(
            broker_name=self.config.broker_name, master_broker_id=self.broker_id, master_epoch=role.epoch
        )
        try:
            _, body = await self._controllers.ask(header, body=encode_sync_set(wanted))
            return decode_sync_set(body)
        except RemoteRefused as refusal:
            if refusal.code not in _DEFINITE:
                self._unanswered_ms = self._monotonic()
                raise
            told = await self._ask_leadership()
            if told.epoch != role.epoch:
                self._wake.set()
                raise
            # An earlier attempt without an answer may still be under way where the set has not changed since.
            is_settled = self._monotonic() - self._unanswered_ms >= _SETTLED_MS
            if told.sync_set.epoch == wanted.epoch and not is_settled:
                raise
            return told.sync_set
        except ClientError:
            self._unanswered_ms = self._monotonic()
            raise


def _has_log(config: BrokerConfig) -> bool:
    directory = config.store_path_root_dir / "commitlog"
    return directory.is_dir() and any(directory.iterdir())
