"""The choice of the queue that messages are sent to: one that is named, the one of a key, or the next in turn.

Owns what a producer knows of its topics: the queues that can be written, and whose turn it is.

Source: Java TopicPublishInfo, MQFaultStrategy.selectOneMessageQueue, SelectMessageQueueByHash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple

from orbitmq.client.routing.route_queues import writable_queues
from orbitmq.client.routing.routes import Routes
from orbitmq.client.send.attempts import FaultTolerance
from orbitmq.errors import NoMaster, RouteNotFound
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import AUTO_CREATE_TOPIC, Perm
from orbitmq.wire.messages.properties import tag_code


class Target(NamedTuple):
    """Where messages are to go: a queue, the queue of a key, or any queue of the topic."""

    topic: str
    queue: MessageQueue | None = None
    key: str | None = None


class _TopicQueues(NamedTuple):
    """A topic's writable queues (Java: TopicPublishInfo)."""

    queues: tuple[MessageQueue, ...]
    broker_names: frozenset[str]
    turns: RoundRobin
    is_template: bool
    """The topic does not exist yet; the queues are those it will get."""


class QueueSelector:
    """Chooses queues for one producer.

    Args:
        routes: tell the topics' queues.
        fault_tolerance: names the brokers to avoid; None to avoid only those that failed during the same send.
        random: where round robin begins.
        queue_count: queues per broker of a topic that is yet to be created.
    """

    def __init__(
        self, routes: Routes, fault_tolerance: FaultTolerance | None, *, random: Random, queue_count: int
    ) -> None:
        self.fault_tolerance = fault_tolerance
        self.queue_count = queue_count
        self._routes = routes
        self._random = random
        self._topics: dict[str, _TopicQueues] = {}
        routes.add_listener(self._route_changed)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that the topic's messages may go to."""
        return (self._topics.get(topic) or await self._find(topic)).queues

    async def choose(self, target: Target, failed: frozenset[str] = frozenset()) -> MessageQueue:
        """Return the queue for the next messages to `target`; ask for the topic's route where it is not known.

        Args:
            failed: brokers that the messages were refused by already.

        Raises:
            RouteNotFound: the topic has no queue that can be written.
        """
        if target.queue is not None:
            if not self._routes.knows(target.queue):
                await self._find(target.topic)
            return target.queue
        return self.choose_now(target, failed) or self._choose(await self._find(target.topic), target, failed)

    def choose_now(self, target: Target, failed: frozenset[str] = frozenset()) -> MessageQueue | None:
        """Return the queue for the next messages to a topic or key, None while the topic's route is not known."""
        topic = self._topics.get(target.topic)
        return None if topic is None else self._choose(topic, target, failed)

    def has_other(self, target: Target, failed: frozenset[str]) -> bool:
        """Return True if messages to `target` may go to a broker that is not among `failed`."""
        topic = self._topics.get(target.topic)
        return target.queue is None and target.key is None and topic is not None and not topic.broker_names <= failed

    def mark_created(self, topic: str) -> bool:
        """Note that a message has been stored in `topic`; True when it was this message that created the topic."""
        known = self._topics.get(topic)
        if known is None or not known.is_template:
            return False
        self._topics[topic] = known._replace(is_template=False)
        return True

    def _choose(self, topic: _TopicQueues, target: Target, failed: frozenset[str]) -> MessageQueue:
        if target.key is not None:
            return choose_by_key(topic.queues, target.key)
        if self.fault_tolerance is None:
            return topic.turns.choose(topic.queues, failed)
        avoided = self.fault_tolerance.avoided(int(asyncio.get_running_loop().time() * 1000))
        if failed:
            avoided |= failed
        if avoided and avoided >= topic.broker_names:
            # No broker is left: rather the broker that is avoided for the shortest time than a random one, and one that
            # has not failed in this very send before one that has.
            avoided -= {self.fault_tolerance.soonest(sorted(topic.broker_names - failed or topic.broker_names))}
        return topic.turns.choose(topic.queues, avoided)

    async def _find(self, topic: str) -> _TopicQueues:
        """Ask for the topic's route, or for the template from which a broker will create the topic."""
        try:
            route, is_template = await self._routes.find(topic), False
        except RouteNotFound:
            try:
                route, is_template = await self._routes.find(AUTO_CREATE_TOPIC), True
            except RouteNotFound:
                route, is_template = TopicRoute(), True
            if not writable_queues(topic, route):
                raise
        self._routes.watch(topic, while_known=True)
        return self._keep(topic, route, is_template)

    def _keep(self, topic: str, route: TopicRoute, is_template: bool) -> _TopicQueues:
        queues = writable_queues(topic, route, queue_count_max=self.queue_count if is_template else None)
        if not queues:
            if any(data.perm & Perm.WRITE for data in route.queues):
                names = ", ".join(data.broker_name for data in route.queues)
                raise NoMaster(f"topic {topic} has a route, but none of its brokers has a master now: {names}")
            perms = ", ".join(f"{data.broker_name} perm {data.perm}" for data in route.queues) or "no queues at all"
            raise RouteNotFound(
                f"topic {topic} has a route but no queue that can be written ({perms}): write "
                "permission was taken away, from the topic or from brokers (broker retire, brokerPermission, mqadmin "
                "updateTopicPerm and wipeWritePerm do that; orbitmq doctor says what gives it back)"
            )
        known = self._topics.get(topic)
        turns = known.turns if known is not None else RoundRobin(self._random.randrange(len(queues)))
        found = _TopicQueues(queues, frozenset(queue.broker_name for queue in queues), turns, is_template)
        self._topics[topic] = found
        return found

    def _route_changed(self, topic: str, route: TopicRoute) -> None:
        if topic not in self._topics:
            return
        try:
            self._keep(topic, route, is_template=False)
        except RouteNotFound:
            del self._topics[topic]  # the next send says why


def choose_by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue that `key` belongs to; Java's SelectMessageQueueByHash picks the same one for a String."""
    return queues[abs(tag_code(key)) % len(queues)]


class RoundRobin:
    """Chooses queues in turn.

    Args:
        start: where to begin; chosen at random, so that many producers do not all begin at the same queue.
    """

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(self, queues: Sequence[MessageQueue], avoided: Collection[str] = ()) -> MessageQueue:
        """Return the next queue that is not on an avoided broker; the next one at all when every broker is."""
        count = len(queues)
        start = self._next
        self._next = start + 1
        if avoided:
            for step in range(count):
                queue = queues[(start + step) % count]
                if queue.broker_name not in avoided:
                    # On behind the queue that was found: else the first queue behind an avoided broker gets its turns.
                    self._next = start + step + 1
                    return queue
        return queues[start % count]
