"""The requests that backups and restores send to brokers, Java's and ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from orbitmq.admin.backup.selection import is_saved
from orbitmq.admin.backup.tables import AccessTables, BrokerTables, parse_offset_key
from orbitmq.admin.client import AdminClient
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.route import MASTER_ID, ClusterInfo
from orbitmq.model.topic import TopicConfig, topics_named_after
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.access import decode_acls, decode_users
from orbitmq.wire.bodies.groups import decode_group_table
from orbitmq.wire.bodies.offsets import decode_committed
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetConsumerConnections,
    GetMaxOffset,
    GetMinOffset,
    ListAcls,
    ListUsers,
    OffsetResponse,
    PullMessage,
    PullResponse,
    PullSysFlag,
)
from orbitmq.wire.signature import Credentials

READER_GROUP = "TOOLS_CONSUMER"
"""Every broker knows this group of Java's tools: reading leaves no other behind."""
PULL_COUNT = 256
_RETRY_S = 10.0
"""How long a request that changes nothing is repeated: a broker may restart in the middle of a backup."""
_PAUSE_S = 0.2
_NOTHING_THERE = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Master(NamedTuple):
    """A broker that takes messages."""

    broker: str
    cluster: str
    address: str


class QueueBounds(NamedTuple):
    """Where a queue begins and ends, in messages."""

    begin: int
    end: int


class Pulled(NamedTuple):
    """Records of a queue, and the offset behind them, or where the broker says that the queue goes on."""

    records: bytes
    next_offset: int


class BrokerCalls:
    """Asks the brokers of one cluster.

    Args: as `AdminClient`.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self._admin = AdminClient(name_servers, timeout_ms=timeout_ms, credentials=credentials, tls=tls)
        self._pool = ConnectionPool(name="backup", credentials=credentials, tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()
        await self._admin.close()

    async def cluster_info(self) -> ClusterInfo:
        """Return all brokers of all clusters that the NameServer knows."""
        return await self._admin.cluster_info()

    async def settings(self, address: str) -> dict[str, str]:
        """Return a broker's settings, under RocketMQ's keys."""
        return await self._admin.broker_settings(address)

    async def send(self, address: str, header: object, body: bytes = b"") -> Command:
        """Send a request, and return the answer whatever it says."""
        return await self._pool.request(address, header, body, timeout_ms=self.timeout_ms)

    async def ask(self, address: str, header: object, body: bytes = b"") -> Command:
        """Send a request, and return its answer.

        Raises:
            RemoteRefused: the broker refuses.
        """
        return expect(await self.send(address, header, body), address)

    async def _ask_again(self, address: str, header: object) -> Command:
        """Send a request that changes nothing: it is repeated where no answer comes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_S
        while True:
            try:
                return await self.send(address, header)
            except (ConnectionFailed, RequestTimeout):
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def tables(self, address: str, own: frozenset[str], patterns: Sequence[str] = ()) -> BrokerTables:
        """Return a broker's topics, groups and offsets, without those that it keeps for itself.

        Args:
            own: topics that are named after brokers and clusters.
            patterns: only topics, and offsets in topics, that fit one of these.
        """
        topics = decode_topic_table((await self.ask(address, GetAllTopicConfig())).body).topics
        groups = decode_group_table((await self.ask(address, GetAllSubscriptionGroups())).body).groups
        committed = decode_committed((await self.ask(address, GetAllConsumerOffsets())).body)
        offsets = {}
        for text, queues in committed.items():
            key = parse_offset_key(text)
            if key is not None and key.group not in SYSTEM_GROUPS and is_saved(key.topic, own, patterns):
                offsets[key] = {queue_id: at for queue_id, at in queues.items() if 0 <= queue_id < 2**31}
        return BrokerTables(
            {name: config for name, config in topics.items() if is_saved(name, own, patterns)},
            {name: config for name, config in groups.items() if name not in SYSTEM_GROUPS},
            offsets,
        )

    async def access(self, address: str) -> AccessTables:
        """Return a broker's users and rules.

        Raises:
            RemoteRefused: the broker has none, or does not give them.
        """
        users = decode_users((await self.ask(address, ListUsers())).body)
        return AccessTables(users, decode_acls((await self.ask(address, ListAcls())).body))

    async def bounds(self, address: str, topic: str, queue_id: int) -> QueueBounds:
        """Return where a queue begins and ends."""
        low = await self._ask_again(address, GetMinOffset(topic=topic, queue_id=queue_id))
        high = await self._ask_again(address, GetMaxOffset(topic=topic, queue_id=queue_id))
        begin, end = (decode_header(OffsetResponse, expect(found, address).ext_fields).offset for found in (low, high))
        return QueueBounds(max(0, begin), max(0, begin, end))

    async def pull(self, address: str, topic: str, queue_id: int, offset: int, count_max: int = PULL_COUNT) -> Pulled:
        """Return records of a queue from an offset on; none where the broker has none there.

        Raises:
            RemoteRefused: the topic may not be read.
        """
        header = PullMessage(
            consumer_group=READER_GROUP,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            count_max=count_max,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription="*",
            sub_version=0,
        )
        answer = await self._ask_again(address, header)
        records = answer.body
        if answer.code in _NOTHING_THERE:
            records = b""
        else:
            expect(answer, address)
        return Pulled(records, decode_header(PullResponse, answer.ext_fields).next_begin_offset)

    async def is_online(self, address: str, group: str) -> bool:
        """Say whether clients of a group are connected to a broker."""
        answer = await self.send(address, GetConsumerConnections(consumer_group=group))
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return False
        expect(answer, address)
        return True


def own_topics(info: ClusterInfo) -> frozenset[str]:
    """Return the topics that brokers name after themselves and their clusters."""
    return topics_named_after(info.clusters, info.brokers)


def masters_of(info: ClusterInfo, cluster: str | None = None) -> tuple[list[Master], list[str]]:
    """Return the masters, sorted by name, and the names of the brokers that have none now."""
    found, without = [], []
    for cluster_name, names in sorted(info.clusters.items()):
        for name in sorted(names):
            if cluster not in (None, cluster_name) or name not in info.brokers:
                continue
            address = info.brokers[name].addresses.get(MASTER_ID)
            if address is None:
                without.append(name)
            else:
                found.append(Master(name, cluster_name, address))
    return found, without


def queue_count(config: TopicConfig) -> int:
    """Return how many queues of a topic may hold messages: more are read than written while a topic shrinks."""
    return max(config.read_queue_count, config.write_queue_count)


def is_silent(error: OrbitError) -> bool:
    """Say whether an error means that a broker gives no answer, rather than a refusal."""
    return isinstance(error, ClientError) and not isinstance(error, RemoteRefused)
