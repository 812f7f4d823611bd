"""The queues that a consumer is to read now, computed from the topics' routes and the group's members.

Source: Java RebalanceImpl.rebalanceByTopic, MQClientInstance.findConsumerIdList.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from orbitmq.client.consume.allocation import Strategy, allocate
from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, OrbitError, RouteNotFound
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.heartbeat import decode_consumer_list
from orbitmq.wire.headers import GetConsumerList

log = logging.getLogger(__name__)


class QueueAllocator:
    """Computes one consumer's queues.

    Args:
        session: carries the requests.
        group: the consumer group.
        message_model: whether the group shares the queues.
        strategy: how it shares them.
    """

    def __init__(self, session: ClientSession, group: str, message_model: MessageModel, strategy: Strategy) -> None:
        self._session = session
        self._group = group
        self._message_model = message_model
        self._strategy = strategy
        self._missing: set[str] = set()

    async def allocate(self, topics: Collection[str]) -> dict[str, list[MessageQueue] | None]:
        """Return the queues to read per topic; None where that cannot be told now and nothing is to change."""
        return {topic: await self._allocate_topic(topic) for topic in topics}

    async def _allocate_topic(self, topic: str) -> list[MessageQueue] | None:
        try:
            route = await self._session.routes.find(topic)
            queues = readable_queues(topic, route)
            if self._message_model is MessageModel.BROADCASTING:
                return list(queues)
            members = await self._members(route)
            if self._session.id not in members:  # a broker that was just started waits for our heartbeat
                await self._session.send_heartbeats()
                members = await self._members(route)
        except OrbitError as error:
            self._warn(topic, error)
            return None
        self._missing.discard(topic)
        return allocate(queues, members, self._session.id, self._strategy)

    async def _members(self, route: TopicRoute) -> tuple[str, ...]:
        """Ask the topic's first broker that answers: members that ask the same broker compute from the same list."""
        error: ClientError = RouteNotFound("the route names no broker")
        for broker in sorted(route.brokers, key=lambda broker: broker.broker_name):
            try:
                answer = await self._session.call(broker.broker_name, GetConsumerList(consumer_group=self._group))
            except ClientError as failure:
                error = failure
                continue
            if answer.code == ResponseCode.SYSTEM_ERROR:  # how a broker says that the group has no member
                return ()
            return decode_consumer_list(expect(answer, broker.broker_name).body)
        raise error

    def _warn(self, topic: str, error: OrbitError) -> None:
        """Warn once; a retry topic that does not exist yet is in order."""
        is_expected = topic.startswith(RETRY_PREFIX) and isinstance(error, RouteNotFound)
        is_news = topic not in self._missing and not is_expected
        self._missing.add(topic)
        log.log(logging.WARNING if is_news else logging.DEBUG, "group %s: %s", self._group, error)
