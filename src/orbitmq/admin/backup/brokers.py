"""What a backup and a restore read of one broker, ours or Java's: its tables, users and rules."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.admin.backup.tables import AccessTables, BrokerTables, is_saved, parse_offset_key
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.errors import ClientError, OrbitError, RemoteRefused
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.access import decode_acls, decode_users
from orbitmq.wire.bodies.groups import decode_group_table
from orbitmq.wire.bodies.offsets import decode_committed
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetAllConsumerOffsets, GetAllSubscriptionGroups, GetAllTopicConfig, ListAcls, ListUsers


async def ask(clients: ClusterClients, address: str, header: object, body: bytes = b"") -> Command:
    """Return a broker's answer.

    Raises:
        RemoteRefused: the broker refuses.
    """
    return expect(await clients.request(address, header, body), address)


async def read_tables(
    clients: ClusterClients, address: str, own: frozenset[str], patterns: Sequence[str] = ()
) -> BrokerTables:
    """Return a broker's topics, groups and offsets, without those that it keeps for itself.

    Args:
        own: topics that are named after brokers and clusters.
        patterns: only topics, and offsets in topics, that fit one of these.
    """
    topics = decode_topic_table((await ask(clients, address, GetAllTopicConfig())).body).topics
    groups = decode_group_table((await ask(clients, address, GetAllSubscriptionGroups())).body).groups
    committed = decode_committed((await ask(clients, address, GetAllConsumerOffsets())).body)
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


async def read_access(clients: ClusterClients, address: str) -> AccessTables:
    """Return a broker's users and rules.

    Raises:
        RemoteRefused: the broker has none, or does not give them.
    """
    users = decode_users((await ask(clients, address, ListUsers())).body)
    return AccessTables(users, decode_acls((await ask(clients, address, ListAcls())).body))


def is_silent(error: OrbitError) -> bool:
    """Return True if an error means that a broker gives no answer, rather than a refusal."""
    return isinstance(error, ClientError) and not isinstance(error, RemoteRefused)
