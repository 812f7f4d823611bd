"""Metric families with the prefix and the labels that all figures of one server have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from orbitmq.process.histogram import Histogram

SERIES_PER_PART = 100
"""A family with more series comes in parts: one takes some two milliseconds to be written."""

Series = Iterable[tuple[Sequence[str], float] | None]
"""Values with those of their labels. None: looking for the next one has taken a while, so the part ends here."""
HistogramSeries = Iterable[tuple[Sequence[str], Histogram]]


class Families:
    """Makes families from figures.

    Args:
        prefix: stands before every name.
        labels: every value has them.
    """

    def __init__(self, prefix: str, labels: Mapping[str, str] | None = None) -> None:
        self._prefix = prefix
        self._names = list(labels or {})
        self._values = list((labels or {}).values())

    def gauge(self, name: str, text: str, value: float) -> Metric:
        """Return a figure that comes and goes."""
        family = GaugeMetricFamily(f"{self._prefix}_{name}", text, labels=self._names)
        family.add_metric(self._values, value)
        return family

    def counter(self, name: str, text: str, value: float) -> Metric:
        """Return a figure that only grows; `_total` is added to its name."""
        family = CounterMetricFamily(f"{self._prefix}_{name}", text, labels=self._names)
        family.add_metric(self._values, value)
        return family

    def histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        """Return counts by upper bound."""
        family = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=self._names)
        family.add_metric(self._values, buckets=histogram.cumulative(), sum_value=histogram.total)
        return family

    def counts(self, name: str, text: str, up_to: Sequence[tuple[str, int]], count: int, total: float) -> Metric:
        """Return a histogram whose values were counted elsewhere.

        Args:
            up_to: how many values there were up to each bound, in ascending order.
            count: how many there were.
            total: their sum.
        """
        family = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=self._names)
        family.add_metric(self._values, buckets=[*up_to, ("+Inf", count)], sum_value=total)
        return family

    def histograms(self, name: str, text: str, labels: Sequence[str], series: HistogramSeries) -> Iterator[Metric]:
        """Yield the parts of a family of histograms that differ in their labels, one at least."""
        names = [*self._names, *labels]
        part = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=names)
        for values, found in series:
            part.add_metric([*self._values, *values], buckets=found.cumulative(), sum_value=found.total)
            if len(part.samples) >= SERIES_PER_PART:
                yield part
                part = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=names)
        yield part

    def gauges(self, name: str, text: str, labels: Sequence[str], series: Series) -> Iterator[Metric]:
        """Yield the parts of a family of gauges that differ in their labels, one at least."""
        return self._parts(GaugeMetricFamily, name, text, labels, series)

    def counters(self, name: str, text: str, labels: Sequence[str], series: Series) -> Iterator[Metric]:
        """Yield the parts of a family of counters that differ in their labels, one at least."""
        return self._parts(CounterMetricFamily, name, text, labels, series)

    def _parts(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        name: str,
        text: str,
        labels: Sequence[str],
        series: Series,
    ) -> Iterator[Metric]:
        names = [*self._names, *labels]
        part = kind(f"{self._prefix}_{name}", text, labels=names)
        for found in series:
            if found is not None:
                values, value = found
                part.add_metric([*self._values, *values], value)
            if found is None or len(part.samples) >= SERIES_PER_PART:
                yield part
                part = kind(f"{self._prefix}_{name}", text, labels=names)
        yield part
