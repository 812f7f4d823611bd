"""The page `/metrics`, in Prometheus' text format: read from its sources at each scrape, and made in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from orbitmq.net.http.page import Answer
from orbitmq.wire.slices import Slices

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_LINES = 2

Source = Callable[[], Iterable[Metric]]


def metrics_page(source: Source) -> Slices[Answer]:
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
    return Answer(b"".join(texts), content_type=CONTENT_TYPE)


def _families(source: Source) -> Iterator[Metric]:
    yield from source()
    yield from ProcessCollector(registry=None).collect()


class _One(Collector):
    """A single family, as a registry's stand-in."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
