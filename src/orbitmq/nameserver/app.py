"""The program around the registry: the port, the timers, and what happens when a connection ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from orbitmq.clock import Clock, now_ms
from orbitmq.errors import ClientError
from orbitmq.nameserver.acl import make_guard
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.fast_path import KnownRequests
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.kv_config import KvConfig
from orbitmq.nameserver.monitoring.monitor import Observation
from orbitmq.nameserver.routing.events import Cause, MinIdNotice
from orbitmq.nameserver.service import Registry
from orbitmq.nameserver.upstream import ProductEnvironment
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.http import HttpServer
from orbitmq.net.limits import Limits
from orbitmq.net.pool import CONNECT_TIMEOUT_MS, ConnectionPool
from orbitmq.net.security.client_security import load_client_security
from orbitmq.net.server import Server
from orbitmq.wire.headers import NotifyMinBrokerIdChange

if TYPE_CHECKING:
    from orbitmq.nameserver.monitoring.shadow import Shadow

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 300


class NameServer:
    """A NameServer: `await start()`, then it answers at `address` until `await stop()`."""

    def __init__(self, config: NameServerConfig | None = None, *, clock: Clock = now_ms) -> None:
        self._config = config or NameServerConfig()
        self._clock = clock
        self._kv = KvConfig(self._config.kv_config_path)
        self.registry = Registry(self._config, self._kv, started_at_ms=clock())
        self.registry.on_notice.append(self._notify)
        self._guard = make_guard(self._config)
        self._security = load_client_security(self._config.security_file)
        self.registry.warnings += self._guard.warnings
        self.server: Server[Registry] = Server(
            handlers,
            self.registry,
            name="nameserver",
            limits=_limits(self._config),
            clock=clock,
            fast_path=KnownRequests(
                self.registry.memo,
                # With access control every signature is checked anew: the account may be gone by now.
                self.registry.repeats if self._guard.admission is None else None,
            ),
            admission=self._guard.admission,
            tls=self._guard.tls,
        )
        self.server.on_connection_lost(self._lose_connection)
        self.observation = Observation(self.server, self.registry, clock=clock)
        self.shadow = self._make_shadow()
        self._http: HttpServer | None = None
        self._pool = self._make_pool(connect_timeout_ms=NOTICE_TIMEOUT_MS)
        self._product_pool = self._make_pool()
        if self._config.cluster_test:
            self.registry.product = ProductEnvironment(
                self._config.product_env_name, self._config.product_addresses, self._product_pool
            )
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._scan_timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return self.server.address

    async def start(self) -> None:
        """Load the key-value store and listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._kv.load()
        self.registry.unfinished.on_begin = self._work_next
        await self.server.start(self._config.bind_address, self._config.listen_port)
        self._arm_scan()
        self.observation.start()
        if self.shadow is not None:
            self.shadow.start()
        await self._start_http()
        for warning in self.registry.warnings:
            log.warning("%s", warning)
        log.info("The Name Server boot success. serializeType=JSON, address %s", self.address)

    async def stop(self) -> None:
        """Stop answering and close every connection."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        self.observation.stop()
        if self.shadow is not None:
            await self.shadow.stop()
        if self._http is not None:
            await self._http.close()
        self._is_stopping = True
        for task in tuple(self._tasks):
            task.cancel()
        if self.registry.product is not None:
            self.registry.product.stop()
        await self._product_pool.close()
        await self._pool.close()
        await self.server.close()

    def scan(self) -> None:
        """Take out the brokers that have been silent for too long, and close their connections."""
        now = self._clock()
        if not self.registry.table.has_silent(now):
            return
        with self.registry.changing(Cause.LEASE_EXPIRED, now) as origin:
            over = self.registry.table.expire(origin)
        for key, lease in over:
            self.registry.unchanged.forget(key)
            log.warning("the broker %s was silent for more than %d ms", key.address, lease.lease_ms)
            if not self.registry.table.owns_leases(lease.owner):
                self.server.close_connection(lease.owner)

    @property
    def metrics_address(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, as host:port; None without."""
        return self._http.address if self._http is not None else None

    def _make_pool(self, *, name: str = "nameserver", connect_timeout_ms: int = CONNECT_TIMEOUT_MS) -> ConnectionPool:
        return ConnectionPool(name=name, connect_timeout_ms=connect_timeout_ms, **self._security._asdict())

    def _make_shadow(self) -> Shadow | None:
        config = self._config
        if not config.shadow_address:
            return None
        from orbitmq.nameserver.monitoring.shadow import Shadow  # and with it the administrator's client

        interval_ms = config.shadow_interval_seconds * 1000
        shadow = Shadow(
            self.registry.table,
            config.shadow_address,
            interval_ms=interval_ms,
            clock=self._clock,
            pool=self._make_pool(name="shadow"),
        )
        self.observation.describe["shadow"] = shadow.document
        return shadow

    async def _start_http(self) -> None:
        if self._config.metrics_port < 0:
            return
        # Imported here: a NameServer without the port starts in half the time.
        from orbitmq.nameserver.monitoring.http import pages

        self._http = HttpServer(pages(self))
        await self._http.start(self._config.metrics_address, self._config.metrics_port)

    def _arm_scan(self) -> None:
        delay = self.registry.config.scan_not_active_broker_interval / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(delay, self._scan_and_arm)

    def _scan_and_arm(self) -> None:
        try:
            self.scan()
            self._guard.reload_if_changed()
        finally:
            self._arm_scan()

    def _work_next(self) -> None:
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """Do a slice of what is unfinished; in the next turn of the loop, after whoever asks something, the next one."""
        if self.registry.unfinished.step():
            self._work_next()

    def _lose_connection(self, connection: Peer) -> None:
        if not self._is_stopping:  # the brokers are there still: it is this NameServer that goes
            self.registry.disconnect(connection.id, self._clock(), connection.remote)

    def _notify(self, notice: MinIdNotice) -> None:
        """Tell a group's members of its new smallest id, where that is wanted; nobody waits for it."""
        is_wanted = notice.offline_address is None or notice.needs_acting_master
        if not self.registry.config.notify_min_broker_id_changed or not is_wanted:
            return
        header = NotifyMinBrokerIdChange(
            min_broker_id=notice.min_broker_id,
            min_broker_addr=notice.min_broker_address,
            offline_broker_addr=notice.offline_address,
            ha_broker_addr=notice.ha_address,
        )
        for address in notice.targets:
            task = asyncio.get_running_loop().create_task(self._send(address, header))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, address: str, header: NotifyMinBrokerIdChange) -> None:
        try:
            await self._pool.oneway(address, header)
        except (ClientError, ValueError) as error:
            log.warning("could not tell %s of its group's smallest broker id: %s", address, error)


def _limits(config: NameServerConfig) -> Limits:
    return Limits(
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        frame_ms=config.frame_deadline_seconds * 1000,
        write_buffer_max=config.write_buffer_max,
        connections_max=config.connections_max,
        connections_per_address_max=config.connections_per_address_max,
        requests_per_second_max=config.requests_per_second_max,
        backlog=config.server_socket_backlog,
    )
