"""Retention by topic: messages older than a topic's attribute `reserve.time`, in hours, are not shown to any reader.

One log holds the messages of all topics, so their space comes back with its files (fileReservedTime); what is hidden until then is
a topic's own. Source: Java FlatMessageFile.getFileReservedHours, which has this meaning of the attribute in tiered storage alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from orbitmq.clock import Clock
from orbitmq.errors import StoreError
from orbitmq.model.topic import TopicConfig, retention_hours
from orbitmq.store.reader import StoreReader
from orbitmq.store.retention.clock import RetentionClock
from orbitmq.store.retention.rules import HOUR_MS


class TopicRetention:
    """Hides the messages of topics that have such a time; setting the wall clock ahead makes none of them older.

    Args:
        clock: the wall clock, in which store times are.
        monotonic: the clock that tells a wall clock that was set from time that passed.
    """

    def __init__(self, clock: Clock, monotonic: Clock) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._retention_clock = RetentionClock(clock(), monotonic())

    def shown_from_ms(self, topic: TopicConfig) -> int:
        """Return the store time (ms since 1970) of the oldest messages of a topic that are shown; 0: all are."""
        hours = retention_hours(topic)
        return max(self._retention_clock.stored_before_ms(hours * HOUR_MS), 0) if hours > 0 else 0

    async def hide_expired(self, topics: Mapping[str, TopicConfig], store: StoreReader) -> None:
        """Hide what is too old by now, topic by topic, with turns of the loop in between; show again what a longer time allows.

        Raises:
            StoreError: some topics cannot be read; the others are done.
        """
        self._retention_clock.look(self._clock(), self._monotonic())
        wanted = {name: time_ms for name, topic in topics.items() if (time_ms := self.shown_from_ms(topic))}
        failure: StoreError | None = None
        for name in [*(store.hidden_topics.keys() - wanted), *wanted]:
            try:
                store.hide_before(name, wanted.get(name, 0))
            except StoreError as error:
                failure = error
            await asyncio.sleep(0)
        if failure is not None:
            raise failure
