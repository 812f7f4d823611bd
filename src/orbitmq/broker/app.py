"""The broker as a program: constructs its parts, starts them in order, and stops them.

Start: tables from `store/config`, the store (recovered), the listening port, the NameServers. Stop is the reverse: unregister
from the NameServers, answer held requests, sync everything to the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
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
from orbitmq.broker.persistence import ConfigFiles, KnownTables, OffsetFile
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
"""For answers that a stop waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The parts of a broker between start and stop."""

    service: BrokerService
    fast_path: FastPaths
    server: Server[BrokerService]
    others: OtherServers
    housekeeping: Housekeeping
    offset_file: OffsetFile
    known_tables: KnownTables
    monitor: BrokerMonitor
    address_check: AnnouncedAddressCheck
    http: HttpServer | None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def stop_steps(self) -> Sequence[Callable[[], object]]:
        """Return the steps of a stop before the store is closed, in order."""
        service = self.service
        return (
            *([self.http.close] if self.http is not None else []),
            self.cancel_tasks,
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

    def save_steps(self) -> Sequence[Callable[[], object]]:
        """Return the steps after the store is closed: they save how far its messages were consumed and delivered.

        A slave saves offsets alone: its progress of deliveries is from its time as the master, and outdated.
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

    def start_tasks(self) -> None:
        """Start the background tasks."""
        jobs = (
            self.others.name_servers.run(),
            self.housekeeping.run(),
            *self._role_jobs(),
            self.service.store.retention.run(),
            self.monitor.run(),
            self.address_check.run(),
        )
        self.tasks.extend(asyncio.get_running_loop().create_task(job) for job in jobs)

    def _role_jobs(self) -> list[Coroutine[Any, Any, None]]:
        """Return the jobs of a slave, which replicates its master, or those of a master."""
        service = self.service
        if service.config.is_slave:
            return [service.following.log.run(), service.following.tables.run()]
        sends = service.sends
        jobs = [sends.delays.run(), sends.transaction_service.run(), service.delivery.pop.revival.run()]
        return [*jobs, sends.timers.run()] if service.config.timer_wheel_enable else jobs

    async def cancel_tasks(self) -> None:
        """Cancel the background tasks, and wait for them.

        Raises:
            Exception: the error of the first task that failed.
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
        role: the role that controllers gave this broker; None: its settings name its role.
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
        """Where /metrics, /healthz and /readyz are, as host:port; None without an HTTP port."""
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
            await running.others.registrar.wait_registered()
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
        """Unregister, answer held requests, sync and close. Safe to call twice.

        Raises:
            Exception: the error of the first background task or step that failed, once everything is closed.
            CancelledError: it was cancelled, once everything is closed, without waiting.
        """
        if self._running is None:
            return
        running, self._running = self._running, None
        failures = await do_all(*running.stop_steps())
        not_closed = await do_all(running.service.store.close)
        # The store is closed, so everything is durable: offsets may be saved as they are.
        failures += not_closed or await do_all(*running.save_steps())
        sends = running.service.sends
        failures += await do_all(sends.delays.close, sends.timers.close, running.known_tables.save_now)
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

    def _apply_settings(self, config: BrokerConfig, then: Callable[[], None]) -> None:
        """Apply changed settings in every part, and call `then` when NameServers know those that they need."""
        before, self.config = self.config, config
        running = self.running
        service = running.service
        service.use(config)
        service.store.retention.use(retention_rules(config))
        running.fast_path.use(self._make_fast_path(service))
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
        """Open the parts in order; when one fails, close the opened ones in reverse order."""
        config, directory = self.config, self.config.store_path_root_dir / "config"
        files, known_tables = ConfigFiles(directory, has_lmq=config.enable_lmq), KnownTables(directory)
        known_tables.check()
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
            epoch = 0 if role is None else role.epoch
            others = OtherServers(
                config, address, stored.topics, stored.mappings, self._client_security, epoch, self._names
            )
            service = self._make_service(address, files, stored, store, others, epochs)
            undo.push_async_callback(service.slave_listener.close)
            if store.max_physical_offset:  # a store without messages may lack its tables
                known_tables.save_now()
            store.attach(asyncio.get_running_loop())
            fast_path = self._make_fast_path(service)
            server = self._make_server(service, fast_path)
            undo.push_async_callback(server.close)
            await self._listen(server, service)
            address_check = AnnouncedAddressCheck(config, address.announced)
            monitor = self._make_monitor(service, server, others, address_check)
            http = await start_http(config, service, server, others.registrar, monitor)
            undo.pop_all()
        offset_file = OffsetFile(
            files.offsets_path, stored.offsets, self._clock, lambda: store.durable_offset, is_lmq=config.enable_lmq
        )
        running = Running(
            service=service,
            fast_path=fast_path,
            server=server,
            others=others,
            housekeeping=broker_housekeeping(
                service, offset_file, known_tables, self._server_security, retention, self._clock, self._monotonic
            ),
            offset_file=offset_file,
            known_tables=known_tables,
            monitor=monitor,
            address_check=address_check,
            http=http,
        )
        running.start_tasks()
        return running

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
            find_queues=registrar.find_queues,
            ask_broker=others.brokers.ask,
            ask_master=registrar.ask_master,
            use_settings=self._apply_settings,
        )
        service = BrokerService(context, links, stored)
        registrar.on_master.append(service.following.log.learn)
        registrar.on_ordered_topics.append(lambda names: service.tables.topics.set_ordered(names, self._clock()))
        return service

    def _make_fast_path(self, service: BrokerService) -> FastPaths:
        return broker_fast_path(service.sends.sending, PullTables.of(service), PopTables.of(service), self._clock)

    def _make_server(self, service: BrokerService, fast_path: FastPaths) -> Server[BrokerService]:
        security, guard = self._server_security, service.access.guard
        admission = security.admission if guard is None else guard.admit
        server = Server(
            HANDLERS,
            service,
            name="broker",
            limits=port_limits(self.config),
            clock=self._clock,
            # The fast path verifies no signatures: with access control every request takes the slow path.
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
        """Listen on the VIP port, too; another broker on it would receive requests for this one."""
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
