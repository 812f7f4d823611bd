"""The controller as a program: the port, the timers, lost connections, and notices to brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from orbitmq.address import parse_address
from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.codes import RequestCode
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.handlers import handlers
from orbitmq.controller.monitoring import ControllerMetrics, ControllerMonitor
from orbitmq.controller.notices import NOTICE_TIMEOUT_MS, Notices
from orbitmq.controller.replicas import Replicas
from orbitmq.controller.service import Consensus, ControllerService
from orbitmq.monitoring.pages import server_pages
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.http import HttpServer
from orbitmq.net.limits import Limits, affordable_connections, descriptor_limit, tell_of_few_descriptors
from orbitmq.net.loop import do_all, failure_of, stopped_on_failure
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.accounts import AccountRole
from orbitmq.net.security.client_security import load_security
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.net.server import Server
from orbitmq.process.pause_aware_clock import TICK_MS, PauseAwareClock

log = logging.getLogger(__name__)


class RunningConsensus(Consensus, Protocol):
    """A replicated log with a life: it runs from `start` to `stop`."""

    async def start(self) -> None:
        """Read what is on disk, apply it, and talk to the others."""
        ...

    async def stop(self) -> None:
        """Leave the others."""
        ...


MakeConsensus = Callable[[ControllerConfig, Replicas, Callable[[bool], None]], RunningConsensus]
"""Makes the log for a state machine; the last argument is told whenever this node begins or ceases to lead."""


class Controller:
    """A controller: `await start()`, then it answers at `address` until `await stop()`.

    Args:
        clock: the wall clock.
    """

    def __init__(self, config: ControllerConfig, make_consensus: MakeConsensus, *, clock: Clock = now_ms) -> None:
        self._config = config
        self._clock = clock
        self._pause_aware_clock = PauseAwareClock(monotonic_ms)
        self._server_security = make_server_security(config)
        self._pool = ConnectionPool(
            name="controller",
            connect_timeout_ms=NOTICE_TIMEOUT_MS,
            **load_security(config.security_file)._asdict(),
        )
        self._notices = Notices(self._pool)
        self.monitor = ControllerMonitor()
        self.replicas = Replicas()
        self.consensus = make_consensus(config, self.replicas, self._lead)
        self.service = ControllerService(
            config,
            self.consensus,
            self.replicas,
            clock=clock,
            pause_aware_clock=self._pause_aware_clock,
            on_election=self._notices.tell,
            on_newcomer=self._notices.connect,
            on_decision=self.monitor.note,
            health=self.health,
        )
        self._descriptors = descriptor_limit()
        self._limits = Limits(
            idle_ms=config.server_channel_max_idle_time_seconds * 1000,
            connections_max=affordable_connections(config.connections_max, self._descriptors),
            backlog=config.server_socket_backlog,
        )
        self.server: Server[ControllerService] = Server(
            handlers,
            self.service,
            name="controller",
            limits=self._limits,
            clock=clock,
            admission=self._server_security.admission,
            tls=self._server_security.tls,
        )
        self.server.on_connection_lost(self._lose_connection)
        self._http: HttpServer | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._is_stopping = False

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return self.server.address

    async def start(self) -> None:
        """Take up what is on disk, and listen.

        Raises:
            OSError: the address cannot be bound.
        """
        _, port = parse_address(self._config.address)
        async with stopped_on_failure(self.stop):
            await self.server.start(self._config.bind_address, port)
            tell_of_few_descriptors(self._config.connections_max, self._limits.connections_max, self._descriptors)
            await self.consensus.start()
            self._every(lambda: TICK_MS, self._tick)
            self._every(lambda: self.service.config.scan_not_active_broker_interval, self._expire)
            self._every(lambda: self.service.config.scan_inactive_master_interval, self.service.scan)
            self.monitor.start()
            await self._start_http()
        for warning in self._server_security.warnings:
            log.warning("%s", warning)
        log.info("TLS: %s", self._server_security.tls_description)
        log.info("The Controller Server boot success. serializeType=JSON, address %s", self.address)

    async def stop(self) -> None:
        """Stop answering, leave the other controllers, and close every connection. Safe to call twice.

        Raises:
            Exception: what the first step that failed has raised; everything is closed all the same.
            CancelledError: it was cancelled; everything is closed all the same, without waiting.
        """
        self._is_stopping = True
        while self._timers:
            self._timers.pop().cancel()
        failures = await do_all(
            self.monitor.stop,
            *([self._http.close] if self._http is not None else []),
            self.service.close,
            self.consensus.stop,
            self._notices.close,
            self._pool.close,
            self.server.close,
        )
        if failures:
            raise failure_of(failures)

    def health(self) -> dict[str, Any]:
        """Return how it is doing, as a JSON document."""
        return self.monitor.health(self.service)

    @property
    def metrics_address(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, as host:port; None without."""
        return self._http.address if self._http is not None else None

    def _lead(self, is_leader: bool) -> None:
        log.info("this controller %s", "leads" if is_leader else "does not lead")
        if is_leader:
            self.service.scan()

    async def _start_http(self) -> None:
        if self._config.metrics_port < 0:
            return
        metrics = ControllerMetrics(self.server, self.service, self.monitor)
        self._http = HttpServer(server_pages(metrics.collect, self.health, "no controller leads"))
        await self._http.start(self._config.metrics_address, self._config.metrics_port)

    def _every(self, interval_ms: Callable[[], int], work: Callable[[], None]) -> None:
        """Call `work` again and again; whatever goes wrong in it does not end that."""
        loop = asyncio.get_running_loop()
        place = len(self._timers)
        self._timers.append(loop.call_later(interval_ms() / 1000, lambda: again()))

        def again() -> None:
            try:
                work()
            except Exception:
                log.exception("a timer failed")
            if not self._is_stopping:
                self._timers[place] = loop.call_later(interval_ms() / 1000, again)

    def _tick(self) -> None:
        deaf_ms = self._pause_aware_clock.tick()
        if deaf_ms:
            log.warning("heard no broker for %d ms (stopped, or busy): heartbeats stood still meanwhile", deaf_ms)

    def _expire(self) -> None:
        self.service.expire(self.server.close_connection)
        self._server_security.reload_if_changed()

    def _lose_connection(self, connection: Peer) -> None:
        if not self._is_stopping:  # the brokers are there still: it is this controller that goes
            self.service.disconnect(connection.id)


_ROLES: dict[int, AccountRole] = {
    **dict.fromkeys(
        (
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            RequestCode.CONTROLLER_ELECT_MASTER,
            RequestCode.CONTROLLER_REGISTER_BROKER,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            RequestCode.BROKER_HEARTBEAT,
            RequestCode.UPDATE_CONTROLLER_CONFIG,
            RequestCode.CLEAN_BROKER_DATA,
            RequestCode.ORBITMQ_RAFT,
        ),
        AccountRole.ADMIN,
    ),
    **dict.fromkeys(
        (
            RequestCode.CONTROLLER_GET_REPLICA_INFO,
            RequestCode.CONTROLLER_GET_METADATA_INFO,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            RequestCode.GET_CONTROLLER_CONFIG,
            RequestCode.ORBITMQ_HEALTH,
        ),
        AccountRole.READER,
    ),
}


def make_server_security(config: ControllerConfig) -> ServerSecurity:
    """Return what protects a controller's port: signatures with roles, and TLS.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """
    return ServerSecurity(config, _ROLES.get, danger="decide about masters of broker groups")
