"""The pages of the NameServer's HTTP port, for machines: metrics, health, readiness, route history."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from orbitmq.errors import InvalidArgument
from orbitmq.monitoring.pages import server_pages
from orbitmq.nameserver.monitoring.journal import EVENTS_MAX, Journal
from orbitmq.nameserver.monitoring.metrics import NameServerMetrics
from orbitmq.nameserver.monitoring.monitor import Monitor
from orbitmq.net.http.page import JSON, Answer, Page


def pages(monitor: Monitor, metrics: NameServerMetrics, journal: Journal) -> dict[str, Page]:
    """Return the pages by path."""

    def history(query: Mapping[str, str]) -> Answer:
        events = journal.events(
            topic=query.get("topic"),
            broker_name=query.get("broker"),
            since_ms=_number(query, "since", 0, 2**53),
            count_max=_number(query, "count", 200, EVENTS_MAX),
        )
        return Answer(orjson.dumps(events), content_type=JSON)

    standard = server_pages(metrics.collect, monitor.health, "waiting for brokers to register")
    return {**standard, "/routes/history": Page(history, ("topic", "broker", "since", "count"))}


def _number(query: Mapping[str, str], name: str, default: int, largest: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= largest):
        raise InvalidArgument(name, text, f"a number from 0 to {largest}")
    return int(text)
