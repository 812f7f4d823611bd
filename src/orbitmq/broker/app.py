"""The broker as a program: puts its parts together, starts them in order, and takes them down again.

Start: tables from `store/config`, the store (recovered), the listening port, the NameServers. Stop is the same the
other way round: first nobody is sent here any more, then what waits is answered, then everything is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from orbitmq.broker.config import CONSUME_QUEUE_UNIT_SIZE, BrokerConfig
from orbitmq.broker.config_files import read_config_file, write_config_file
from orbitmq.broker.delay import DelayQueues, parse_delay_offsets
from orbitmq.broker.handlers import HANDLERS
from orbitmq.broker.handlers.pull import retry_parked
from orbitmq.broker.long_poll import ParkedPulls
from orbitmq.broker.persistence import ConfigFiles, format_offsets
from orbitmq.broker.registration import PART_TOPICS_MAX, Identity, Registrar, encode_parts
from orbitmq.broker.send_lane import SendLane
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import system_topics
from orbitmq.clock import Clock, now_ms
from orbitmq.codes import ResponseCode
from orbitmq.model.message import Host
from orbitmq.net.address import format_address, resolve
from orbitmq.net.handlers import Call, Reply
from orbitmq.net.limits import Limits
from orbitmq.net.server import Server
from orbitmq.store import FlushMode, Store, StoreConfig
from orbitmq.wire.headers import PullMessage

log = logging.getLogger(__name__)

HOUSEKEEPING_MS = 1_000
SWEEP_MS = 5_000
"""How often parked pulls are looked through (Java: PullRequestHoldService)."""
CLIENT_SCAN_MS = 10_000
NAMES_MS = 30_000
"""How often the names of NameServers are looked up again."""
DELAY_TICK_MS = 100
"""How often delayed messages are looked at while some wait."""
DELAY_SAVE_MS = 1_000
DRAIN_MS = 3_000
WILDCARDS = ("0.0.0.0", "::", "")


class Broker:
    """One broker: `await start()`, then it serves until `await stop()`."""

    def __init__(self, config: BrokerConfig, *, clock: Clock = now_ms) -> None:
        self.config = config
        self._clock = clock
        self._service: BrokerService | None = None
        self._server: Server[BrokerService] | None = None
        self._registrar: Registrar | None = None
        self._lane: SendLane | None = None
        self._housekeeper: asyncio.Task[None] | None = None
        self._deliverer: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._saved_change_count = 0
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
                await self._listen(service, port)
            except BaseException:
                self._service = None
                service.store.close()
                raise
        delays = self._make_delay_queues(service)
        self._registrar = self._make_registrar(service)
        service.announce = self._registrar.announce
        self._registrar.set_name_servers(await self._resolved_name_servers())
        self._follower = asyncio.get_running_loop().create_task(self._follow_names())
        await self._registrar.wait_told()
        loop = asyncio.get_running_loop()
        self._housekeeper = loop.create_task(self._keep_house(service))
        self._deliverer = loop.create_task(self._deliver_delayed(service, delays))
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
        for task in (self._housekeeper, self._follower):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._registrar is not None:
            await self._registrar.leave()
        if self._lane is not None:
            self._lane.is_open = False
        for pull in service.polls.take_all():
            pull.call.answer(Reply(ResponseCode.PULL_NOT_FOUND, "the broker is shutting down"))
        await server.drain(DRAIN_MS)
        await server.close()
        service.store.close()
        if service.offsets.change_count != self._saved_change_count:
            write_config_file(service.files.offsets_path, format_offsets(service.offsets))
        log.info("broker %s stopped", self.config.broker_name)

    def _open(self, port: int) -> BrokerService:
        """Load the tables and recover the store."""
        config = self.config
        files = ConfigFiles(config.store_path_root_dir / "config")
        announced = announced_host(config)
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
            clock=self._clock,
        )

    async def _listen(self, service: BrokerService, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._polls = service.polls
        service.store.on_arrived.append(self._arrived)
        service.store.attach(loop)
        limits = Limits(idle_ms=self.config.server_channel_max_idle_time_seconds * 1000)
        self._lane = SendLane(service)
        self._server = Server(HANDLERS, service, name="broker", limits=limits, clock=self._clock, shortcut=self._lane)
        self._lane.counters = self._server.counters
        self._server.on_connection_lost.append(service.connection_lost)
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
        return Registrar(
            identity,
            lambda: encode_parts(service.topics.version, service.topics.masked(config.broker_permission), part_size),
            period_ms=config.register_name_server_period,
            heartbeat_ms=config.broker_heartbeat_interval if config.heartbeat_enable else None,
            lease_ms=config.broker_not_active_timeout_millis if config.heartbeat_enable else None,
            timeout_ms=config.register_broker_timeout_mills,
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

    async def _keep_house(self, service: BrokerService) -> None:
        """Do what has to be done once in a while. One failure does not end it."""
        turn = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_MS / 1000)
            turn += 1
            try:
                self._sweep(service, turn * HOUSEKEEPING_MS)
                if turn * HOUSEKEEPING_MS % self.config.flush_consumer_offset_interval < HOUSEKEEPING_MS:
                    await self._save_offsets(service)
            except Exception:
                log.exception("housekeeping failed, going on")

    def _sweep(self, service: BrokerService, elapsed_ms: int) -> None:
        now = self._clock()
        service.stats.sample(now)
        for pull in service.polls.take_expired(now):
            retry_parked(service, pull)
        if elapsed_ms % SWEEP_MS == 0:
            for pull in service.polls.take_overtaken(service.store.max_offset):
                retry_parked(service, pull)
        if elapsed_ms % CLIENT_SCAN_MS == 0:
            service.tell_members(service.clients.expire(now, self.config.channel_expired_timeout))
            service.locks.expire(now)

    def _make_delay_queues(self, service: BrokerService) -> DelayQueues:
        found = read_config_file(service.files.delays_path, parse_delay_offsets)
        return DelayQueues(service.store, service.topics.get, *(found or ()))

    async def _deliver_delayed(self, service: BrokerService, queues: DelayQueues) -> None:
        """Send on what waited long enough; sleeps while nothing waits."""
        arrived = asyncio.Event()
        service.delay_wake = arrived.set
        saved_at_ms = 0
        try:
            while True:
                if not queues.are_waiting and not queues.is_changed:
                    await arrived.wait()
                arrived.clear()
                await asyncio.sleep(DELAY_TICK_MS / 1000)
                now = self._clock()
                try:
                    queues.deliver_due(now)
                    if now - saved_at_ms >= DELAY_SAVE_MS:
                        self._save_delays(service, queues)
                        saved_at_ms = now
                except Exception:
                    log.exception("delivering delayed messages failed, trying again")
        finally:
            service.store.flush()
            self._save_delays(service, queues)

    def _save_delays(self, service: BrokerService, queues: DelayQueues) -> None:
        if (content := queues.take_durable(self._clock())) is not None:
            write_config_file(service.files.delays_path, content)

    async def _save_offsets(self, service: BrokerService) -> None:
        """Write the offsets when they changed. A thread syncs the bytes, so that a slow disk stops nobody."""
        if service.offsets.change_count == self._saved_change_count:
            return
        change_count = service.offsets.change_count
        service.offsets.version = service.offsets.version.next(self._clock())
        await asyncio.to_thread(write_config_file, service.files.offsets_path, format_offsets(service.offsets))
        self._saved_change_count = change_count


def store_config(config: BrokerConfig) -> StoreConfig:
    """Return the store's part of the settings."""
    return StoreConfig(
        path=config.store_path_root_dir,
        segment_size=config.mapped_file_size_commit_log,
        consume_queue_units=max(1, config.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_SIZE),
        flush=FlushMode(config.flush_disk_type),
        flush_interval_ms=config.flush_interval_commit_log,
    )


def announced_host(config: BrokerConfig) -> str:
    """Return the host that clients are told."""
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address not in WILDCARDS:
        return config.bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks the routing table which address we have outside
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Yield the port to listen on. Port 0: one that is free, and stays ours until the server has it.

    The port stands in every record and message id, so it must be known before the store opens.
    """
    if port:
        yield port
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as placeholder:
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        placeholder.bind((host, 0))
        yield int(placeholder.getsockname()[1])
