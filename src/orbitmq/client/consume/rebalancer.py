"""The loop that keeps a consumer's assignment right.

It looks at routes and members every 20 s, and immediately when a route changes, when a broker says that the group has
changed, or when the consumer subscribes. While something cannot be told it looks again after 1 s, 2 s, 4 s and so on.

Source: Java RebalanceService, RebalanceImpl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from orbitmq.client.consume.assignment import Assignment
from orbitmq.client.consume.queue_allocator import QueueAllocator
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import OrbitError, RouteNotFound
from orbitmq.model.group import Subscription
from orbitmq.model.route import TopicRoute

log = logging.getLogger(__name__)

REBALANCE_INTERVAL_MS = 20_000
UNBALANCED_INTERVAL_MS = 1_000
LOCKED_INTERVAL_MS = 500
"""While other consumers still hold the locks of queues that are to be read here (Java: rebalanceLater)."""


class RebalanceRequests:
    """The reasons to rebalance before the interval has passed; the rebalancer reads them in its next round.

    Args:
        optional_topic: a topic that may be missing: the group's retry topic, until `require_all` is called.
    """

    def __init__(self, optional_topic: str) -> None:
        self.optional_topic: str | None = optional_topic
        self.due = asyncio.Event()
        self.is_heartbeat_due = True

    def add(self) -> None:
        """Rebalance soon."""
        self.due.set()

    def note_subscriptions(self) -> None:
        """Tell the brokers of changed subscriptions, and rebalance soon."""
        self.is_heartbeat_due = True
        self.due.set()

    def require_all(self) -> None:
        """Look for the topic that was optional until it is there: something is in it now."""
        if self.optional_topic is not None:
            self.optional_topic = None
            self.due.set()

    async def wait(self, limit_ms: int) -> None:
        """Wait for a reason, at most so many milliseconds."""
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self.due.wait()
        except TimeoutError:
            pass


class Rebalancer:
    """Brings the assignment in line with the subscriptions, the routes and the group.

    Args:
        session: carries the requests.
        allocator: computes the queues.
        assignment: reads them.
        subscriptions: by topic; the consumer changes them and calls the requests' `note_subscriptions` then.
        requests: ask for the next round.
        interval_ms: between two looks when nothing happens.
    """

    def __init__(
        self,
        session: ClientSession,
        allocator: QueueAllocator,
        assignment: Assignment,
        subscriptions: Mapping[str, Subscription],
        requests: RebalanceRequests,
        *,
        interval_ms: int,
    ) -> None:
        self._session = session
        self._allocator = allocator
        self._assignment = assignment
        self._subscriptions = subscriptions
        self._requests = requests
        self._interval_ms = interval_ms
        self._assigned = asyncio.Event()
        self._is_locked_out = False
        session.routes.add_listener(self._route_changed)

    async def first_assignment(self) -> None:
        """Wait until every subscribed topic has been assigned once."""
        await self._assigned.wait()

    async def find_routes(self, *, raises: bool = True) -> None:
        """Ask for the routes of all subscriptions, so that heartbeats know where to go; topics may be missing.

        Raises:
            NoNameServer: none answers.
        """
        found = await asyncio.gather(
            *map(self._session.routes.find, tuple(self._subscriptions)), return_exceptions=True
        )
        for error in found:
            if isinstance(error, RouteNotFound):
                log.debug("%s", error)
            elif isinstance(error, BaseException) and (raises or not isinstance(error, OrbitError)):
                raise error

    async def run(self) -> None:
        """Rebalance for ever."""
        pause_ms = UNBALANCED_INTERVAL_MS
        while True:
            self._requests.due.clear()
            is_balanced = await self._rebalance()
            limit_ms = self._interval_ms if is_balanced else min(pause_ms, self._interval_ms)
            if (next_s := self._allocator.next_round_s) is not None:
                limit_ms = min(limit_ms, int(next_s * 1000))
            if self._is_locked_out:
                limit_ms = min(limit_ms, LOCKED_INTERVAL_MS)
            await self._requests.wait(limit_ms)
            is_news = is_balanced or self._requests.due.is_set()
            pause_ms = UNBALANCED_INTERVAL_MS if is_news else min(2 * pause_ms, REBALANCE_INTERVAL_MS)

    async def _rebalance(self) -> bool:
        """Assign this consumer's queues; False when they could not be told for some topic."""
        if self._requests.is_heartbeat_due:
            self._requests.is_heartbeat_due = False
            await self.find_routes(raises=False)
            await self._session.send_heartbeats()
        wanted = await self._allocator.allocate(tuple(self._subscriptions))
        wanted.update((topic, []) for topic in self._assignment.topics - self._subscriptions.keys())
        # Together: ending a queue of a broker that stands still takes its time.
        are_granted = await asyncio.gather(
            *(
                self._assignment.assign(topic, self._subscriptions.get(topic), queues)
                for topic, queues in wanted.items()
                if queues is not None
            )
        )
        self._is_locked_out = not all(are_granted)
        optional_topic = self._requests.optional_topic
        is_complete = all(queues is not None for topic, queues in wanted.items() if topic != optional_topic)
        if is_complete and wanted.keys() - {optional_topic}:
            self._assigned.set()
        return is_complete

    def _route_changed(self, topic: str, _route: TopicRoute) -> None:
        if topic in self._subscriptions:
            self._requests.due.set()
