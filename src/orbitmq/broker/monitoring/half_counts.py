"""Counts of the transactions of each topic: open, committed, rolled back. Pure.

State: the counts. The open ones outlive a run in `transactionMetrics`, as Java keeps them: after a crash they may be off by
what the last seconds brought. Nothing but metrics rests on them.

Source: Java TransactionMetrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.process.histogram import Histograms
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version

TOPICS_MAX = 200_000
LATENCY_BOUNDS_S = (5.0, 60.0, 600.0, 3_600.0, 43_200.0, 86_400.0)


class HalfCounts:
    """Transactions by topic."""

    def __init__(
        self,
        open_counts: Mapping[str, int] | None = None,
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
    ) -> None:
        self.version = version
        self.given_up_count = 0
        """Transactions that were discarded undecided, since the start."""
        self.latencies: Histograms[str] = Histograms(LATENCY_BOUNDS_S, TOPICS_MAX)
        """By topic: how long transactions were open that were committed, in seconds from their messages' birth."""
        self._open = dict(open_counts or {})
        self._changed_at_ms = dict.fromkeys(self._open, version.timestamp_ms)
        self._committed: dict[str, int] = {}
        self._rolled_back: dict[str, int] = {}
        self._is_changed = False

    @property
    def open(self) -> Mapping[str, int]:
        """Half messages that are undecided, by topic."""
        return MappingProxyType(self._open)

    @property
    def commits(self) -> Mapping[str, int]:
        """Messages that were committed since the start, by topic."""
        return MappingProxyType(self._committed)

    @property
    def rollbacks(self) -> Mapping[str, int]:
        """Messages that were rolled back since the start, by topic."""
        return MappingProxyType(self._rolled_back)

    def prepared(self, topic: str, now_ms: int) -> None:
        """A half message came."""
        self._add(topic, 1, now_ms)

    def committed(self, topic: str, now_ms: int, born_at_ms: int) -> None:
        """A message was committed.

        Args:
            born_at_ms: when its producer made it, by the producer's clock.
        """
        self._add(topic, -1, now_ms)
        self.latencies.observe(topic, max(0, now_ms - born_at_ms) // 1_000)
        self._committed[topic] = self._committed.get(topic, 0) + 1

    def rolled_back(self, topic: str, now_ms: int) -> None:
        """A message was rolled back."""
        self._add(topic, -1, now_ms)
        self._rolled_back[topic] = self._rolled_back.get(topic, 0) + 1

    def given_up(self, topic: str, now_ms: int) -> None:
        """Count a message that was discarded undecided."""
        self._add(topic, -1, now_ms)
        self.given_up_count += 1

    def take_changed(self, now_ms: int) -> bytes | None:
        """Return the content of transactionMetrics when it has changed since the last call, else None."""
        if not self._is_changed:
            return None
        self._is_changed = False
        self.version = self.version.next(now_ms)
        return format_counts(self._open, self._changed_at_ms, self.version)

    def _add(self, topic: str, difference: int, now_ms: int) -> None:
        count = max(0, self._open.get(topic, 0) + difference)
        if topic not in self._open and len(self._open) >= TOPICS_MAX:
            return
        self._open[topic] = count
        self._changed_at_ms[topic] = now_ms
        self._is_changed = True


def format_counts(counts: Mapping[str, int], changed_at_ms: Mapping[str, int], version: DataVersion) -> bytes:
    """Return the content of transactionMetrics."""
    table = {topic: {"count": count, "timeStamp": changed_at_ms.get(topic, 0)} for topic, count in counts.items()}
    return fastjson.dumps_loose({"dataVersion": data_version_document(version), "transactionCount": table})


def parse_counts(data: bytes) -> tuple[dict[str, int], DataVersion]:
    """Parse transactionMetrics.

    Raises:
        HeaderError: not such a file.
    """
    try:
        document = fastjson.loads(data)
        table = document.get("transactionCount") or {}
        counts = {str(topic): max(0, int(metric["count"])) for topic, metric in table.items()}
        return counts, parse_data_version(document.get("dataVersion") or {})
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise HeaderError(f"transaction metrics: {error}") from None
