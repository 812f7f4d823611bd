"""Retention by topic: messages older than a topic's attribute `reserve.time`, in hours, are not shown to any reader.

One log holds the messages of all topics, so their space comes back with its files (fileReservedTime); what is hidden until then is
a topic's own. Source: Java FlatMessageFile.getFileReservedHours, which has this meaning of the attribute in tiered storage alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from orbitmq.model.topic import TopicConfig, retention_hours
from orbitmq.store.reader import StoreReader

_HOUR_MS = 3_600_000


def shown_from_ms(topic: TopicConfig | None, now_ms: int) -> int:
    """Return the store time (ms since 1970) of the oldest messages of a topic that are shown; 0: all are."""
    hours = retention_hours(topic)
    return max(now_ms - hours * _HOUR_MS, 0) if hours > 0 else 0


async def hide_expired(topics: Mapping[str, TopicConfig], store: StoreReader, now_ms: int) -> None:
    """Hide what is too old by now, topic by topic, with turns of the loop in between; show again what a longer time allows."""
    wanted = {name: time_ms for name, topic in topics.items() if (time_ms := shown_from_ms(topic, now_ms))}
    for name in [*(store.hidden_topics.keys() - wanted), *wanted]:
        store.hide_before(name, wanted.get(name, 0))
        await asyncio.sleep(0)
