"""The metrics that Prometheus is shown of a broker. Nothing is counted here: plain integers are read at each scrape.

Where RocketMQ has a metric, it has that name here and those labels; what is ours begins with `rocketmq_broker_`.

Source: Java BrokerMetricsConstant, DefaultStoreMetricsConstant; docs/reference/broker.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from prometheus_client.core import Metric

from orbitmq.broker.access.guard import DENIALS
from orbitmq.broker.health.delivery_metrics import STORAGE, STORAGE_LABELS, DeliveryMetrics
from orbitmq.broker.health.group_metrics import GroupMetrics, SeriesWork, first_of, is_system_group, look, truth
from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.limits import limit_refusals
from orbitmq.broker.monitoring.progress import stored_queue_ids
from orbitmq.broker.monitoring.runtime_info import earliest_message_ms
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.system_topics import is_system_topic
from orbitmq.clock import Clock
from orbitmq.codes import version_name
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.monitoring.families import Families, Series
from orbitmq.monitoring.server_metrics import ServerMetrics
from orbitmq.net.server import Server
from orbitmq.store import StoreIssueKind
from orbitmq.store.log.open_files import allowed_maps

_SIZE_BOUNDS = tuple((1 << bits, bits) for bits in (10, 12, 19, 20, 21, 22))
"""Java's, with the bits that `BrokerStats.put_bits` counts them by."""


