"""The brokers that a SimpleConsumer pops of: those that have readable queues of its topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.client.session.session import ClientSession
from orbitmq.errors import ClientError, InvalidArgument, RouteNotFound
from orbitmq.model.group import Subscription
from orbitmq.model.topic import Perm

_ROUTE_PAUSE_S = 1.0
"""Between two questions for a topic without a route while others have messages."""

log = logging.getLogger(__name__)


class PopTarget(NamedTuple):
    """A broker that has messages of a subscription."""

    subscription: Subscription
    broker_name: str


class PopTargets:
    """Finds the brokers of a consumer's subscriptions.

    Args:
        session: knows the routes.
        subscriptions: by topic; the consumer changes them.
    """

    def __init__(self, session: ClientSession, subscriptions: Mapping[str, Subscription]) -> None:
        self._session = session
        self._subscriptions = subscriptions
        self._unknown: set[str] = set()
        """Topics without a route that were told of."""
        self._asks_again_s = 0.0
        self._turn = 0

    def forget(self, topic: str) -> None:
        """Tell of a topic again when it has no route."""
        self._unknown.discard(topic)

    async def find(self) -> list[PopTarget]:
        """Return every broker of every subscription, in an order that gives each its turn to be asked first.

        Raises:
            InvalidArgument: there is no subscription.
            RouteNotFound: no NameServer knows any of the topics.
            ClientError: no broker allows reading.
        """
        if not self._subscriptions:
            raise InvalidArgument("subscriptions", "none", "at least one; subscribe() comes first")
        unknown = await self._find_routes()
        found = []
        for topic, subscription in self._subscriptions.items():
            if (route := self._session.routes.known.routes.get(topic)) is None:
                continue
            names = sorted(data.broker_name for data in route.queues if data.perm & Perm.READ and data.read_queue_count)
            found += [PopTarget(subscription, name) for name in names]
        if not found:
            raise unknown or ClientError(f"no broker allows reading of {', '.join(self._subscriptions)}")
        self._turn = (self._turn + 1) % len(found)
        return found[self._turn :] + found[: self._turn]

    async def _find_routes(self) -> RouteNotFound | None:
        """Look for the routes that are missing, now and then while others are known; return why one is still missing."""
        known = self._session.routes.known.routes
        missing = [topic for topic in self._subscriptions if topic not in known]
        now_s = asyncio.get_running_loop().time()
        if len(missing) < len(self._subscriptions) and now_s < self._asks_again_s:
            return None
        error = None
        for topic in missing:
            try:
                await self._session.routes.find(topic)
            except RouteNotFound as not_found:
                error = not_found
                self._asks_again_s = now_s + _ROUTE_PAUSE_S
                log.log(logging.DEBUG if topic in self._unknown else logging.WARNING, "%s", error)
                self._unknown.add(topic)
        return error
