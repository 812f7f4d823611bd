"""The pages of the NameServer's HTTP port, and the metrics that they show, read from plain integers at each scrape.

The names that RocketMQ's monitoring texts use stand in the help lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson
from prometheus_client.core import Metric

from orbitmq.codes import RequestCode
from orbitmq.errors import InvalidArgument
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.pages import server_pages
from orbitmq.monitoring.server_metrics import ServerMetrics
from orbitmq.nameserver.monitoring.monitor import NameServerMonitor
from orbitmq.nameserver.monitoring.route_history import EVENTS_MAX, RouteHistory
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.net.http import JSON, HttpResponse, Page
from orbitmq.net.server import Server

if TYPE_CHECKING:
    from orbitmq.nameserver.monitoring.shadow import Shadow  # with it comes the administrator's client


class NameServerMetrics:
    """The figures of one NameServer.

    Args:
        shadow: the comparison with another NameServer, None where there is none.
    """

    def __init__(self, server: Server[Any], tables: Tables, monitor: NameServerMonitor, shadow: Shadow | None) -> None:
        self._make = Families("rocketmq_nameserver")
        self._server_metrics = ServerMetrics(self._make, server, monitor.process_stats)
        self._server = server
        self._tables = tables
        self._monitor = monitor
        self._shadow = shadow

    def collect(self) -> Iterator[Metric]:
        """Yield every figure there is now."""
        yield from self._routes()
        yield from self._server_metrics.requests()
        yield from self._queries()
        yield from self._server_metrics.connections()
        yield from self._server_metrics.process(self._monitor.alerts)
        yield from self._comparison()

    def _routes(self) -> Iterator[Metric]:
        make, tables = self._make, self._tables
        yield make.gauge("registered_brokers", "registeredBrokerCount: brokers with a lease", tables.broker_count)
        text = "Brokers that left without a good-bye in the last day and are not back"
        yield make.gauge("vanished_brokers", text, self._monitor.lost_count)
        yield make.gauge("registered_topics", "registeredTopicCount: topics with a route", tables.topic_count)
        changes = [((kind, cause), count) for (kind, cause), count in self._monitor.changes.items()]
        yield from make.counters("route_changes", "Changes of routes by kind and cause", ("kind", "cause"), changes)

    def _queries(self) -> Iterator[Metric]:
        make, monitor = self._make, self._monitor
        yield make.counter("route_queries", "Route queries; their rate is routeQueryQPS", monitor.route_queries)
        yield make.counter("route_query_failures", "Route queries without a route", monitor.route_failures)
        registrations = self._server.counters.requests[RequestCode.REGISTER_BROKER]
        yield make.counter("registrations", "Registrations; their rate is brokerRegisterQPS", registrations)

    def _comparison(self) -> Iterator[Metric]:
        make, shadow = self._make, self._shadow
        if shadow is None:
            return
        last = shadow.last
        yield make.gauge("shadow_up", "1 when the other NameServer answered the last time", last.is_up)
        text = "Subjects on which the other NameServer differs, twice in a row"
        yield make.gauge("shadow_drift", text, len(last.drift))
        text = "Subjects on which the other NameServer differs now"
        yield make.gauge("shadow_differences", text, len(last.differences))
        yield make.gauge("shadow_compared_timestamp_seconds", "When they were compared last", last.at_ms / 1000)


def pages(monitor: NameServerMonitor, metrics: NameServerMetrics, route_history: RouteHistory) -> dict[str, Page]:
    """Return the pages by path."""

    def history(query: Mapping[str, str]) -> HttpResponse:
        events = route_history.events(
            topic=query.get("topic"),
            broker_name=query.get("broker"),
            since_ms=_number(query, "since", 0, 2**53),
            count_max=_number(query, "count", 200, EVENTS_MAX),
        )
        return HttpResponse(orjson.dumps(events), content_type=JSON)

    standard = server_pages(metrics.collect, monitor.health, "waiting for brokers to register")
    return {**standard, "/routes/history": Page(history, ("topic", "broker", "since", "count"))}


def _number(query: Mapping[str, str], name: str, default: int, largest: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= largest):
        raise InvalidArgument(name, text, f"a number from 0 to {largest}")
    return int(text)
