"""What every handler works on: the broker's tables, its store, and the few things that happen when they change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delivery.long_poll import ParkedPulls
from orbitmq.broker.groups.clients import ClientGroups
from orbitmq.broker.groups.offsets import OffsetTable
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.broker.groups.settings import GroupConfigTable
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics import TopicTable, retry_topic
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.message import Host, PropertyName
from orbitmq.model.topic import Perm
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.store import ReadStatus, Store
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import NotifyConsumerIdsChanged, PullMessage
from orbitmq.wire.record import Record, parse_record

log = logging.getLogger(__name__)

Announced = Callable[[], None]


class BrokerService:
    """The broker's state, owned by the event loop.

    Args:
        host: this broker's IP address and port, as records and message ids carry them.
        address: where clients reach this broker, as host:port.
        guard: what stands at the port.
        announce: tells every NameServer of a changed topic table, then calls back; see `registration`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        *,
        host: Host,
        address: str,
        topics: TopicTable,
        offsets: OffsetTable,
        group_configs: GroupConfigTable,
        files: ConfigFiles,
        guard: ServerSecurity,
        clock: Clock,
    ) -> None:
        self.config = config
        self.store = store
        self.host = host
        self.address = address
        self.topics = topics
        self.offsets = offsets
        self.group_configs = group_configs
        self.files = files
        self.guard = guard
        self.clock = clock
        self.random = Random()
        self.clients: ClientGroups[Peer] = ClientGroups()
        self.polls: ParkedPulls[Call[PullMessage]] = ParkedPulls(config.parked_pulls_max)
        self.locks = QueueLocks(config.rebalance_lock_max_live_time)
        self.stats = BrokerStats(clock())
        self.delay_wake: Callable[[], None] = _wake_nobody
        """Is called when a message was stored that waits for its time; see `app`."""
        self.announce: Callable[[Announced | None], None] = _announce_nobody
        self.is_readable = bool(config.broker_permission & Perm.READ)
        self.is_writable = bool(config.broker_permission & Perm.WRITE)
        self.is_sync = config.flush_disk_type == "SYNC_FLUSH"
        self.cluster_property = f"{PropertyName.CLUSTER}\x01{config.broker_cluster_name}\x02".encode()
        self.trace_on = str(config.trace_on).lower()

    def topics_changed(self, then: Announced | None = None) -> None:
        """Keep the changed topic table, and tell every NameServer at once.

        The file is written before anybody is answered: a topic must not vanish under its messages.

        Args:
            then: is called when the NameServers that answer have been told.
        """
        self.files.save_topics(self.topics)
        self.announce(then)

    def find_group(self, group: str, now_ms: int) -> GroupConfig | None:
        """Return a group's settings, made and kept when the group is new and that is allowed."""
        version = self.group_configs.version
        found = self.group_configs.find(group, now_ms)
        if self.group_configs.version != version:
            self.files.save_groups(self.group_configs)
        return found

    def admit_groups(self, groups: Iterable[str], now_ms: int) -> None:
        """Make what consumer groups need before they may join: settings, and the topic of their retries.

        All of it is kept in one go: a client may come with many groups.

        Raises:
            Rejected: 26, a group is unknown and may not be made.
        """
        configs, topics = self.group_configs.version, self.topics.version
        try:
            for group in groups:
                config = self.group_configs.find(group, now_ms)
                if config is None:
                    raise Rejected(
                        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist"
                    )
                if config.retry_queue_count > 0:
                    self.topics.create_retry_topic(retry_topic(group), config.retry_queue_count, now_ms)
        finally:
            if self.group_configs.version != configs:
                self.files.save_groups(self.group_configs)
            if self.topics.version != topics:
                self.topics_changed()

    def tell_members(self, groups: Iterable[str]) -> None:
        """Tell every consumer of the groups that the members changed."""
        if not self.config.notify_consumer_ids_changed_enable:
            return
        for group in groups:
            for connection in self.clients.connections(group):
                connection.send_oneway(NotifyConsumerIdsChanged(consumer_group=group))

    def check_queue(self, topic: str, queue_id: int) -> None:
        """Raise Rejected unless this broker has the queue; 17 for the topic, 1 for the queue."""
        config = self.topics.get(topic)
        if config is None:
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic:.140}] not exist, apply first please!")
        count = max(config.read_queue_count, config.write_queue_count)
        if not 0 <= queue_id < count:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"queueId[{queue_id}] is illegal, topic[{topic}] has {count}")

    def record_in(self, topic: str, queue_id: int, queue_offset: int) -> Record | None:
        """Return the message at a queue offset, None when it is not there."""
        found = self.store.read(topic, queue_id, queue_offset, 1, 1)
        record = parse_record(found.body, check_crc=False) if found.status is ReadStatus.FOUND else None
        return record if isinstance(record, Record) else None

    def connection_lost(self, connection: Peer) -> None:
        """Forget what belonged to a connection that closed."""
        self.polls.drop_connection(connection)
        self.tell_members(self.clients.drop_connection(connection))


def _announce_nobody(then: Announced | None) -> None:
    if then is not None:
        then()


def _wake_nobody() -> None:
    return None
