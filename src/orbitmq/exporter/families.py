"""Metric families of a collection: rocketmq-exporter's names and labels, and those that brokers of 5.x have. Pure.

Where brokers show metrics themselves, both have the same names: an alert or a dashboard for the one holds for the other.

Source: Java RMQMetricsCollector (apache/rocketmq-exporter); Java BrokerMetricsConstant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orbitmq.exporter.collection import BrokerValues, Collection, GroupValues, ReaderKey
from orbitmq.exporter.runtime_values import NAMES, number_of, numbers
from orbitmq.model.group import MessageModel
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_reserved_topic
from orbitmq.wire.bodies.stats import BrokerStatsItem

_BROKER = ("cluster", "brokerIP", "broker")
_TOPIC = ("cluster", "broker", "topic")
_READER = ("cluster", "broker", "topic", "group")
_GROUP = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_RUNTIME = ("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version")
_NODE = ("cluster", "node_type", "node_id")
_NODE_READER = (*_NODE, "consumer_group", "topic", "is_retry", "is_system")
_STORAGE = (*_NODE, "storage_type", "storage_medium")
_MODELS = {MessageModel.BROADCASTING: "0", MessageModel.CLUSTERING: "1"}
"""Java's ordinals."""

Labels = tuple[str, ...]


class Family(NamedTuple):
    """Gauges of one name.

    Args:
        name: without `rocketmq_`.
        series: the labels' values, and the gauge's value.
    """

    name: str
    text: str
    labels: Labels
    series: tuple[tuple[Labels, float], ...]


def families(found: Collection) -> Iterator[Family]:
    """Yield every family of a collection; one without series, too: it says which names there are."""
    yield from _of_cluster(found)
    yield from _of_brokers(found)
    yield from _of_topics(found)
    yield from _of_groups(found)
    yield from _of_readers(found)
    yield from _of_runtime(found)
    yield from _of_nodes(found)
    yield from _of_nodes_readers(found)


def _of_cluster(found: Collection) -> Iterator[Family]:
    labels = (*_BROKER, "role")
    up = (
        ((key.cluster, key.address, key.broker, "master" if key.is_master else "slave"), float(key in found.brokers))
        for key in found.known
    )
    text = "1 for a broker that NameServers name and that answered, 0 for one that did not"
    yield _family("broker_up", text, labels, up)
    led = {(key.cluster, key.broker) for key in found.known if key.is_master}
    names = sorted({(key.cluster, key.broker) for key in found.known})
    missing = ((name, float(name not in led)) for name in names)
    text = "1 for a broker name that has no master at NameServers, else 0"
    yield _family("broker_without_master", text, ("cluster", "broker"), missing)


def _of_brokers(found: Collection) -> Iterator[Family]:
    def series(get: str) -> Iterator[tuple[Labels, float]]:
        for key, values in found.brokers.items():
            item: BrokerStatsItem | None = getattr(values, get)
            if item is not None:
                yield (key.cluster, key.address, key.broker), item.rate

    yield _family("broker_tps", "Messages that a master took per second, of the last minute", _BROKER, series("put"))
    yield _family("broker_qps", "Messages that a master gave per second, of the last minute", _BROKER, series("got"))
    text = "How far a slave's CommitLog is behind its master's, in bytes; brokerIP is the slave's"
    yield _family("broker_commitlog_diff", text, _BROKER, _behind(found))
    producers = (
        ((key.cluster, key.broker, group), float(count))
        for key, values in found.brokers.items()
        for group, count in values.producers.items()
    )
    text = "Producers of a group that are connected to a master"
    yield _family("producer_count", text, ("cluster", "broker", "group"), producers)


def _behind(found: Collection) -> Iterator[tuple[Labels, float]]:
    ends = {
        (key.cluster, key.broker): number_of(values.runtime.get("commitLogMaxOffset"))
        for key, values in found.brokers.items()
        if key.is_master
    }
    for key, values in found.brokers.items():
        end, own = ends.get((key.cluster, key.broker)), number_of(values.runtime.get("commitLogMaxOffset"))
        if not key.is_master and end is not None and own is not None:
            yield (key.cluster, key.address, key.broker), end - own


