"""The broker as a program: it puts its parts together, starts them in order, and takes them down again.

Start: tables from `store/config`, the store (recovered), the listening port, the NameServers. Stop is the same the
other way round: first no client is sent here any more, then what waits is answered, then everything is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.access.settings import parse_own_credentials
from orbitmq.broker.acl import make_server_security
from orbitmq.broker.config import CONSUME_QUEUE_UNIT_SIZE, BrokerConfig
from orbitmq.broker.fast_path.paths import FastPaths, broker_fast_path
from orbitmq.broker.handlers import HANDLERS, pop_tables
from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.housekeeping import TURN_MS, Housekeeping, PeriodicJob
from orbitmq.broker.limits import port_limits
from orbitmq.broker.persistence import ConfigFiles, OffsetFile, TableNotes
from orbitmq.broker.registration.addresses import BrokerAddress, broker_address, ha_port, reserved_port, vip_port
from orbitmq.broker.registration.other_servers import NameServers, OtherBrokers
from orbitmq.broker.registration.registrar import PART_TOPICS_MAX, Identity, Registrar, encode_parts
from orbitmq.broker.service import BrokerService, StoredTables
from orbitmq.broker.settings.changes import with_kept_changes
from orbitmq.broker.topics.attributes import missing_attribute
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.errors import ConfigError, StoreError
from orbitmq.net.http import HttpServer
from orbitmq.net.limits import Limits, descriptor_limit, tell_of_few_descriptors
from orbitmq.net.loop import do_all, failure_of
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import load_security
from orbitmq.net.server import Server
from orbitmq.store import FlushMode, Store, StoreConfig
from orbitmq.store.retention.rules import HOUR_MS, RetentionRules, parse_hours

log = logging.getLogger(__name__)

DRAIN_MS = 3_000
SWEEP_MS = 5_000
"""How often held pulls (Java: PullRequestHoldService), accounts and certificates are looked through."""
CLIENT_SCAN_MS = 10_000


@dataclass(frozen=True, slots=True)
class Running:
    """The parts of a broker between start and stop."""

    service: BrokerService
    fast_path: FastPaths
    server: Server[BrokerService]
    registrar: Registrar
    name_servers: NameServers
    housekeeping: Housekeeping
    offset_file: OffsetFile
    table_notes: TableNotes
    monitor: BrokerMonitor
    http: HttpServer | None
    tasks: Sequence[asyncio.Task[None]]

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
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock = now_ms,
        monotonic: Clock = monotonic_ms,
        random: Random | None = None,
    ) -> None:
        self.config = with_kept_changes(config)
        self._clock = clock
        self._monotonic = monotonic
        self._random = random or Random()
        security = load_security(config.security_file)
        own = security.credentials or parse_own_credentials(config.inner_client_authentication_credentials)
        self._client_security = security._replace(credentials=own)
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
            running = self._running = await self._open(broker_address(self.config, port))
        await running.name_servers.look_up()
        await running.registrar.wait_told()
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
        service, server = running.service, running.server
        failures = await do_all(
            *([running.http.close] if running.http is not None else []),
            running.end_tasks,
            running.registrar.leave,
            running.fast_path.close,
            service.pulls.close,
            service.pop.close,
            service.routes.close,
            service.topics.static.close,
            lambda: server.drain(DRAIN_MS),
            server.close,
            service.slave_listener.close,
            service.transaction_service.stop,
        )
        not_closed = await do_all(service.store.close)
        # The store is closed, so everything is durable: how far it was consumed and delivered may be kept as it is.
        saves = (
            service.transaction_service.save,
            service.pop.batch_file.save_now,
            running.offset_file.save_now,
            service.delays.save,
        )
        failures += not_closed or await do_all(*saves)
        failures += await do_all(service.delays.close, service.timers.close, running.table_notes.save_now)
        log.info("broker %s stopped", self.config.broker_name)
        if failures:
            raise failure_of(failures)

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers (`host:port;host:port`) from now on.

        Raises:
            ConfigError: one of them is no host:port.
        """
        self.config = replace(self.config, namesrv_addr=addresses)
        self.running.name_servers.replace(self.config.name_servers)

    def _use(self, config: BrokerConfig, then: Callable[[], None]) -> None:
        """Let settings that were changed count everywhere, and call back when NameServers know what concerns them."""
        before = self.config
        self.config = config = replace(
            config, namesrv_addr=before.namesrv_addr
        )  # which `set_name_servers` may have set
        running = self.running
        service = running.service
        service.use(config)
        service.store.retention.use(retention_rules(config))
        running.fast_path.use(broker_fast_path(service.sending, pop_tables(service), self._clock))
        running.server.rebind()
        if config.broker_permission == before.broker_permission:
            then()
        else:
            service.topics.announce_again(self._clock(), then)

    async def _open(self, address: BrokerAddress) -> Running:
        """Load the tables, recover the store, listen, and start the background tasks."""
        config = self.config
        files = ConfigFiles(config.store_path_root_dir / "config", has_lmq=config.enable_lmq)
        table_notes = TableNotes(config.store_path_root_dir / "config")
        table_notes.check()
        tables = StoredTables(
            files.load_topics(
                auto_create_enable=config.auto_create_topic_enable and not config.is_slave, count_max=config.topics_max
            ),
            files.load_groups(auto_create_enable=config.auto_create_subscription_group, count_max=config.groups_max),
            files.load_offsets(),
            files.load_mappings(),
        )
        store = Store.open(
            store_config(config),
            store_host=address.host,
            clock=self._clock,
            monotonic=self._monotonic,
            retention=retention_rules(config),
        )
        server: Server[BrokerService] | None = None
        service: BrokerService | None = None
        try:
            self._fit_tables(tables, store, files)
            pool = ConnectionPool(name=f"broker {config.broker_name}", **self._client_security._asdict())
            # The service needs the registrar, and the registrar what it tells: it is looked up when it is told.
            registrar = self._make_registrar(
                address,
                tables,
                pool,
                lambda ha, broker: service.follower.learn(ha, broker) if service is not None else None,
            )
            other_brokers = OtherBrokers(registrar.ask_route, pool, timeout_ms=config.forward_timeout)
            service = BrokerService(
                config,
                tables,
                store,
                access=AccessControl(config, files.access_path, store),
                address=address,
                files=files,
                announce=registrar.announce,
                # The monitor needs the server, and the server the service: it is looked up when it is asked.
                health=lambda: monitor.health(),
                ask_route=registrar.ask_queues,
                ask_broker=other_brokers.ask,
                ask_master=registrar.ask_master,
                use_settings=self._use,
                security=self._server_security,
                clock=self._clock,
                monotonic=self._monotonic,
                random=self._random,
            )
            if store.max_physical_offset:  # before the first message nothing can be missed
                table_notes.save_now()
            store.attach(asyncio.get_running_loop())
            fast_path = broker_fast_path(service.sending, pop_tables(service), self._clock)
            descriptors = descriptor_limit()
            limits = port_limits(config, descriptors)
            server = self._make_server(service, fast_path, limits)
            few_descriptors = tell_of_few_descriptors(config.connections_max, limits.connections_max, descriptors)
            await server.start(config.bind_address, address.host.port)
            if config.vip_channel_enable:
                await self._listen_for_vip(server, vip_port(address.host.port))
            if config.has_slaves:
                await service.slave_listener.start(config.bind_address, ha_port(config, address.host.port))
            warnings = [*self._server_security.warnings, *few_descriptors]
            monitor = BrokerMonitor(
                service,
                server,
                registrar,
                clock=self._clock,
                tls=lambda: self._server_security.tls_description,
                warnings=warnings,
            )
            http = await self._start_http(service, server, registrar, monitor)
        except BaseException:
            if server is not None:
                await server.close()
            if service is not None:
                await service.slave_listener.close()
            store.close()
            raise
        offset_file = OffsetFile(
            files.offsets_path,
            tables.offsets,
            self._clock,
            lambda: store.durable_offset,
            is_lmq=config.enable_lmq,
        )
        return self._begin(service, fast_path, server, registrar, offset_file, table_notes, monitor, http)

    def _fit_tables(self, tables: StoredTables, store: Store, files: ConfigFiles) -> None:
        """Bring the tables in line with the settings and with the store, which a crash may have cut."""
        if store.max_physical_offset and not tables.topics.all:
            log.warning("%s is missing, or empty: the topics of the stored messages are not known", files.topics_path)
        for config in tables.topics.all.values():
            if config.attributes and (attribute := missing_attribute(config.attributes)) is not None:
                log.warning("the topic %s has %s, which has no effect here", config.topic, attribute)
        loaded_version = tables.topics.version
        tables.topics.add_missing(system_topics(self.config), self._clock())
        for cut in tables.offsets.cut_to(store.max_offset):
            log.warning("a committed offset lay beyond its queue's end and was pulled back: %s", cut)
        if tables.topics.version != loaded_version:
            try:
                files.save_topics(tables.topics)
            except OSError as error:
                raise StoreError(f"{files.topics_path} cannot be written: {error}") from error
            tables.topics.keep()

    def _make_registrar(
        self,
        address: BrokerAddress,
        tables: StoredTables,
        pool: ConnectionPool,
        on_master: Callable[[str | None, str | None], None],
    ) -> Registrar:
        config, topics, mappings = self.config, tables.topics, tables.mappings.all
        identity = Identity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            address.announced,
            ha_address=address.replication,
        )
        part_size = config.split_registration_size if config.enable_split_registration else PART_TOPICS_MAX
        return Registrar(
            identity,
            lambda: encode_parts(topics.version, topics.masked(self.config.broker_permission), part_size, mappings),
            period_ms=config.register_name_server_period,
            heartbeat_ms=config.broker_heartbeat_interval if config.heartbeat_enable else None,
            lease_ms=config.broker_not_active_timeout_millis if config.heartbeat_enable else None,
            timeout_ms=config.register_broker_timeout_mills,
            pool=pool,
            on_master=on_master,
        )

    def _make_server(self, service: BrokerService, fast_path: FastPaths, limits: Limits) -> Server[BrokerService]:
        security, guard = self._server_security, service.access.guard
        admission = security.admission if guard is None else guard.admit
        server = Server(
            HANDLERS,
            service,
            name="broker",
            limits=limits,
            clock=self._clock,
            # The fast path checks no access: where sends need a signature they take the slow path.
            fast_path=fast_path if admission is None else None,
            admission=admission,
            tls=security.tls,
        )
        server.on_connection_lost(service.pulls.drop_connection)
        server.on_connection_lost(service.pop.drop_connection)
        server.on_connection_lost(service.membership.drop_connection)
        server.on_connection_lost(service.admissions.drop_connection)
        return server

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

    def _begin(
        self,
        service: BrokerService,
        fast_path: FastPaths,
        server: Server[BrokerService],
        registrar: Registrar,
        offset_file: OffsetFile,
        table_notes: TableNotes,
        monitor: BrokerMonitor,
        http: HttpServer | None,
    ) -> Running:
        """Start the tasks that run next to the server."""
        loop = asyncio.get_running_loop()
        name_servers = NameServers(registrar, self.config.name_servers)
        housekeeping = self._make_housekeeping(service, offset_file, table_notes)
        jobs = (
            name_servers.run(),
            housekeeping.run(),
            *self._own_jobs(service),
            service.store.retention.run(),
            monitor.run(),
        )
        tasks = [loop.create_task(job) for job in jobs]
        return Running(
            service,
            fast_path,
            server,
            registrar,
            name_servers,
            housekeeping,
            offset_file,
            table_notes,
            monitor,
            http,
            tasks,
        )

    def _own_jobs(self, service: BrokerService) -> list[Coroutine[Any, Any, None]]:
        """Return what a master does with its messages, or a slave for its master's."""
        if self.config.is_slave:
            return [service.follower.run(), service.metadata.run()]
        jobs = [service.delays.run(), service.transaction_service.run(), service.pop.revival.run()]
        return [*jobs, service.timers.run()] if self.config.timer_wheel_enable else jobs

    async def _start_http(
        self, service: BrokerService, server: Server[BrokerService], registrar: Registrar, monitor: BrokerMonitor
    ) -> HttpServer | None:
        if self.config.metrics_port < 0:
            return None
        # Imported here: a broker without the port starts faster.
        from orbitmq.broker.health.metrics import BrokerMetrics
        from orbitmq.monitoring.pages import server_pages

        metrics = BrokerMetrics(service, server, registrar, monitor, self._clock)
        http = HttpServer(server_pages(metrics.collect, monitor.health, "not ready"))
        await http.start(self.config.metrics_address, self.config.metrics_port)
        return http

    def _make_housekeeping(
        self, service: BrokerService, offset_file: OffsetFile, table_notes: TableNotes
    ) -> Housekeeping:
        clock = self._clock
        return Housekeeping(
            [
                PeriodicJob(TURN_MS, lambda: service.stats.sample(clock())),
                PeriodicJob(TURN_MS, lambda: service.stats.sample_flows(self._monotonic())),
                PeriodicJob(TURN_MS, lambda: service.pulls.answer_expired(self._monotonic())),
                PeriodicJob(SWEEP_MS, service.pulls.answer_overtaken),
                PeriodicJob(SWEEP_MS, service.pop.wake_overtaken),
                PeriodicJob(SWEEP_MS, self._server_security.reload_if_changed),
                PeriodicJob(CLIENT_SCAN_MS, service.membership.expire),
                PeriodicJob(CLIENT_SCAN_MS, lambda: service.locks.expire(self._monotonic())),
                PeriodicJob(self.config.flush_consumer_offset_interval, offset_file.save),
                PeriodicJob(self.config.flush_consumer_offset_interval, service.pop.batch_file.save),
                PeriodicJob(self.config.flush_consumer_offset_interval, table_notes.save),
            ]
        )


