"""Questions to one broker by its address, for programs that read much of it: monitoring asks no NameServer for each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from orbitmq.admin.each_master import SendRequest
from orbitmq.client.consume.pull_request import plain_pull
from orbitmq.client.consume.pulled_messages import decode_messages
from orbitmq.client.queue_reader import NOTHING_THERE
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused
from orbitmq.model.access import Acl, User
from orbitmq.model.group import SYSTEM_GROUPS, MessageModel, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.access import decode_acls, decode_users
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.bodies.groups import (
    ClientConnection,
    GroupConfig,
    decode_consumer_connections,
    decode_group_table,
    decode_producer_table,
)
from orbitmq.wire.bodies.offsets import decode_committed
from orbitmq.wire.bodies.stats import BrokerStatsData, decode_stats
from orbitmq.wire.bodies.topics import (
    QueueProgress,
    QueueStats,
    decode_consume_stats,
    decode_topic_stats,
    decode_topic_table,
)
from orbitmq.wire.headers.access import ListAcls, ListUsers
from orbitmq.wire.headers.admin import GetAllConsumerOffsets, GetBrokerRuntimeInfo, GetConsumeStats, ViewBrokerStats
from orbitmq.wire.headers.groups import GetAllProducers, GetAllSubscriptionGroups, GetConsumerConnections
from orbitmq.wire.headers.topics import GetAllTopicConfig, GetTopicStats


class BrokerAdmin:
    """Typed questions to one broker, ours or Java's.

    Args:
        request: sends a request to an address.
        address: of the broker, as host:port.
    """

    def __init__(self, request: SendRequest, address: str) -> None:
        self._request = request
        self.address = address

    async def runtime_info(self) -> dict[str, str]:
        """Return its run-time values, by Java's names."""
        return decode_kv_table((await self._request(self.address, GetBrokerRuntimeInfo())).body)

    async def topics(self) -> Sequence[str]:
        """Return the names of its topics, its own ones too, sorted."""
        return sorted(await self.topic_configs())

    async def topic_configs(self) -> Mapping[str, TopicConfig]:
        """Return the settings of its topics by their names, its own ones too."""
        table = (await self._request(self.address, GetAllTopicConfig())).body
        return (await asyncio.to_thread(decode_topic_table, table)).topics

    async def groups(self) -> Sequence[str]:
        """Return the names of the groups that it has settings of, without those that brokers make for themselves, sorted."""
        return sorted(await self.group_configs())

    async def group_configs(self) -> dict[str, GroupConfig]:
        """Return the settings of groups by their names, without those that brokers make for themselves."""
        table = (await self._request(self.address, GetAllSubscriptionGroups())).body
        groups = (await asyncio.to_thread(decode_group_table, table)).groups
        return {name: config for name, config in groups.items() if name not in SYSTEM_GROUPS}

    async def committed(self) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets of all groups: by Java's `topic@group`, queue id to offset."""
        table = (await self._request(self.address, GetAllConsumerOffsets())).body
        return await asyncio.to_thread(decode_committed, table)

    async def users(self) -> tuple[User, ...]:
        """Return its users; their passwords are empty unless we are super."""
        return decode_users((await self._request(self.address, ListUsers())).body)

    async def rules(self) -> tuple[Acl, ...]:
        """Return the rules of its users."""
        return decode_acls((await self._request(self.address, ListAcls())).body)

    async def producer_counts(self) -> Mapping[str, int]:
        """Return how many producers of each producer group are connected."""
        producers = decode_producer_table((await self._request(self.address, GetAllProducers())).body)
        return {group: len(infos) for group, infos in producers.items()}

    async def stats(self, name: str, key: str) -> BrokerStatsData | None:
        """Return what it has counted in the last minute, hour and day; None: it has not counted anything of that.

        Args:
            name: one of Java's, as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: a topic, `topic@group`, or the cluster.
        """
        try:
            return decode_stats(
                (await self._request(self.address, ViewBrokerStats(stats_name=name, stats_key=key))).body
            )
        except RemoteRefused as refusal:
            if refusal.code != ResponseCode.SYSTEM_ERROR:
                raise
            return None

    async def topic_stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return where each queue of a topic begins and ends."""
        return decode_topic_stats((await self._request(self.address, GetTopicStats(topic=topic))).body)

    async def progress(self, group: str, topic: str = "") -> dict[MessageQueue, QueueProgress]:
        """Return how far a group is in every queue of a topic, or of all that it reads, its retries included."""
        header = GetConsumeStats(consumer_group=group, topic=topic)
        return decode_consume_stats((await self._request(self.address, header)).body)

    async def consumers(self, group: str) -> tuple[tuple[ClientConnection, ...], MessageModel] | None:
        """Return a group's clients that are connected, and how they read; None without one."""
        try:
            answer = await self._request(self.address, GetConsumerConnections(consumer_group=group))
        except RemoteRefused as refusal:
            if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        clients, info = decode_consumer_connections(answer.body, group)
        return clients, info.message_model

    async def stored_at_ms(self, queue: MessageQueue, queue_offset: int) -> int | None:
        """Return when the message at a queue offset was stored, in ms since 1970; None: there is none (any more)."""
        header = plain_pull(queue.topic, queue.queue_id, queue_offset, 1)
        try:
            answer = await self._request(self.address, header)
        except RemoteRefused as refusal:
            if refusal.code in NOTHING_THERE:
                return None
            raise
        everything = Subscription(topic=queue.topic)
        messages = decode_messages(answer.body, queue, everything, queue_offset, queue_offset + 1).messages
        return messages[0].stored_at_ms if messages else None
