"""The broker as a program: it puts its parts together, starts them in order, and takes them down again.

Start: tables from `store/config`, the store (recovered), the listening port, the NameServers. Stop is the same the
other way round: first no client is sent here any more, then what waits is answered, then everything is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.context import BrokerContext, BrokerLinks
from orbitmq.broker.fast_path.paths import FastPaths, broker_fast_path
from orbitmq.broker.handlers import HANDLERS
from orbitmq.broker.handlers.pop import PopTables
from orbitmq.broker.handlers.pull import PullTables
from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.health.pages import start_http
from orbitmq.broker.housekeeping import Housekeeping, broker_housekeeping
from orbitmq.broker.limits import descriptor_warnings, port_limits
from orbitmq.broker.persistence import ConfigFiles, OffsetFile, TableNotes
from orbitmq.broker.registration.addresses import (
    AnnouncedAddressCheck,
    BrokerAddress,
    broker_address,
    ha_port,
    reserved_port,
    vip_port,
)
from orbitmq.broker.registration.other_servers import OtherServers
from orbitmq.broker.replication.role import ControlledRole, EpochFile
from orbitmq.broker.security import make_client_security, make_server_security
from orbitmq.broker.service import BrokerService
from orbitmq.broker.settings.changes import with_kept_changes
from orbitmq.broker.settings.store_settings import retention_rules, store_config
from orbitmq.broker.tables import StoredTables
from orbitmq.broker.topics.retention import TopicRetention
from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.errors import ConfigError
from orbitmq.ha.epochs import Epochs
from orbitmq.net.http import HttpServer
from orbitmq.net.loop import do_all, failure_of, stopped_on_failure
from orbitmq.net.server import Server
from orbitmq.store import Store

log = logging.getLogger(__name__)

DRAIN_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The parts of a broker between start and stop."""

    service: BrokerService
    fast_path: FastPaths
    server: Server[BrokerService]
    others: OtherServers
    housekeeping: Housekeeping
    offset_file: OffsetFile
    table_notes: TableNotes
    monitor: BrokerMonitor
    http: HttpServer | None
    tasks: Sequence[asyncio.Task[None]]

    def endings(self) -> Sequence[Callable[[], object]]:
        """Return the steps of a stop up to the store, in order; opening goes the other way round."""
        service = self.service
        return (
            *([self.http.close] if self.http is not None else []),
            self.end_tasks,
            self.others.registrar.leave,
            self.fast_path.close,
            service.delivery.pulls.close,
            service.delivery.pop.close,
            service.clients.routes.close,
            service.tables.topics.static.close,
            lambda: self.server.drain(DRAIN_MS),
            self.server.close,
            service.slave_listener.close,
            service.sends.transaction_service.stop,
        )

    def saves(self) -> Sequence[Callable[[], object]]:
        """Return the steps behind the store's: what says how far its messages were consumed and delivered.

        A slave has delivered nothing: what it knows of that from its time as the master is older than what it took over.
        """
        service = self.service
        if service.config.is_slave:
            return (self.offset_file.save_now,)
        return (
            service.sends.transaction_service.save,
            service.delivery.pop.revive_log.commit,
            service.delivery.pop.batch_file.save_now,
            self.offset_file.save_now,
            service.sends.delays.save,
        )

    async def end_tasks(self) -> None:
        """Cancel the tasks that run next to the server, and wait for them.

        Raises:
            Exception: what the first one that failed has failed with.
        """
        for task in self.tasks:
            task.cancel()
        for error in await asyncio.gather(*self.tasks, return_exceptions=True):
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error


