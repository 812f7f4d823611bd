"""The NameServer as a program: the port, the timers, lost connections, and what it asks others."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.codes import RequestCode
from orbitmq.errors import ClientError
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.fast_path import NameServerFastPath
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.monitoring.monitor import NameServerMonitor
from orbitmq.nameserver.routing.events import MinIdNotice
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.nameserver.upstream import Upstream
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.http import HttpServer
from orbitmq.net.limits import Limits, affordable_connections, descriptor_limit, tell_of_few_descriptors
from orbitmq.net.loop import do_all, failure_of, stopped_on_failure
from orbitmq.net.pool import CONNECT_TIMEOUT_MS, ConnectionPool
from orbitmq.net.security.accounts import AccountRole
from orbitmq.net.security.client_security import load_security
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.net.server import Server
from orbitmq.process.pause_aware_clock import TICK_MS, PauseAwareClock
from orbitmq.wire.headers import NotifyMinBrokerIdChange

if TYPE_CHECKING:
    from orbitmq.nameserver.monitoring.shadow import Shadow


log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 300


class NameServer:
    """A NameServer: `await start()`, then it answers at `address` until `await stop()`.

    Args:
        clock: the wall clock: stands in the journal and in metrics.
        lease_clock: what leases are measured on; None: the time during which this NameServer listened.
        memories: False computes every answer again, for tests that compare the two.
    """

    def __init__(
        self,
        config: NameServerConfig | None = None,
        *,
        clock: Clock = now_ms,
        lease_clock: Clock | None = None,
        memories: bool = True,
    ) -> None:
        self._config = config or NameServerConfig()
        self._clock = clock
        self._pause_aware_clock = PauseAwareClock(monotonic_ms)
        self._server_security = make_server_security(self._config)
        self._client_security = load_security(self._config.security_file)
        self._descriptors = descriptor_limit()
        self._limits = limits_of(self._config, self._descriptors)
        self._pool = self._make_pool(connect_timeout_ms=NOTICE_TIMEOUT_MS)
        self._upstream = self._make_upstream()
        self.service = NameServerService(
            self._config,
            started_at_ms=clock(),
            lease_clock=lease_clock or self._pause_aware_clock,
            upstream=self._upstream,
            on_notice=self._notify,
            on_unfinished=self._work_next,
            memories=memories,
        )
        self.server: Server[NameServerService] = Server(
            handlers,
            self.service,
            name="nameserver",
            limits=self._limits,
            clock=clock,
            fast_path=self._make_fast_path() if memories else None,
            admission=self._server_security.admission,
            tls=self._server_security.tls,
        )
        self.server.on_connection_lost(self._lose_connection)
        self.shadow = self._make_shadow()
        self.monitor = NameServerMonitor(
            self.server,
            self.service.tables,
            self.service.unknown_topics,
            is_ready=self.service.is_ready,
            clock=clock,
            warnings=self._server_security.warnings,
            sections={
                "tls": lambda: self._server_security.tls_description,
                **({} if self.shadow is None else {"shadow": self.shadow.document}),
            },
        )
        self.service.health, self.service.forget_lost = self.monitor.health, self.monitor.forget_lost
        self.service.route_table.on_change.append(self.monitor.note)
        self._http: HttpServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._scan_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return self.server.address

    async def start(self) -> None:
        """Load the key-value store and listen.

        Raises:
            OSError: the address cannot be bound.
        """
        async with stopped_on_failure(self.stop):
            for open_part, _ in self._parts():
                if inspect.isawaitable(opening := open_part()):
                    await opening
        for warning in self._server_security.warnings:
            log.warning("%s", warning)
        log.info("TLS: %s", self._server_security.tls_description)
        log.info("The Name Server boot success. serializeType=JSON, address %s", self.address)

    async def stop(self) -> None:
        """Save what was asked for, stop answering and close every connection.

        Raises:
            Exception: what the first step that failed has raised; everything is closed all the same.
            CancelledError: it was cancelled; everything is closed all the same, without waiting.
        """
        self._is_stopping = True
        failures = await do_all(*(close_part for _, close_part in reversed(self._parts())))
        if failures:
            raise failure_of(failures)

    def _parts(self) -> Sequence[tuple[Callable[[], object], Callable[[], object]]]:
        """Return what opens and what closes each part; `start` goes down this list, `stop` goes up."""
        return [
            (self.service.kv.load, _nothing),
            (self._listen, self.server.close),
            (_nothing, self.service.save),  # as long as the answers can be sent
            (_nothing, self._pool.close),
            *([(_nothing, self._upstream.close)] if self._upstream is not None else []),
            (self._start_timers, self._stop_timers),
            (self.monitor.start, self.monitor.stop),
            *([(self.shadow.start, self.shadow.stop)] if self.shadow is not None else []),
            (self._open_http, self._close_http),
        ]

    def scan(self) -> None:
        """Take out the brokers that have been silent for too long, and close their connections."""
        self.service.expire(self._clock(), self._close_silent)

    @property
    def metrics_address(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, as host:port; None without."""
        return self._http.address if self._http is not None else None

    def _make_fast_path(self) -> NameServerFastPath:
        # With access control every signature is checked again: the account may be gone by now.
        is_open = self._server_security.admission is None
        registrations = self.service.registration_fast_path if is_open else None
        return NameServerFastPath(self.service.route_queries, registrations)

    def _make_pool(self, *, name: str = "nameserver", connect_timeout_ms: int = CONNECT_TIMEOUT_MS) -> ConnectionPool:
        return ConnectionPool(name=name, connect_timeout_ms=connect_timeout_ms, **self._client_security._asdict())

    def _make_shadow(self) -> Shadow | None:
        config = self._config
        if not config.shadow_address:
            return None
        from orbitmq.nameserver.monitoring.shadow import Shadow  # and with it the administrator's client

        interval_ms = config.shadow_interval_seconds * 1000
        return Shadow(
            self.service.tables,
            config.shadow_address,
            interval_ms=interval_ms,
            clock=self._clock,
            pool=self._make_pool(name="shadow"),
        )

    def _make_upstream(self) -> Upstream | None:
        config = self._config
        if not config.cluster_test:
            return None
        return Upstream(config.product_env_name, config.product_addresses, self._make_pool())

    async def _listen(self) -> None:
        await self.server.start(self._config.bind_address, self._config.listen_port)
        tell_of_few_descriptors(self._config.connections_max, self._limits.connections_max, self._descriptors)

    async def _open_http(self) -> None:
        if self._config.metrics_port < 0:
            return
        # Imported here: a NameServer without the port starts in half the time.
        from orbitmq.nameserver.monitoring.pages import NameServerMetrics, pages

        metrics = NameServerMetrics(self.server, self.service.tables, self.monitor, self.shadow)
        self._http = HttpServer(pages(self.monitor, metrics, self.service.route_history))
        await self._http.start(self._config.metrics_address, self._config.metrics_port)

    async def _close_http(self) -> None:
        if self._http is not None:
            await self._http.close()

    def _start_timers(self) -> None:
        self._tick()
        self._arm_scan()

    def _stop_timers(self) -> None:
        """End the timers, and what is told of smallest ids in the background."""
        for timer in filter(None, (self._scan_timer, self._tick_timer)):
            timer.cancel()
        self._scan_timer = self._tick_timer = None
        for task in tuple(self._tasks):
            task.cancel()

    def _tick(self) -> None:
        """Show the pause-aware clock that the loop runs."""
        deaf_ms = self._pause_aware_clock.tick()
        if deaf_ms:
            log.warning("heard no broker for %d ms (stopped, or busy): leases stood still meanwhile", deaf_ms)
        self._tick_timer = asyncio.get_running_loop().call_later(TICK_MS / 1000, self._tick)

    def _arm_scan(self) -> None:
        delay = self.service.config.scan_not_active_broker_interval / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(delay, self._scan_and_arm)

    def _scan_and_arm(self) -> None:
        try:
            self.scan()
            self._server_security.reload_if_changed()
        finally:
            self._arm_scan()

    def _work_next(self) -> None:
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """Do one slice of the unfinished registrations, and the next one a turn later: others are served in between."""
        if self.service.queue.step():
            self._work_next()

    def _close_silent(self, key: BrokerKey, lease: Lease) -> None:
        log.warning("the broker %s was silent for more than %d ms", key.address, lease.lease_ms)
        # All that registered it, or it would depend on the order of the leases which of them are left without a broker.
        for owner in lease.owners:
            if not self.service.tables.leases.owned_by(owner):
                self.server.close_connection(owner)

    def _lose_connection(self, connection: Peer) -> None:
        if not self._is_stopping:  # the brokers are there still: it is this NameServer that goes
            self.service.disconnect(connection.id, self._clock(), connection.remote)

    def _notify(self, notice: MinIdNotice) -> None:
        """Tell a group's members of its new smallest id, where that is wanted, in the background."""
        is_wanted = notice.offline_address is None or notice.needs_acting_master
        if not self.service.config.notify_min_broker_id_changed or not is_wanted:
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


