"""The pages of a server's HTTP port: `/metrics` in Prometheus' text format, health and readiness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from orbitmq.net.http import JSON, HttpResponse, Page
from orbitmq.wire.slices import Slices


def server_pages(metrics: Source, health: Callable[[], Mapping[str, Any]], unready: str) -> dict[str, Page]:
    """Return the pages by path.

    Args:
        health: the health document; its field `ready` decides about readiness.
        unready: says why a server is not ready, where the document has no `notReady`.
    """

    def show_health(_query: Mapping[str, str]) -> HttpResponse:
        # Alive and answering: alerts are for operators, not for a supervisor to restart.
        return HttpResponse(orjson.dumps(health()), content_type=JSON)

    def show_readiness(_query: Mapping[str, str]) -> HttpResponse:
        document = health()
        if document["ready"]:
            return HttpResponse(b"ready\n")
        reasons = document.get("notReady") or [unready]
        return HttpResponse("".join(f"{reason}\n" for reason in reasons).encode(), 503)

    return {
        "/metrics": Page(lambda _query: metrics_page(metrics)),
        "/healthz": Page(show_health),
        "/readyz": Page(show_readiness),
    }


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_LINES = 2

Source = Callable[[], Iterable[Metric]]


def metrics_page(source: Source) -> Slices[HttpResponse]:
    """Make the page from a source's families and the figures of the process.

    A family that follows one of its own name is a further part of it.
    """
    texts: list[bytes] = []
    last = ""
    for family in _families(source):
        text = generate_latest(_One(family))
        # A name may be explained once.
        texts.append(text.split(b"\n", _HEAD_LINES)[_HEAD_LINES] if family.name == last else text)
        last = family.name
        yield
    return HttpResponse(b"".join(texts), content_type=CONTENT_TYPE)


def _families(source: Source) -> Iterator[Metric]:
    yield from source()
    yield from ProcessCollector(registry=None).collect()


class _One(Collector):
    """A single family, as a registry's stand-in."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
