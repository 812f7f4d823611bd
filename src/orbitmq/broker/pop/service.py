"""POP in a running broker: its parts, put together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.held import ANY_QUEUE, Place
from orbitmq.broker.pop.ordered_queues import BatchFile, OrderedQueues, load_batches
from orbitmq.broker.pop.pops import PopLimits, Pops
from orbitmq.broker.pop.revival import Revival
from orbitmq.broker.pop.revive_log import ReviveLog
from orbitmq.broker.pop.waiting import WaitingPops
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.model.message import Host
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import Store


class PopService:
    """The parts of POP, which its handlers work on.

    Args:
        ordered_path: consumerOrderInfo.json.
        host: this broker's, for its records.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicRegistry,
        groups: GroupRegistry,
        offsets: GroupOffsets,
        stats: BrokerStats,
        *,
        ordered_path: Path,
        host: Host,
        clock: Clock,
        monotonic: Clock,
        random: Random,
    ) -> None:
        self.revive_log = ReviveLog(
            store,
            offsets,
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            host=host,
            clock=clock,
            monotonic=monotonic,
        )
        batches = [
            (place, batch)
            for place, batch in load_batches(ordered_path)
            # A power cut may have taken messages that were out: others get their numbers, and are not popped yet.
            if max(batch.offsets) < store.max_offset(place[0], place[2])
        ]
        self.ordered = OrderedQueues(batches, count_max=config.pop_checkpoints_max, clock=clock, monotonic=monotonic)
        """What is out in order."""
        self.batch_file = BatchFile(ordered_path, self.ordered)
        self._monotonic = monotonic
        self._timers: dict[Place, asyncio.TimerHandle] = {}
        limits = PopLimits(
            config.max_transfer_bytes_on_message_in_memory,
            config.pop_checkpoints_max,
            config.pop_inflight_message_threshold if config.enable_pop_message_threshold else None,
        )
        self.pops = Pops(
            store,
            topics,
            offsets,
            self.revive_log,
            self.ordered,
            stats,
            limits=limits,
            retries_first_percent=config.pop_from_retry_probability,
            clock=clock,
            random=random,
        )
        held_max, place_max = config.max_pop_polling_size, config.pop_polling_size
        has_messages = self.pops.has_messages
        self.waiting = WaitingPops(store, held_max=held_max, place_max=place_max, has_messages=has_messages)
        """Pops that wait for messages."""
        self.notices = WaitingPops(store, held_max=held_max, place_max=place_max, has_messages=has_messages)
        """Requests that wait to be told of messages."""
        self.revival = Revival(
            store,
            topics,
            groups,
            offsets,
            self.revive_log,
            uses_retry_v2=config.enable_retry_topic_v2,
            clock=clock,
            monotonic=monotonic,
        )

    def wake_overtaken(self) -> None:
        """Try requests again that missed a message."""
        self.waiting.wake_overtaken()
        self.notices.wake_overtaken()

    def wake_when_free(self, place: Place) -> None:
        """Try a request that waits at a place again when the first of the queues there that are blocked may be read."""
        until_ms = self.pops.blocked_until_ms(*place)
        if (timer := self._timers.pop(place, None)) is not None:
            timer.cancel()
        if until_ms is not None:
            left_ms = until_ms - self._monotonic()
            self._timers[place] = asyncio.get_running_loop().call_later(max(1, left_ms) / 1000, self._freed, place)

    def wake_in_order(self, place: Place) -> None:
        """Try requests again that wait for a queue which may be read in order now, or earlier than they knew."""
        topic, group, _ = place
        for waiting in (self.waiting, self.notices):
            waiting.wake(topic, group, ANY_QUEUE)
            waiting.wake(*place)

    def go_on_elsewhere(self, place: Place) -> None:
        """Let a group read a queue from where its offset was set to: acks of what is out in order are not to move it."""
        if self.ordered.find(place) is not None:
            self.ordered.forget_queue(place)
            self.wake_in_order(place)

    def _freed(self, place: Place) -> None:
        del self._timers[place]
        self.waiting.wake(*place)
        self.notices.wake(*place)

    def answer_topic(self, topic: str) -> None:
        """Answer the requests for a topic that was deleted."""
        self.ordered.forget_topic(topic)
        self.waiting.answer_topic(topic)
        self.notices.answer_topic(topic)

    def drop_connection(self, connection: Peer) -> None:
        """Forget the requests of a connection that closed."""
        self.waiting.drop_connection(connection)
        self.notices.drop_connection(connection)

    def close(self) -> None:
        """Answer the waiting pops."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.waiting.close()
        self.notices.close()
