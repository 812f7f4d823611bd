"""The cluster that a job works on, for Spark and for an administrator's client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.client import AdminClient
from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.errors import RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.net.security.client_security import load_security
from orbitmq.wire.bodies.topics import QueueStats

TIMEOUT_MS = 30_000
"""For each request of an administrator: machines that run Spark are busy."""


class Cluster(NamedTuple):
    """A cluster, and the file that says how one signs and encrypts there."""

    name_servers: str
    security: Path | None = None

    def options(self, topic: str) -> dict[str, str]:
        """Return the options of Spark's source and sink for a topic."""
        file = {} if self.security is None else {"securityFile": str(self.security)}
        return {"nameServer": self.name_servers, "topic": topic, **file}

    def topic_stats(self, topic: str) -> Mapping[MessageQueue, QueueStats]:
        """Return where each queue of a topic begins and ends now.

        Raises:
            ClientError: there is no such topic, or one of its brokers does not answer.
            ConfigError: the security file cannot be used.
        """
        return run(self._ask(lambda admin: admin.topic_stats(topic)))

    def has_topic(self, topic: str) -> bool:
        """Return True if there is such a topic.

        Raises:
            ClientError, ConfigError: as `topic_stats`.
        """
        try:
            self.topic_stats(topic)
        except RouteNotFound:
            return False
        return True

    def readable_stats(self, topic: str) -> Mapping[MessageQueue, QueueStats]:
        """Return the same of those queues that can be read: Spark's source knows no others.

        Raises:
            ClientError, ConfigError: as `topic_stats`.
        """
        return run(self._ask(lambda admin: readable_stats(admin, topic)))

    async def _ask(
        self, question: Callable[[AdminClient], Awaitable[Mapping[MessageQueue, QueueStats]]]
    ) -> Mapping[MessageQueue, QueueStats]:
        access = load_security(self.security)._asdict()
        async with AdminClient(self.name_servers, timeout_ms=TIMEOUT_MS, **access) as admin:
            return await question(admin)


async def readable_stats(admin: AdminClient, topic: str) -> Mapping[MessageQueue, QueueStats]:
    """Return where those queues of a topic begin and end that can be read."""
    queues = set(readable_queues(topic, await admin.topic_route(topic)))
    return {queue: stats for queue, stats in (await admin.topic_stats(topic)).items() if queue in queues}
