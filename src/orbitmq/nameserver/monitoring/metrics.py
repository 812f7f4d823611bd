"""The metrics that Prometheus is shown of a NameServer. Nothing is counted here: plain integers are read at each scrape.

The names that RocketMQ's monitoring texts use stand in the help lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.nameserver.monitoring.monitor import Monitor
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.net.http.page import Answer
from orbitmq.net.server import Server
from orbitmq.process_stats import Histogram

if TYPE_CHECKING:
    from orbitmq.nameserver.monitoring.shadow import Shadow  # with it comes the administrator's client

PREFIX = "rocketmq_nameserver"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NameServerMetrics(Collector):
    """The figures of one NameServer.

    Args:
        shadow: the comparison with another NameServer, None where there is none.
    """

    def __init__(self, server: Server[Any], tables: Tables, monitor: Monitor, shadow: Shadow | None) -> None:
        self._server = server
        self._tables = tables
        self._monitor = monitor
        self._shadow = shadow
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def page(self) -> Answer:
        """Return the page `/metrics`."""
        return Answer(generate_latest(self._registry), content_type=CONTENT_TYPE)

    def collect(self) -> Iterator[Metric]:
        """Yield every figure there is now."""
        yield from self._routes()
        yield from self._requests()
        yield from self._connections()
        yield from self._process()
        yield from self._comparison()

    def _routes(self) -> Iterator[Metric]:
        tables = self._tables
        yield _gauge("registered_brokers", "registeredBrokerCount: brokers with a lease", tables.broker_count)
        yield _gauge("registered_topics", "registeredTopicCount: topics with a route", tables.topic_count)
        changes = CounterMetricFamily(
            f"{PREFIX}_route_changes", "Changes of routes by kind and cause", labels=["kind", "cause"]
        )
        for (kind, cause), count in self._monitor.changes.items():
            changes.add_metric([kind, cause], count)
        yield changes

    def _requests(self) -> Iterator[Metric]:
        monitor = self._monitor
        counters = self._server.counters
        requests = CounterMetricFamily(f"{PREFIX}_requests", "Requests by code", labels=["code", "name"])
        for code, count in monitor.requests().items():
            requests.add_metric([str(code), _name_of(code)], count)
        yield requests
        refusals = CounterMetricFamily(
            f"{PREFIX}_refusals", "Answers other than SUCCESS", labels=["request_code", "code", "name"]
        )
        for (request_code, code), count in counters.refusals.items():
            refusals.add_metric([str(request_code), str(code), _answer_name_of(code)], count)
        yield refusals
        yield _counter("route_queries", "Route queries; their rate is routeQueryQPS", monitor.route_queries)
        yield _counter("route_query_failures", "Route queries without a route", monitor.route_failures)
        registrations = counters.requests[RequestCode.REGISTER_BROKER]
        yield _counter("registrations", "Registrations; their rate is brokerRegisterQPS", registrations)
        yield _counter(
            "unsupported_requests", "Requests with a code that nobody handles", counters.unsupported_requests
        )
        yield _counter("failed_requests", "Requests that hit an error of ours", counters.failed_requests)
        yield _counter("oversized_requests", "Requests refused for their body's size", counters.oversized_requests)
        yield _histogram(
            "service_seconds",
            "From the arrival of bytes until their answers were written; of every 16th read of a connection",
            counters.service_s,
        )

    def _connections(self) -> Iterator[Metric]:
        server = self._server
        counters = server.counters
        yield _gauge("active_connections", "activeConnectionCount: open connections", len(server.connections))
        yield _counter("connections_opened", "Connections accepted", counters.connections_opened)
        yield _counter("connections_refused", "Connections over a limit", counters.connections_refused)
        yield _counter("connections_encrypted", "Connections that speak TLS", counters.connections_encrypted)
        yield _counter("throttled", "Pauses of peers that asked more often than they may", counters.throttled)
        closed = CounterMetricFamily(
            f"{PREFIX}_connections_ended",
            "Connections that we ended, by reason: foreign protocols too",
            labels=["reason"],
        )
        for reason, count in counters.closed_by_us.items():
            closed.add_metric([reason], count)
        yield closed
        yield _counter("received_bytes", "Bytes received", counters.bytes_received)
        yield _counter("sent_bytes", "Bytes sent", counters.bytes_sent)

    def _comparison(self) -> Iterator[Metric]:
        shadow = self._shadow
        if shadow is None:
            return
        last = shadow.last
        yield _gauge("shadow_up", "1 when the other NameServer answered the last time", last.is_up)
        yield _gauge("shadow_drift", "Subjects on which the other NameServer differs, twice in a row", len(last.drift))
        yield _gauge("shadow_differences", "Subjects on which the other NameServer differs now", len(last.differences))
        yield _gauge("shadow_compared_timestamp_seconds", "When they were compared last", last.at_ms / 1000)

    def _process(self) -> Iterator[Metric]:
        process_stats = self._monitor.process_stats
        yield _gauge(
            "memory_limit_bytes",
            "What this process may use: its control group, or the machine",
            process_stats.memory_limit,
        )
        yield _counter("gc_seconds", "Time that garbage collections took", process_stats.gc_ms / 1000)
        yield _counter("gc_collections", "Garbage collections", process_stats.gc_count)
        yield _histogram("event_loop_lag_seconds", "How late the event loop ran a timer", process_stats.lag)
        alerts = GaugeMetricFamily(f"{PREFIX}_alert", "1 while a built-in alert rule holds", labels=["rule"])
        for alert in self._monitor.alerts:
            alerts.add_metric([alert.rule], 1)
        yield alerts


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(f"{PREFIX}_{name}", text, buckets=histogram.cumulative(), sum_value=histogram.total)


def _name_of(code: int) -> str:
    return RequestCode(code).name if code in _REQUEST_CODES else str(code)


def _answer_name_of(code: int) -> str:
    return ResponseCode(code).name if code in _RESPONSE_CODES else str(code)


_REQUEST_CODES = frozenset(RequestCode)
_RESPONSE_CODES = frozenset(ResponseCode)