def _nothing() -> None:
    """Open or close a part that needs no such step."""


def limits_of(config: NameServerConfig, descriptors: int = 0) -> Limits:
    """Return the limits of the port, in the units of `Limits`.

    Args:
        descriptors: how many files and connections the process may have open; 0: any number.
    """
    return Limits(
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        frame_ms=config.frame_deadline_seconds * 1000,
        write_buffer_max=config.write_buffer_max,
        connections_max=affordable_connections(config.connections_max, descriptors),
        partial_frames_max=config.partial_frames_max,
        connections_per_address_max=config.connections_per_address_max,
        requests_per_second_max=config.requests_per_second_max,
        backlog=config.server_socket_backlog,
    )


_ROLES: dict[int, AccountRole] = {
    RequestCode.PUT_KV_CONFIG: AccountRole.ADMIN,
    RequestCode.DELETE_KV_CONFIG: AccountRole.ADMIN,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: AccountRole.ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: AccountRole.ADMIN,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: AccountRole.ADMIN,
    RequestCode.UPDATE_NAMESRV_CONFIG: AccountRole.ADMIN,
    RequestCode.GET_NAMESRV_CONFIG: AccountRole.READER,
    RequestCode.GET_KV_CONFIG: AccountRole.READER,
    RequestCode.GET_KVLIST_BY_NAMESPACE: AccountRole.READER,
    RequestCode.ORBITMQ_HEALTH: AccountRole.READER,
    RequestCode.ORBITMQ_ROUTE_HISTORY: AccountRole.READER,
    RequestCode.ORBITMQ_ROUTE_DIFFERENCE: AccountRole.READER,
}
_REGISTRATION: dict[int, AccountRole] = dict.fromkeys(
    (
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
    ),
    AccountRole.ADMIN,
)


def make_server_security(config: NameServerConfig) -> ServerSecurity:
    """Return what protects a NameServer's port: signatures with roles, and TLS.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """
    roles = _ROLES | _REGISTRATION if config.acl_registration else _ROLES
    warnings = []
    if config.acl_enable and not config.acl_registration:
        warnings.append("brokers register without a signature (aclRegistration=false)")
    return ServerSecurity(config, roles.get, danger="change routes", warnings=warnings)