class Broker:
    """One broker: `await start()`, then it serves until `await stop()`.

    Args:
        random: chooses queues where clients leave that to the broker.
        role: what controllers have made of this broker; None: its settings say what it is.
        names: NameServers that it registers with until it has read the list of a file or an address server.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock = now_ms,
        monotonic: Clock = monotonic_ms,
        random: Random | None = None,
        role: ControlledRole | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self._role = role
        self._names = names
        self.config = with_kept_changes(config)
        self._clock = clock
        self._monotonic = monotonic
        self._random = random or Random()
        self._client_security = make_client_security(config)
        self._server_security = make_server_security(config)
        self._running: Running | None = None

    @property
    def running(self) -> Running:
        """The parts of the running broker."""
        assert self._running is not None, "the broker is not started"
        return self._running

    @property
    def service(self) -> BrokerService:
        """The running broker's state."""
        return self.running.service

    @property
    def address(self) -> str:
        """Where clients reach this broker, as host:port."""
        return self.service.address.announced

    @property
    def metrics_address(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, as host:port; None without."""
        http = self.running.http
        return None if http is None else http.address

    async def start(self) -> None:
        """Recover the store, listen, and register with every NameServer.

        Raises:
            StoreError: the store or its tables cannot be opened.
            OSError: the port cannot be bound.
        """
        config = self.config
        has_vip, has_ha = config.vip_channel_enable, config.has_slaves and config.ha_listen_port <= 0
        with reserved_port(config.bind_address, config.listen_port, has_vip=has_vip, has_ha=has_ha) as port:
            running = self._running = await self._open(await asyncio.to_thread(broker_address, self.config, port))
        async with stopped_on_failure(self.stop):
            await running.others.name_servers.start()
            await running.others.registrar.wait_told()
        for warning in self._server_security.warnings:
            log.warning("%s", warning)
        log.info(
            "broker %s of cluster %s serves at %s; TLS: %s",
            self.config.broker_name,
            self.config.broker_cluster_name,
            self.address,
            self._server_security.tls_description,
        )

    async def stop(self) -> None:
        """Leave the NameServers, answer what waits, sync and close. Safe to call twice.

        Raises:
            Exception: what a task that ran next to the server, or the first step that failed, has failed with; everything
                is closed all the same.
            CancelledError: it was cancelled; everything is closed all the same, without waiting.
        """
        if self._running is None:
            return
        running, self._running = self._running, None
        failures = await do_all(*running.endings())
        not_closed = await do_all(running.service.store.close)
        # The store is closed, so everything is durable: how far it was consumed and delivered may be kept as it is.
        failures += not_closed or await do_all(*running.saves())
        sends = running.service.sends
        failures += await do_all(sends.delays.close, sends.timers.close, running.table_notes.save_now)
        log.info("broker %s stopped", self.config.broker_name)
        if failures:
            raise failure_of(failures)

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers (`host:port;host:port`) from now on.

        Raises:
            ConfigError: one of them is not a host:port.
        """
        self.config = replace(self.config, namesrv_addr=addresses)
        self.running.service.use(self.config)
        self.running.others.name_servers.replace(self.config.name_servers)

    def _use(self, config: BrokerConfig, then: Callable[[], None]) -> None:
        """Let settings that were changed count everywhere, and call back when NameServers know what concerns them."""
        before, self.config = self.config, config
        running = self.running
        service = running.service
        service.use(config)
        service.store.retention.use(retention_rules(config))
        running.fast_path.use(
            broker_fast_path(service.sends.sending, PullTables.of(service), PopTables.of(service), self._clock)
        )
        running.server.rebind()
        running.others.permission = config.broker_permission
        if config.name_servers != before.name_servers:
            running.others.name_servers.replace(config.name_servers)
        if config.broker_permission != before.broker_permission:
            service.tables.topics.announce_again(self._clock(), then)
        elif config.name_servers != before.name_servers:
            running.others.registrar.announce(then)
        else:
            then()

    async def _open(self, address: BrokerAddress) -> Running:
        """Open one part after another; where one fails, those that are open are closed again, the last one first."""
        config, path = self.config, self.config.store_path_root_dir / "config"
        files, table_notes = ConfigFiles(path, has_lmq=config.enable_lmq), TableNotes(path)
        table_notes.check()
        stored = StoredTables.load(files, config)
        async with AsyncExitStack() as undo:
            store = self._open_store(address)
            undo.callback(store.close)
            role = self._role
            epochs = () if role is None else role.begin(store, EpochFile(config.store_path_root_dir))
            is_elected = role is not None and role.is_master
            stored.fit(store, files, config, self._clock(), is_elected=is_elected)
            retention = TopicRetention(self._clock, self._monotonic)
            await retention.hide_expired(stored.topics.all, store)
            others = OtherServers(
                config,
                address,
                stored.topics,
                stored.mappings,
                self._client_security,
                0 if role is None else role.epoch,
                self._names,
            )
            service = self._make_service(address, files, stored, store, others, epochs)
            undo.push_async_callback(service.slave_listener.close)
            if store.max_physical_offset:  # before the first message nothing can be missed
                table_notes.save_now()
            store.attach(asyncio.get_running_loop())
            fast_path = broker_fast_path(
                service.sends.sending, PullTables.of(service), PopTables.of(service), self._clock
            )
            server = self._make_server(service, fast_path)
            undo.push_async_callback(server.close)
            await self._listen(server, service)
            address_check = AnnouncedAddressCheck(config, address.announced)
            monitor = self._make_monitor(service, server, others, address_check)
            http = await start_http(config, service, server, others.registrar, monitor)
            undo.pop_all()
        offset_file = OffsetFile(
            files.offsets_path,
            stored.offsets,
            self._clock,
            lambda: store.durable_offset,
            is_lmq=config.enable_lmq,
        )
        security = self._server_security
        housekeeping = broker_housekeeping(
            service, offset_file, table_notes, security, retention, self._clock, self._monotonic
        )
        jobs = (
            others.name_servers.run(),
            housekeeping.run(),
            *self._own_jobs(service),
            store.retention.run(),
            monitor.run(),
            address_check.run(),
        )
        tasks = [asyncio.get_running_loop().create_task(job) for job in jobs]
        return Running(
            service=service,
            fast_path=fast_path,
            server=server,
            others=others,
            housekeeping=housekeeping,
            offset_file=offset_file,
            table_notes=table_notes,
            monitor=monitor,
            http=http,
            tasks=tasks,
        )

    def _open_store(self, address: BrokerAddress) -> Store:
        return Store.open(
            store_config(self.config, None if self._role is None else self._role.cut_at),
            store_host=address.host,
            clock=self._clock,
            monotonic=self._monotonic,
            retention=retention_rules(self.config),
        )

    def _make_service(
        self,
        address: BrokerAddress,
        files: ConfigFiles,
        stored: StoredTables,
        store: Store,
        others: OtherServers,
        epochs: Epochs,
    ) -> BrokerService:
        config, registrar = self.config, others.registrar
        context = BrokerContext(
            config=config,
            store=store,
            files=files,
            address=address,
            access=AccessControl(config, files.access_path, store),
            security=self._server_security,
            clock=self._clock,
            monotonic=self._monotonic,
            random=self._random,
            role=self._role,
            epochs=epochs,
        )
        links = BrokerLinks(
            announce=registrar.announce,
            ask_route=registrar.ask_queues,
            ask_broker=others.brokers.ask,
            ask_master=registrar.ask_master,
            use_settings=self._use,
        )
        service = BrokerService(context, links, stored)
        registrar.on_master.append(service.following.log.learn)
        registrar.on_ordered_topics.append(lambda names: service.tables.topics.set_ordered(names, self._clock()))
        return service

    def _make_server(self, service: BrokerService, fast_path: FastPaths) -> Server[BrokerService]:
        security, guard = self._server_security, service.access.guard
        admission = security.admission if guard is None else guard.admit
        server = Server(
            HANDLERS,
            service,
            name="broker",
            limits=port_limits(self.config),
            clock=self._clock,
            # The fast path checks no access: where sends need a signature they take the slow path.
            fast_path=fast_path if admission is None else None,
            admission=admission,
            tls=security.tls,
        )
        server.on_connection_lost(service.delivery.pulls.drop_connection)
        server.on_connection_lost(service.delivery.pop.drop_connection)
        server.on_connection_lost(service.clients.membership.drop_connection)
        server.on_connection_lost(service.tables.auto_creation.drop_connection)
        return server

    async def _listen(self, server: Server[BrokerService], service: BrokerService) -> None:
        """Listen on the port, for Java clients on the VIP port, and for slaves."""
        config, port = self.config, service.address.host.port
        await server.start(config.bind_address, port)
        if config.vip_channel_enable:
            await self._listen_for_vip(server, vip_port(port))
        if config.has_slaves:
            await service.slave_listener.start(config.bind_address, ha_port(config, port))

    async def _listen_for_vip(self, server: Server[BrokerService], port: int) -> None:
        """Listen on the VIP port, too; another broker there would be sent what is meant for this one."""
        if port <= 0:
            return
        try:
            await server.listen_also(port)
        except OSError as error:
            expected = (
                f"a port whose VIP port, listenPort - 2 = {port}, can be bound as well ({error.strerror}): Java clients "
                "with vipChannelEnabled send there. vipChannelEnable=false does without"
            )
            raise ConfigError("listenPort", port + 2, expected) from error

    def _make_monitor(
        self,
        service: BrokerService,
        server: Server[BrokerService],
        others: OtherServers,
        address_check: AnnouncedAddressCheck,
    ) -> BrokerMonitor:
        monitor = BrokerMonitor(
            service,
            server,
            others.registrar,
            clock=self._clock,
            name_servers=others.name_servers,
            address_check=address_check,
            tls=lambda: self._server_security.tls_description,
            warnings=[*self._server_security.warnings, *descriptor_warnings(self.config)],
        )
        service.monitoring.health = monitor.health
        return monitor

    def _own_jobs(self, service: BrokerService) -> list[Coroutine[Any, Any, None]]:
        """Return what a master does with its messages, or a slave for its master's."""
        if self.config.is_slave:
            return [service.following.log.run(), service.following.tables.run()]
        jobs = [service.sends.delays.run(), service.sends.transaction_service.run(), service.delivery.pop.revival.run()]
        return [*jobs, service.sends.timers.run()] if self.config.timer_wheel_enable else jobs