class BrokerMetrics:
    """The figures of one broker."""

    def __init__(
        self,
        service: BrokerService,
        server: Server[BrokerService],
        registrar: Registrar,
        monitor: BrokerMonitor,
        clock: Clock,
    ) -> None:
        config = service.config
        labels = {"cluster": config.broker_cluster_name, "node_type": "broker", "node_id": config.broker_name}
        self._java = Families("rocketmq", labels)
        self._own = Families("rocketmq_broker", labels)
        self._server_metrics = ServerMetrics(self._own, server, monitor.process_stats)
        self._service = service
        self._server = server
        self._registrar = registrar
        self._monitor = monitor
        self._clock = clock
        self._series_max = config.metrics_otel_cardinality_limit
        self._groups = GroupMetrics(self._java, service, clock, self._series_max)
        self._delivery = DeliveryMetrics(self._java, self._own, service, self._series_max)

    def collect(self) -> Iterator[Metric]:
        """Yield every figure there is now, large families in parts."""
        yield from self._of_messages()
        yield from self._of_topics()
        yield from self._groups.collect()
        yield from self._of_dead_letters()
        yield from self._of_clients()
        yield from self._of_storage()
        yield from self._of_store()
        yield from self._of_files()
        yield from self._of_index()
        yield from self._of_retention()
        yield from self._of_recovery()
        yield from self._delivery.collect()
        yield from self._of_broker()
        yield from self._left_out()
        yield from self._server_metrics.requests()
        yield from self._server_metrics.connections()
        yield from self._server_metrics.process(self._monitor.find_alerts())

    def _of_messages(self) -> Iterator[Metric]:
        stats, own = self._service.monitoring.stats, self._own
        text = "Messages that the topic's queues have had"
        yield from self._java.counters("messages_in", text, ("topic", "is_system"), self._messages_by_topic())
        yield own.counter("messages_sent", "Messages that clients have sent", stats.put_count)
        yield own.counter("pulls_found", "Pulls that found messages", stats.found_count)
        yield own.counter("pulls_missed", "Pulls that found none", stats.miss_count)
        yield self._java.counts(
            "message_size",
            "Sizes of the messages that clients have sent, as they are stored, in bytes",
            [(f"{bound}.0", sum(stats.put_bits[: bits + 1])) for bound, bits in _SIZE_BOUNDS],
            stats.put_count,
            stats.put_size,
        )

    def _of_topics(self) -> Iterator[Metric]:
        """Yield what went in and out since the start."""
        java, stats = self._java, self._service.monitoring.stats
        sent = (
            ((topic, truth(is_system_topic(topic))), flow.size)
            for topic, flow in first_of(stats.puts.all, self._series_max)
        )
        text = "Bytes of the messages that clients have sent"
        yield from java.counters("throughput_in", text, ("topic", "is_system"), sent)
        got = first_of(stats.gets.all, self._series_max)
        labels = ("topic", "consumer_group", "is_retry", "is_system")  # each part takes a hundred of them
        text = "Messages given to consumers"
        yield from java.counters(
            "messages_out", text, labels, ((_reader_labels(*place), flow.count) for place, flow in got)
        )
        text = "Bytes of the messages given to consumers"
        yield from java.counters(
            "throughput_out", text, labels, ((_reader_labels(*place), flow.size) for place, flow in got)
        )

    def _messages_by_topic(self) -> Series:
        store = self._service.store
        max_offset = store.max_offset
        work = SeriesWork()
        for topic, config in first_of(self._service.tables.topics.table.all, self._series_max):
            queues = config.queue_count
            count = sum(max_offset(topic, queue_id) for queue_id in stored_queue_ids(store, topic, queues))
            yield (topic, truth(is_system_topic(topic))), count
            if work.is_a_part_done(queues):
                yield None

    def _dead_letters(self) -> Series:
        store = self._service.store
        max_offset = store.max_offset
        work = SeriesWork()
        for topic, config in first_of(self._service.tables.topics.table.all, self._series_max):
            if topic.startswith(DLQ_PREFIX):
                group = topic.removeprefix(DLQ_PREFIX)
                queues = config.queue_count
                count = sum(max_offset(topic, queue_id) for queue_id in stored_queue_ids(store, topic, queues))
                yield (group, topic, truth(is_system_group(group))), count
            if work.is_a_part_done(1):
                yield None

    def _of_dead_letters(self) -> Iterator[Metric]:
        text = "Messages that a group's dead-letter topic has had"
        labels = ("consumer_group", "topic", "is_system")
        yield from self._java.counters("send_to_dlq_messages", text, labels, self._dead_letters())

    def _of_clients(self) -> Iterator[Metric]:
        java = self._java
        client = ("language", "version", "protocol_type")
        yield from java.gauges("producer_connections", "Producers, by client", client, self._producers())
        labels = ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system")
        yield from java.gauges("consumer_connections", "Consumers, by group and client", labels, self._consumers())

    def _producers(self) -> Series:
        found: dict[tuple[str, str], int] = {}
        work = SeriesWork()
        for _, members in tuple(self._service.clients.members.producers.items()):
            for member in members.values():
                _count(found, (member.language.lower(), version_name(member.version).lower()))
            if work.is_a_part_done(len(members)):
                yield None
        yield from (((*client, "remoting"), count) for client, count in islice(found.items(), self._series_max))

    def _consumers(self) -> Series:
        work = SeriesWork()
        for name, group in first_of(self._service.clients.members.consumers, self._series_max):
            found: dict[tuple[str, str], int] = {}
            for member in group.members.values():
                _count(found, (member.language.lower(), version_name(member.version).lower()))
            mode = group.consume_type.name.lower()
            for client, count in found.items():
                yield (name, *client, mode, "remoting", truth(is_system_group(name))), count
            if work.is_a_part_done(len(group.members)):
                yield None

    def _of_storage(self) -> Iterator[Metric]:
        java, store, disk = self._java, self._service.store, self._monitor.disk

        def gauge(name: str, text: str, value: float) -> Iterator[Metric]:
            return java.gauges(name, text, STORAGE_LABELS, [(STORAGE, value)])

        if disk is not None:
            yield from gauge("storage_size_bytes", "Bytes used of the disk that holds the store", disk.used)
        unsynced = store.max_physical_offset - store.durable_offset
        yield from gauge("storage_flush_behind_bytes", "Bytes of the CommitLog that are not synced yet", unsynced)
        text = "Bytes of the CommitLog that readers do not see yet"
        yield from gauge("storage_dispatch_behind_bytes", text, store.dispatch_behind_size)
        earliest_ms = look(lambda: earliest_message_ms(store))
        if earliest_ms:
            text = "How long ago the first message that is kept was stored, in milliseconds"
            yield from gauge("storage_message_reserve_time_milliseconds", text, self._clock() - earliest_ms)

    def _of_store(self) -> Iterator[Metric]:
        own, store, disk = self._own, self._service.store, self._monitor.disk
        kinds = {issue.kind for issue in store.issues}
        text = "1 while something is wrong with the store, by kind; `orbitmq health` says why"
        yield from own.gauges("store_trouble", text, ("kind",), [((kind,), kind in kinds) for kind in StoreIssueKind])
        yield own.gauge("store_writable", "1 while messages are taken", store.is_writable)
        yield own.gauge("log_start_offset", "Where the CommitLog begins, in bytes", store.min_physical_offset)
        yield own.gauge("log_durable_offset", "Up to where it is on the disk", store.durable_offset)
        yield own.gauge("log_end_offset", "Where it ends", store.max_physical_offset)
        behind = [((slave,), size) for slave, size in self._service.slave_listener.bytes_behind().items()]
        yield from own.gauges("slave_behind_bytes", "How far a slave's log is behind, in bytes", ("slave",), behind)
        members = self._service.slave_listener.members
        yield own.gauge("members_missing", "Members of the group that controllers do not hear", len(members.missing))
        text = "How many more members must be there, while one is missing"
        yield own.gauge("members_lacking", text, members.lacking)
        text = "Bytes of consume-queue entries that wait in memory for their files"
        yield own.gauge("queue_entries_unsynced_bytes", text, store.entries_size)
        yield own.histogram("sync_seconds", "How long the flusher's syncs took", store.sync_s)
        if disk is not None:
            yield own.gauge("disk_size_bytes", "Size of the disk that holds the store", disk.total)
            yield own.gauge("disk_free_bytes", "Bytes of it that are free", disk.free)
            yield own.gauge("disk_used_ratio", "Share of it that is used, 0 to 1", disk.used_ratio)
        ratio = self._service.config.disk_space_clean_forcibly_ratio / 100
        yield own.gauge("disk_used_ratio_max", "Above it messages go before their time", ratio)

    def _of_files(self) -> Iterator[Metric]:
        own, files = self._own, self._service.store.open_files
        yield own.gauge("store_descriptors", "Descriptors that the store's open files take", files.descriptors)
        yield own.gauge("store_descriptors_max", "How many they may take", files.descriptors_max)
        yield own.gauge("store_maps", "Memory maps that they take", files.maps)
        yield own.gauge("maps_max", "Memory maps that the system allows a process", allowed_maps())
        yield own.counter("store_files_evicted", "Files that were closed to make room for others", files.evicted_count)

    def _of_index(self) -> Iterator[Metric]:
        own, index = self._own, self._service.store.index
        text = "Bytes of the CommitLog whose keys are not in the index yet"
        yield own.gauge("index_behind_bytes", text, 0 if index is None else index.behind)
        yield own.gauge("index_files", "Index files", 0 if index is None else index.file_count)

    def _of_retention(self) -> Iterator[Metric]:
        own, retention = self._own, self._service.store.retention
        yield own.counter("deleted_segments", "Files of the CommitLog that were deleted", retention.deleted_segments)
        yield own.counter("deleted_bytes", "Bytes of them", retention.deleted_bytes)
        yield own.counter("deleted_queue_files", "Files of consume queues that were", retention.deleted_queue_files)

    def _of_recovery(self) -> Iterator[Metric]:
        own, store, recovery_report = self._own, self._service.store, self._service.store.recovery_report
        yield own.gauge("recovery_cut_bytes", "Bytes that the last start has cut off the log", recovery_report.cut_size)
        yield own.gauge("recovery_lost_bytes", "Bytes that the last start went on without", recovery_report.lost_size)
        text = "Records that the last start found to be in no consume queue"
        yield own.gauge("recovery_unplaced_records", text, recovery_report.unplaced_count)
        yield own.gauge(
            "recovery_rebuilt_queues", "Consume queues that the last start rebuilt", len(recovery_report.rebuilt)
        )
        yield own.gauge("quarantine_bytes", "Bytes that were cut off the log and are kept", store.quarantine_size)

    def _of_broker(self) -> Iterator[Metric]:
        java, own, service = self._java, self._own, self._service
        yield java.gauge("broker_permission", "2: may be written, 4: may be read", service.config.broker_permission)
        yield own.gauge("is_master", "1 for a master, 0 for a slave: one of a name is a master", service.is_master)
        yield java.gauge("topic_number", "Topics", len(service.tables.topics.table.all))
        yield java.gauge(
            "consumer_group_number", "Consumer groups with settings", len(service.tables.groups.configs.all)
        )
        for name, creations in (
            ("topic", service.monitoring.topic_creations),
            ("consumer_group", service.monitoring.group_creations),
        ):
            times = (((end,), found) for end, found in creations.times_ms.items())
            text = "How long it took to make what administrators asked for, in ms"
            name = f"{name}_create_execution_time_milliseconds"
            yield from java.histograms(name, text, ("invocation_status",), times)
        name_servers = self._registrar.name_servers
        yield own.gauge("name_servers", "NameServers that are to know this broker", len(name_servers))
        yield own.gauge("name_servers_reached", "Those that do", len(self._registrar.told))
        denials = {} if service.access.guard is None else service.access.guard.denials
        denied = [((missing,), denials.get(missing, 0)) for missing in DENIALS]
        text = "Requests that users and rules refused, by what was missing"
        yield from own.counters("access_denials", text, ("missing",), denied)
        refused = [((name,), count) for name, count in limit_refusals(service, self._server.counters).items()]
        text = "What a limit has refused, by its setting"
        yield from own.counters("limit_refusals", text, ("setting",), refused)

    def _left_out(self) -> Iterator[Metric]:
        service = self._service
        tables: dict[str, Mapping[Any, Any]] = {
            "rocketmq_messages_in_total": service.tables.topics.table.all,
            "rocketmq_consumer_lag_messages": service.tables.offsets.all,
            "rocketmq_messages_out_total": service.monitoring.stats.gets.all,
            "rocketmq_consumer_connections": service.clients.members.consumers,
        }
        left = [((name,), max(0, len(table) - self._series_max)) for name, table in tables.items()]
        text = "Series that metricsOtelCardinalityLimit leaves out"
        yield from self._own.gauges("series_left_out", text, ("metric",), left)


def _count(found: dict[tuple[str, str], int], client: tuple[str, str]) -> None:
    found[client] = found.get(client, 0) + 1


def _reader_labels(topic: str, group: str) -> tuple[str, ...]:
    is_system = is_system_topic(topic) or is_system_group(group)
    return topic, group, truth(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), truth(is_system)
