"""The figures of a server's port and process, read from its counters at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric

from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.monitoring.alerts import Alert
from orbitmq.monitoring.families import Families
from orbitmq.net.server import Server
from orbitmq.process.stats import ProcessStats, memory_anonymous


class ServerMetrics:
    """What every server counts.

    Args:
        families: with the server's prefix.
    """

    def __init__(self, families: Families, server: Server[Any], process_stats: ProcessStats) -> None:
        self._families = families
        self._server = server
        self._process_stats = process_stats

    def requests(self) -> Iterator[Metric]:
        """Yield what was asked and refused."""
        make, counters = self._families, self._server.counters
        requests = [((str(code), _name_of(code)), count) for code, count in counters.requests.items()]
        yield from make.counters("requests", "Requests by code", ("code", "name"), requests)
        refusals = [
            ((str(request_code), str(code), _answer_name_of(code)), count)
            for (request_code, code), count in counters.refusals.items()
        ]
        labels = ("request_code", "code", "name")
        yield from make.counters("refusals", "Answers other than SUCCESS", labels, refusals)
        yield make.counter(
            "unsupported_requests", "Requests with a code that has no handler", counters.unsupported_requests
        )
        yield make.counter("failed_requests", "Requests that hit an error of ours", counters.failed_requests)
        yield make.counter("oversized_requests", "Requests refused for their body's size", counters.oversized_requests)
        yield make.histogram(
            "service_seconds",
            "From the arrival of bytes until their answers were written; of every 16th read of a connection",
            counters.service_s,
        )

    def connections(self) -> Iterator[Metric]:
        """Yield the connections, and those that were refused."""
        make, server = self._families, self._server
        counters = server.counters
        yield make.gauge("active_connections", "activeConnectionCount: open connections", len(server.connections))
        text = "Bytes that have arrived of frames that are not whole"
        yield make.gauge("partial_frames_bytes", text, server.partial_frames_size)
        text = "Bytes of answers that wait for their readers; some may have been read since it was looked"
        yield make.gauge("waiting_answers_bytes", text, server.waiting_answers_size)
        yield make.counter("connections_opened", "Connections accepted", counters.connections_opened)
        yield make.counter("connections_refused", "Connections over a limit", counters.connections_refused)
        yield make.counter("connections_encrypted", "Connections that speak TLS", counters.connections_encrypted)
        yield make.counter("throttled", "Pauses of peers that asked more often than they may", counters.throttled)
        text = "Connections that we ended, by reason: foreign protocols too"
        ended = [((reason,), count) for reason, count in counters.closed_by_us.items()]
        yield from make.counters("connections_ended", text, ("reason",), ended)
        yield make.counter("received_bytes", "Bytes received", counters.bytes_received)
        yield make.counter("sent_bytes", "Bytes sent", counters.bytes_sent)

    def process(self, alerts: Iterable[Alert]) -> Iterator[Metric]:
        """Yield what the process takes, and the alerts that hold."""
        make, stats = self._families, self._process_stats
        text = "What this process may use: its control group, or the machine"
        yield make.gauge("memory_limit_bytes", text, stats.memory_limit)
        text = "Memory that is this process's alone: pages of files, which the kernel can take back, are not counted"
        yield make.gauge("memory_anonymous_bytes", text, memory_anonymous())
        yield make.counter("gc_seconds", "Time that garbage collections took", stats.gc_ms / 1000)
        yield make.counter("gc_collections", "Garbage collections", stats.gc_count)
        yield make.histogram("event_loop_lag_seconds", "How late the event loop ran a timer", stats.lag)
        holding = [((alert.rule,), 1) for alert in alerts]
        yield from make.gauges("alert", "1 while a built-in alert rule holds", ("rule",), holding)


def _name_of(code: int) -> str:
    return RequestCode(code).name if code in _REQUEST_CODES else str(code)


def _answer_name_of(code: int) -> str:
    return ResponseCode(code).name if code in _RESPONSE_CODES else str(code)


_REQUEST_CODES = frozenset(RequestCode)
_RESPONSE_CODES = frozenset(ResponseCode)
