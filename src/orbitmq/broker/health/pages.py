"""The port of a broker's metrics and health."""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.broker.service import BrokerService
from orbitmq.net.http import HttpServer
from orbitmq.net.server import Server


async def start_http(
    config: BrokerConfig,
    service: BrokerService,
    server: Server[BrokerService],
    registrar: Registrar,
    monitor: BrokerMonitor,
) -> HttpServer | None:
    """Serve /metrics, /healthz and /readyz; None: the broker has no such port. Raises OSError."""
    if config.metrics_port < 0:
        return None
    # Imported here: a broker without the port starts faster.
    from orbitmq.broker.health.metrics import BrokerMetrics
    from orbitmq.monitoring.pages import server_pages

    metrics = BrokerMetrics(service, server, registrar, monitor, service.context.clock)
    http = HttpServer(server_pages(metrics.collect, monitor.health, "not ready"))
    await http.start(config.metrics_address, config.metrics_port)
    return http