def _of_topics(found: Collection) -> Iterator[Family]:
    offsets: dict[str, list[tuple[Labels, float]]] = {"": [], RETRY_PREFIX: [], DLQ_PREFIX: []}
    for key, values in found.topics.items():
        prefix = _prefix(key.topic)
        last = key.topic.removeprefix(DLQ_PREFIX) if prefix == DLQ_PREFIX else key.topic
        offsets[prefix].append(((key.cluster, key.broker, last), float(values.end)))
    yield _family("producer_offset", "Messages that a topic's queues have had", _TOPIC, offsets[""])
    yield _family("topic_retry_offset", "Messages that a retry topic has had", _TOPIC, offsets[RETRY_PREFIX])
    text = "Messages that a group's dead-letter topic has had"
    yield _family("topic_dlq_offset", text, ("cluster", "broker", "group"), offsets[DLQ_PREFIX])
    sent = [(key, values) for key, values in found.topics.items() if not _prefix(key.topic)]
    rates = ((tuple(key), values.put.rate) for key, values in sent if values.put is not None)
    yield _family("producer_tps", "Messages that came to a topic per second, of the last minute", _TOPIC, rates)
    sizes = ((tuple(key), values.put_size.rate) for key, values in sent if values.put_size is not None)
    yield _family("producer_message_size", "Bytes that came to a topic per second", _TOPIC, sizes)


def _of_groups(found: Collection) -> Iterator[Family]:
    lags: dict[tuple[str, str], int] = defaultdict(int)
    for reader, values in found.readers.items():
        lags[reader.group, reader.topic] += values.lag
    dead: dict[str, int] = defaultdict(int)
    for topic, held in found.topics.items():
        if topic.topic.startswith(DLQ_PREFIX):
            dead[topic.topic.removeprefix(DLQ_PREFIX)] += held.end - held.begin
    nothing = GroupValues()

    def labels(group: str, topic: str) -> Labels:
        values = found.groups.get(group, nothing)
        return group, topic, str(len(values.clients)), _MODELS[values.message_model]

    counted = [
        (labels(group, topic), float(lag), _prefix(topic) == RETRY_PREFIX)
        for (group, topic), lag in lags.items()
        if found.groups.get(group, nothing).message_model is MessageModel.CLUSTERING
    ]
    if found.silent:  # a sum without a broker's part is wrong: the series have a gap
        counted.clear()
        dead.clear()
    text = "Messages of a topic that a group has not consumed yet"
    yield _family("group_diff", text, _GROUP, ((values, lag) for values, lag, is_retry in counted if not is_retry))
    text = "Messages that wait to be delivered to a group again"
    yield _family("group_retrydiff", text, _GROUP, ((values, lag) for values, lag, is_retry in counted if is_retry))
    text = "Messages in a group's dead-letter topic"
    letters = ((labels(group, DLQ_PREFIX + group), float(count)) for group, count in dead.items())
    yield _family("group_dlqdiff", text, _GROUP, letters)
    clients = (
        (
            (
                ",".join(client.address for client in values.clients),
                ",".join(client.client_id for client in values.clients),
                group,
            ),
            float(len(values.clients)),
        )
        for group, values in found.groups.items()
        if not found.silent
    )
    text = "Consumers of a group that are online"
    yield _family("group_count", text, ("caddr", "localaddr", "group"), clients)


def _of_readers(found: Collection) -> Iterator[Family]:
    readers = [(key, values) for key, values in found.readers.items()]
    rates = ((tuple(key), values.got.rate) for key, values in readers if values.got is not None)
    yield _family("consumer_tps", "Messages that a group got per second, of the last minute", _READER, rates)
    sizes = ((tuple(key), values.got_size.rate) for key, values in readers if values.got_size is not None)
    yield _family("consumer_message_size", "Bytes that a group got per second", _READER, sizes)
    offsets = ((tuple(key), float(values.committed)) for key, values in readers)
    yield _family("consumer_offset", "Messages of a topic that a group has passed", _READER, offsets)
    back = ((tuple(key), float(values.sent_back.sum)) for key, values in readers if values.sent_back is not None)
    text = "Messages that a group's consumers sent back in the last minute"
    yield _family("send_back_nums", text, _READER, back)
    ages = ((tuple(key), age) for key, age in _ages(found))
    text = "How long ago the first message was stored that a group has not consumed, in ms"
    yield _family("group_get_latency_by_storetime", text, _READER, ages)


def _ages(found: Collection) -> Iterator[tuple[ReaderKey, float]]:
    for key, values in found.readers.items():
        if values.waiting_since_ms is not None:
            yield key, float(max(0, found.at_ms - values.waiting_since_ms) if values.waiting_since_ms else 0)


