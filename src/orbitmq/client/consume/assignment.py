"""The queues that a consumer owns now: takes them up and gives them away, and keeps their offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from orbitmq.client.consume.allocation import change
from orbitmq.client.consume.assigned_queue import Share
from orbitmq.client.consume.offsets import OffsetStore, QueueOffsets
from orbitmq.client.consume.puller import PullSettings, QueueReader
from orbitmq.client.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import ConnectionFailed, OrbitError, RequestTimeout
from orbitmq.model.group import ConsumeFrom, Subscription
from orbitmq.model.route import MessageQueue

log = logging.getLogger(__name__)

HALF_AN_HOUR_MS = 30 * 60 * 1000


class Shares:
    """A consumer's queues, each with its reader and the offset that is stored for it.

    Args:
        session: carries the requests.
        group: the consumer group.
        store: keeps the offsets.
        consume_from: where a queue begins that has no offset.
        consume_from_ms: for TIMESTAMP; half an hour ago when None.
        settings: how queues are pulled.
        retry_delay_ms: before messages that were not done come again.
        on_ready: is told a share from which a batch can be taken.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        store: OffsetStore,
        *,
        consume_from: ConsumeFrom,
        consume_from_ms: int | None,
        settings: PullSettings,
        retry_delay_ms: int,
        on_ready: Callable[[Share], None],
    ) -> None:
        self.store = store
        self.commits = True
        """Pulls carry offsets, too; not where the offsets are kept elsewhere than at the brokers."""
        self._session = session
        self._group = group
        self._consume_from = consume_from
        self._consume_from_ms = consume_from_ms
        self._settings = settings
        self._retry_delay_ms = retry_delay_ms
        self._on_ready = on_ready
        self._queue_offsets = QueueOffsets(session)
        self._shares: dict[MessageQueue, Share] = {}

    @property
    def queues(self) -> Collection[MessageQueue]:
        """The queues that are owned now."""
        return self._shares.keys()

    @property
    def topics(self) -> set[str]:
        """The topics of these queues."""
        return {queue.topic for queue in self._shares}

    def __getitem__(self, queue: MessageQueue) -> Share:
        return self._shares[queue]

    def subscribe(self, subscription: Subscription) -> None:
        """Read the topic's queues by another subscription from the next pull on."""
        for queue, share in self._shares.items():
            if queue.topic == subscription.topic:
                share.reader.subscribe(subscription)

    async def take_up(self, topic: str, subscription: Subscription | None, queues: list[MessageQueue]) -> None:
        """Own these queues of `topic` and no others; none at all without a subscription."""
        wanted = queues if subscription is not None else []
        removed, added = change([queue for queue in self._shares if queue.topic == topic], wanted)
        await asyncio.gather(*map(self._drop, removed))
        if subscription is not None:
            for queue in added:
                self._shares[queue] = self._begin(queue, subscription)
        if removed or added:
            log.info("group %s: %s: topic %s: +%s -%s", self._group, self._session.id, topic, added, removed)

    async def store_offsets(self) -> None:
        """Store what the offset store lacks; errors are logged, the next round tries again."""
        await asyncio.gather(*map(self._store_offset, tuple(self._shares.values())))

    async def close(self) -> None:
        """Read no more, and leave the offsets where the next owners find them."""
        await asyncio.gather(*map(self._drop, tuple(self._shares)))

    def _begin(self, queue: MessageQueue, subscription: Subscription) -> Share:
        reader = QueueReader(
            self._session,
            self._group,
            queue,
            subscription,
            start=self._start_offset,
            on_messages=lambda _reader: share.offer(),
            settings=self._settings,
            commits=self.commits,
        )
        share = Share(reader, self._retry_delay_ms, self._on_ready)
        reader.start()
        return share

    async def _drop(self, queue: MessageQueue) -> None:
        share = self._shares[queue]
        await share.reader.stop()
        share.drop()
        await self._store_offset(share)
        self._shares.pop(queue, None)  # last: when closing interrupts us, it finds the queue and stores its offset

    async def _start_offset(self, queue: MessageQueue) -> int:
        found = await self.store.load(queue)
        if found is None:
            timestamp_ms = self._consume_from_ms if self._consume_from_ms is not None else now_ms() - HALF_AN_HOUR_MS
            found = await self._queue_offsets.start(queue, self._consume_from, timestamp_ms)
            await self.store.store(queue, found)  # whoever gets the queue next goes on from the same place
        if queue in self._shares:
            self._shares[queue].stored_offset = found
        return found

    async def _store_offset(self, share: Share) -> None:
        offset = share.offset_to_store
        if offset is None:
            return
        try:
            await self.store.store(share.queue, offset)
        except (ConnectionFailed, RequestTimeout) as error:
            self._session.complain(share.queue.broker_name, error)
        except (OrbitError, OSError) as error:
            log.warning("group %s: offset %d of %s is not stored yet: %s", self._group, offset, share.queue, error)
        else:
            share.stored_offset = offset
