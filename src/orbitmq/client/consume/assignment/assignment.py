"""The queues that a consumer reads now: begins and ends reading them, and stores their offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial

from orbitmq.client.consume.assignment.allocation import assignment_change
from orbitmq.client.consume.assignment.assigned_queue import AssignedQueue, FindOffset
from orbitmq.client.consume.offsets.offset_store import OffsetStore
from orbitmq.client.consume.offsets.start_offsets import StartOffsets
from orbitmq.client.consume.pull.pull_request import PullSettings
from orbitmq.client.consume.pull.puller import Puller
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import ConnectionFailed, OrbitError, RequestTimeout
from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue

log = logging.getLogger(__name__)


class Assignment:
    """A consumer's queues, each with its puller and the offset that is stored for it.

    Args:
        session: carries the requests.
        group: the consumer group.
        store: keeps the offsets.
        start_offsets: tell where a queue begins.
        settings: how queues are pulled.
        commits_with_pulls: let pulls carry offsets, too; not where they are kept elsewhere than at the brokers.
        retry_delay_ms: before messages that were not done come again.
        on_ready: is called with a queue from which a batch can be handed out.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        store: OffsetStore,
        start_offsets: StartOffsets,
        *,
        settings: PullSettings,
        commits_with_pulls: bool,
        retry_delay_ms: int,
        on_ready: Callable[[AssignedQueue], None],
    ) -> None:
        self._session = session
        self._group = group
        self._store = store
        self._start_offsets = start_offsets
        self._settings = settings
        self._commits_with_pulls = commits_with_pulls
        self._retry_delay_ms = retry_delay_ms
        self._on_ready = on_ready
        self._assigned: dict[MessageQueue, AssignedQueue] = {}

    @property
    def queues(self) -> Collection[MessageQueue]:
        """The queues that are read now."""
        return self._assigned.keys()

    @property
    def topics(self) -> set[str]:
        """The topics of these queues."""
        return {queue.topic for queue in self._assigned}

    def __getitem__(self, queue: MessageQueue) -> AssignedQueue:
        return self._assigned[queue]

    def subscribe(self, subscription: Subscription) -> None:
        """Read the topic's queues by another subscription from the next pull on."""
        for queue, assigned in self._assigned.items():
            if queue.topic == subscription.topic:
                assigned.puller.subscribe(subscription)

    async def assign(self, topic: str, subscription: Subscription | None, queues: list[MessageQueue]) -> None:
        """Read these queues of `topic` and no others; none at all without a subscription."""
        wanted = queues if subscription is not None else []
        removed, added = assignment_change([queue for queue in self._assigned if queue.topic == topic], wanted)
        await asyncio.gather(*map(self._end, removed))
        if subscription is not None:
            for queue in added:
                self._assigned[queue] = self._begin(queue, subscription)
        if removed or added:
            log.info("group %s: %s: topic %s: +%s -%s", self._group, self._session.id, topic, added, removed)

    async def store_offsets(self) -> None:
        """Store what the offset store lacks; errors are logged, the next round tries again."""
        await asyncio.gather(*map(self._store_offset, tuple(self._assigned.values())))

    async def close(self) -> None:
        """Read no more, and leave the offsets where the next readers find them."""
        await asyncio.gather(*map(self._end, tuple(self._assigned)))

    def _begin(self, queue: MessageQueue, subscription: Subscription) -> AssignedQueue:
        assigned = AssignedQueue(
            partial(self._make_puller, queue, subscription),
            self._start_offsets.find,
            self._retry_delay_ms,
            self._on_ready,
        )
        assigned.puller.start()
        return assigned

    def _make_puller(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        find_offset: FindOffset,
        on_messages: Callable[[], None],
    ) -> Puller:
        return Puller(
            self._session,
            self._group,
            queue,
            subscription,
            find_offset=find_offset,
            on_messages=on_messages,
            settings=self._settings,
            commits=self._commits_with_pulls,
        )

    async def _end(self, queue: MessageQueue) -> None:
        assigned = self._assigned[queue]
        await assigned.puller.stop()
        assigned.drop()
        await self._store_offset(assigned)
        self._assigned.pop(queue, None)  # last: when closing interrupts us, it finds the queue and stores its offset

    async def _store_offset(self, assigned: AssignedQueue) -> None:
        offset = assigned.offset_to_store
        if offset is None:
            return
        try:
            await self._store.store(assigned.queue, offset)
        except (ConnectionFailed, RequestTimeout) as error:
            self._session.note_failure(assigned.queue.broker_name, error)
        except (OrbitError, OSError) as error:
            log.warning("group %s: offset %d of %s is not stored yet: %s", self._group, offset, assigned.queue, error)
        else:
            assigned.mark_stored(offset)