def store_config(config: BrokerConfig) -> StoreConfig:
    """Return the store's part of the settings."""
    return StoreConfig(
        path=config.store_path_root_dir,
        segment_size=config.mapped_file_size_commit_log,
        consume_queue_units=config.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_SIZE,
        flush=FlushMode(config.flush_disk_type),
        flush_interval_ms=config.flush_interval_commit_log,
        sync_timeout_ms=config.sync_flush_timeout,
        waiting_size_max=(
            config.sync_flush_waiting_max if config.flush_disk_type == "SYNC_FLUSH" else config.async_flush_waiting_max
        ),
        open_files_max=config.open_files_max,
        entries_size_max=config.queue_entries_max,
        record_crc=config.enabled_append_prop_crc,
        is_copy=config.is_slave,
        has_index=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_entries=config.max_index_num,
        delay_levels=config.delay_levels,
        lmq_max=config.max_lmq_consume_queue_num if config.enable_lmq and config.enable_multi_dispatch else 0,
        accept_log_end=None if config.accept_log_end < 0 else config.accept_log_end,
    )


def retention_rules(config: BrokerConfig) -> RetentionRules:
    """Return when old files are deleted."""
    return RetentionRules(
        reserved_ms=config.file_reserved_time * HOUR_MS,
        delete_hours=parse_hours(config.delete_when),
        high_ratio=config.disk_max_used_space_ratio / 100,
        forcing_ratio=config.disk_space_clean_forcibly_ratio / 100,
        full_ratio=config.disk_space_warning_level_ratio / 100,
        may_force=config.clean_file_forcibly_enable,
        batch_max=config.delete_file_batch_max,
        segment_pause_ms=config.delete_commit_log_files_interval,
        queue_pause_ms=config.delete_consume_queue_files_interval,
        round_ms=config.clean_resource_interval,
    )