def _of_runtime(found: Collection) -> Iterator[Family]:
    series: dict[str, list[tuple[Labels, float]]] = {name: [] for name in NAMES}
    for key, values in found.brokers.items():
        if not key.is_master:
            continue
        told = values.runtime
        labels = (
            key.cluster,
            key.address,
            "",  # as rocketmq-exporter leaves it
            told.get("brokerVersionDesc", ""),
            told.get("bootTimestamp", ""),
            told.get("brokerVersion", ""),
        )
        for name, number in numbers(told):
            series[name].append((labels, number))
    for name, found_series in series.items():
        yield _family(f"brokeruntime_{name}", f"A master's run-time value {name}", _RUNTIME, found_series)


def _of_nodes(found: Collection) -> Iterator[Family]:
    masters = [(key, values) for key, values in found.brokers.items() if key.is_master]

    def counts(get: str) -> Iterator[tuple[Labels, float]]:
        for key, values in masters:
            count: int | None = getattr(values, get)
            if count is not None:
                yield _node(key.cluster, key.broker), float(count)

    yield _family("topic_number", "Topics", _NODE, counts("topic_count"))
    yield _family("consumer_group_number", "Consumer groups with settings", _NODE, counts("group_count"))
    told: dict[str, list[tuple[Labels, float]]] = {name: [] for name, _ in _STORED}
    for key, values in masters:
        for name, number in _storage(found, values):
            told[name].append(((*_node(key.cluster, key.broker), "local", "disk"), number))
    for name, text in _STORED:
        yield _family(name, text, _STORAGE, told[name])


_STORED = (
    ("storage_size_bytes", "Bytes used of the disk that holds the CommitLog"),
    ("storage_flush_behind_bytes", "Bytes of the CommitLog that are not synced yet"),
    ("storage_dispatch_behind_bytes", "Bytes of the CommitLog that readers do not see yet"),
    (
        "storage_message_reserve_time_milliseconds",
        "How long ago the first message that is kept was stored, in milliseconds",
    ),
)


def _storage(found: Collection, values: BrokerValues) -> Iterator[tuple[str, float]]:
    told = dict(numbers(values.runtime))
    if "commitlogdir_capacity_total" in told and "commitlogdir_capacity_free" in told:
        yield "storage_size_bytes", told["commitlogdir_capacity_total"] - told["commitlogdir_capacity_free"]
    if "remain_howmanydata_toflush" in told:
        yield "storage_flush_behind_bytes", told["remain_howmanydata_toflush"]
    if "dispatch_behind_bytes" in told:
        yield "storage_dispatch_behind_bytes", told["dispatch_behind_bytes"]
    if (earliest_ms := told.get("earliest_message_timestamp", 0)) > 0:
        yield "storage_message_reserve_time_milliseconds", max(0.0, found.at_ms - earliest_ms)


def _of_nodes_readers(found: Collection) -> Iterator[Family]:
    readers = [(_node_reader(key), values) for key, values in found.readers.items()]

    def gauge(name: str, text: str, get: str) -> Family:
        return _family(name, text, _NODE_READER, ((labels, float(getattr(values, get))) for labels, values in readers))

    yield gauge("consumer_lag_messages", "Messages that a group has not consumed yet, by its committed offsets", "lag")
    text = "Messages that a group's consumers have got and not committed"
    yield gauge("consumer_inflight_messages", text, "in_flight")
    ready = ((labels, float(values.lag - values.in_flight)) for labels, values in readers)
    text = "Messages that none of a group's consumers has got yet"
    yield _family("consumer_ready_messages", text, _NODE_READER, ready)
    ages = ((_node_reader(key), age) for key, age in _ages(found))
    text = "How long ago the first message was stored that a group has not consumed, in ms"
    yield _family("consumer_lag_latency_milliseconds", text, _NODE_READER, ages)


def _node(cluster: str, broker: str) -> Labels:
    return cluster, "broker", broker


def _node_reader(key: ReaderKey) -> Labels:
    is_retry = "true" if _prefix(key.topic) else "false"
    is_system = "true" if is_reserved_topic(key.topic) else "false"
    return (*_node(key.cluster, key.broker), key.group, key.topic, is_retry, is_system)


def _prefix(topic: str) -> str:
    return next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if topic.startswith(prefix)), "")


def _family(name: str, text: str, labels: Labels, series: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, text, labels, tuple(series))
