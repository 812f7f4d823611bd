"""The broker as a program: puts its parts together, starts them in order, and takes them down again.

Start: tables from `store/config`, the store (recovered), the listening port, the NameServers. Stop is the same the
other way round: first nobody is sent here any more, then what waits is answered, then everything is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import replace

from orbitmq.address import format_address, looked_up, resolve
from orbitmq.broker.acl import make_guard
from orbitmq.broker.config import CONSUME_QUEUE_UNIT_SIZE, BrokerConfig
from orbitmq.broker.delivery.long_poll import ParkedPulls
from orbitmq.broker.fast_path.send import SendLane
from orbitmq.broker.handlers import HANDLERS
from orbitmq.broker.handlers.pull import retry_parked
from orbitmq.broker.housekeeping import Housekeeping
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.registration.addresses import announced_host, reserved_port
from orbitmq.broker.registration.registrar import PART_TOPICS_MAX, Identity, Registrar, encode_parts
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import system_topics
from orbitmq.clock import Clock, now_ms
from orbitmq.model.message import Host
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.limits import Limits
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import load_client_security
from orbitmq.net.server import Server
from orbitmq.store import FlushMode, Store, StoreConfig
from orbitmq.wire.headers import PullMessage

log = logging.getLogger(__name__)

NAMES_MS = 30_000
"""How often the names of NameServers are looked up again."""
DRAIN_MS = 3_000


class Broker:
    """One broker: `await start()`, then it serves until `await stop()`."""

    def __init__(self, config: BrokerConfig, *, clock: Clock = now_ms) -> None:
        self.config = config
        self._clock = clock
        self._security = load_client_security(config.security_file)
        self._guard = make_guard(config)
        self._service: BrokerService | None = None
        self._server: Server[BrokerService] | None = None
        self._registrar: Registrar | None = None
        self._lane: SendLane | None = None
        self._housekeeping: Housekeeping | None = None
        self._follower: asyncio.Task[None] | None = None
        self._resolved: dict[str, list[str]] = {}

    @property
    def service(self) -> BrokerService:
        """The running broker's state."""
        assert self._service is not None, "the broker is not started"
        return self._service

    @property
    def server(self) -> Server[BrokerService]:
        """The running broker's server."""
        assert self._server is not None, "the broker is not started"
        return self._server

    @property
    def registrar(self) -> Registrar:
        """Who keeps the running broker registered."""
        assert self._registrar is not None, "the broker is not started"
        return self._registrar

    @property
    def address(self) -> str:
        """Where clients reach this broker, as host:port."""
        return self.service.address

    _polls: ParkedPulls[Call[PullMessage]]

    async def start(self) -> None:
        """Recover the store, listen, and register with every NameServer.

        Raises:
            StoreError: the store or its tables cannot be opened.
            OSError: the port cannot be bound.
        """
        with reserved_port(self.config.bind_address, self.config.listen_port) as port:
            service = self._service = self._open(port)
            try:
                self._housekeeping = Housekeeping(service)
                await self._listen(service, port)
            except BaseException:
                self._service = None
                service.store.close()
                raise
        self._registrar = self._make_registrar(service)
        service.announce = self._registrar.announce
        self._registrar.set_name_servers(await self._resolved_name_servers())
        self._follower = asyncio.get_running_loop().create_task(self._follow_names())
        await self._registrar.wait_told()
        self._housekeeping.start()
        for warning in self._guard.warnings:
            log.warning("%s", warning)
        log.info(
            "broker %s of cluster %s serves at %s",
            self.config.broker_name,
            self.config.broker_cluster_name,
            self.address,
        )

    async def stop(self) -> None:
        """Leave the NameServers, answer what waits, sync and close. Safe to call twice."""
        if self._service is None or self._server is None:
            return
        service, server, self._service = self._service, self._server, None
        if self._follower is not None:
            self._follower.cancel()
            with suppress(asyncio.CancelledError):
                await self._follower
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if self._registrar is not None:
            await self._registrar.leave()
        if self._lane is not None:
            self._lane.is_open = False
        for pull in service.polls.close():
            retry_parked(service, pull)
        await server.drain(DRAIN_MS)
        await server.close()
        service.store.close()
        if self._housekeeping is not None:
            self._housekeeping.save()
        log.info("broker %s stopped", self.config.broker_name)

    def _open(self, port: int) -> BrokerService:
        """Load the tables and recover the store."""
        config = self.config
        files = ConfigFiles(config.store_path_root_dir / "config")
        announced = announced_host(config)
        with looked_up("brokerIP1", announced):
            host = Host(socket.gethostbyname(announced), port)
        topics = files.load_topics(auto_create_enable=config.auto_create_topic_enable)
        offsets = files.load_offsets()
        group_configs = files.load_groups(auto_create_enable=config.auto_create_subscription_group)
        store = Store.open(store_config(config), store_host=host, clock=self._clock)
        loaded_version = topics.version
        topics.add_missing(system_topics(config), self._clock())
        for cut in offsets.cut_to(store.max_offset):
            log.warning("a committed offset lay beyond its queue's end and was pulled back: %s", cut)
        if topics.version != loaded_version:
            files.save_topics(topics)
        return BrokerService(
            config,
            store,
            host=host,
            address=format_address(announced, port),
            topics=topics,
            offsets=offsets,
            group_configs=group_configs,
            files=files,
            guard=self._guard,
            clock=self._clock,
        )

    async def _listen(self, service: BrokerService, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._polls = service.polls
        service.store.on_arrived.append(self._arrived)
        service.store.attach(loop)
        limits = Limits(idle_ms=self.config.server_channel_max_idle_time_seconds * 1000)
        self._lane = SendLane(service)
        guard = self._guard
        self._server = Server(
            HANDLERS,
            service,
            name="broker",
            limits=limits,
            clock=self._clock,
            # The lane asks nobody: where sends need a signature they go the long way.
            fast_path=self._lane if guard.admission is None else None,
            admission=guard.admission,
            tls=guard.tls,
        )
        self._server.on_connection_lost(service.connection_lost)
        await self._server.start(self.config.bind_address, port)

    def _make_registrar(self, service: BrokerService) -> Registrar:
        config = self.config
        identity = Identity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            service.address,
            ha_address=format_address(service.address.rpartition(":")[0], service.host.port + 1),
        )
        part_size = config.split_registration_size if config.enable_split_registration else PART_TOPICS_MAX
        name = f"broker {config.broker_name}"
        return Registrar(
            identity,
            lambda: encode_parts(service.topics.version, service.topics.masked(config.broker_permission), part_size),
            period_ms=config.register_name_server_period,
            heartbeat_ms=config.broker_heartbeat_interval if config.heartbeat_enable else None,
            lease_ms=config.broker_not_active_timeout_millis if config.heartbeat_enable else None,
            timeout_ms=config.register_broker_timeout_mills,
            pool=ConnectionPool(name=name, **self._security._asdict()),
        )

    async def _resolved_name_servers(self) -> list[str]:
        """Return the addresses of the NameServers that the settings name; a name may stand for several."""
        found: dict[str, None] = {}
        for name_server in self.config.name_servers:
            # A name service that is down must not take the NameServers with it.
            addresses = await resolve(name_server) or self._resolved.get(name_server, [name_server])
            self._resolved[name_server] = addresses
            found.update(dict.fromkeys(addresses))
        return list(found)

    async def _follow_names(self) -> None:
        """Look the names up again from time to time: NameServers move (apache/rocketmq#2042)."""
        while True:
            await asyncio.sleep(NAMES_MS / 1000)
            self.registrar.set_name_servers(await self._resolved_name_servers())

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers (`host:port;host:port`) from now on.

        Raises:
            ConfigError: one of them is no host:port.
        """
        self.config = replace(self.config, namesrv_addr=addresses)
        self.registrar.set_name_servers(self.config.name_servers)

    def _arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        """Wake parked pulls at the end of this turn, so that a burst answers each of them once."""
        polls = self._polls
        if polls.count and polls.arrived(topic, queue_id, queue_offset, tag_code):
            asyncio.get_running_loop().call_soon(self._answer_ready)

    def _answer_ready(self) -> None:
        if self._service is not None:
            for pull in self._service.polls.take_ready():
                retry_parked(self._service, pull)


def store_config(config: BrokerConfig) -> StoreConfig:
    """Return the store's part of the settings."""
    return StoreConfig(
        path=config.store_path_root_dir,
        segment_size=config.mapped_file_size_commit_log,
        consume_queue_units=max(1, config.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_SIZE),
        flush=FlushMode(config.flush_disk_type),
        flush_interval_ms=config.flush_interval_commit_log,
        record_crc=config.enabled_append_prop_crc,
    )
