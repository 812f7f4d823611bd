"""Counts of the messages that wait for their time, by topic: what `config/timermetrics` keeps and request 61 tells. Pure.

Source: Java TimerMetrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.process.histogram import Histograms
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version

DELAY_BOUNDS_S = (60.0, 600.0, 3_600.0, 43_200.0, 86_400.0, 259_200.0)
TOPICS_MAX = 200_000


class TimerMetrics:
    """Counts of waiting messages, and when each changed last (ms)."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.version = DataVersion()
        self.enqueued: dict[str, int] = {}
        """Messages that came since the start, by topic, those included that came for another turn."""
        self.dequeued: dict[str, int] = {}
        """Messages whose time was over since the start."""
        self.delays: Histograms[str] = Histograms(DELAY_BOUNDS_S, TOPICS_MAX)
        """By topic: for how long messages asked to wait, in seconds from their birth."""
        self._changed_at_ms: dict[str, int] = {}

    def add(self, topic: str, count: int, now_ms: int, *, change_count: int = 1) -> None:
        """Take note of messages that came (above 0) or went (below 0), by so many changes of the version."""
        self.counts[topic] = self.counts.get(topic, 0) + count
        self._changed_at_ms[topic] = now_ms
        self.version = self.version.next(now_ms, change_count=change_count)

    def came(self, topic: str, delay_ms: int) -> None:
        """Count a message that was taken out of the timers' queue."""
        self.enqueued[topic] = self.enqueued.get(topic, 0) + 1
        self.delays.observe(topic, max(0, delay_ms) // 1_000)

    def came_together(self, topic: str, delays_ms: Sequence[int]) -> None:
        """Count messages as `came` does each of them."""
        self.enqueued[topic] = self.enqueued.get(topic, 0) + len(delays_ms)
        for delay_s, count in Counter([max(0, delay_ms) // 1_000 for delay_ms in delays_ms]).items():
            self.delays.observe(topic, delay_s, count)

    def went(self, topic: str) -> None:
        """Count a message that was stored again."""
        self.dequeued[topic] = self.dequeued.get(topic, 0) + 1

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        self.counts.pop(topic, None)
        self.enqueued.pop(topic, None)
        self.dequeued.pop(topic, None)
        self.delays.forget(topic)
        self._changed_at_ms.pop(topic, None)

    def clear(self) -> None:
        """Count again from zero."""
        self.counts.clear()
        self._changed_at_ms.clear()

    def format(self) -> bytes:
        """Return the counts as JSON."""
        counts = {
            topic: {"count": count, "timeStamp": self._changed_at_ms[topic]} for topic, count in self.counts.items()
        }
        return fastjson.dumps_loose({"dataVersion": data_version_document(self.version), "timingCount": counts})

    @classmethod
    def parse(cls, data: bytes) -> TimerMetrics:
        """Parse `config/timermetrics`.

        Raises:
            HeaderError: it is no such file.
        """
        metrics = cls()
        try:
            document: dict[str, Any] = fastjson.loads(data)
            for topic, entry in (document.get("timingCount") or {}).items():
                metrics.counts[str(topic)] = int(entry["count"])
                metrics._changed_at_ms[str(topic)] = int(entry.get("timeStamp") or 0)
            metrics.version = parse_data_version(document.get("dataVersion") or {})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise HeaderError(f"timer metrics: {error}") from None
        return metrics
