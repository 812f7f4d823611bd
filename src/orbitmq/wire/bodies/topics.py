"""Lists of topics, tables of topic configurations, and the offsets that belong to them.

Source: Java TopicList, TopicConfigSerializeWrapper, TopicStatsTable, ConsumeStats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, table_parts, text
from orbitmq.wire.bodies.heartbeat import parse_queue_key, queue_document, subscription_document
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version, parse_topic, topic_document


class TopicList(NamedTuple):
    """Topic names, and the address of a broker where the answer names one."""

    topics: tuple[str, ...]
    broker_address: str | None = None


def encode_topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    """Encode a list of topics."""
    document: dict[str, Any] = {} if broker_address is None else {"brokerAddr": broker_address}
    document["topicList"] = list(topics)
    return orjson.dumps(document)


def decode_topic_list(body: bytes) -> TopicList:
    """Decode a list of topics."""
    return parse_body(
        "topic list",
        body,
        lambda document: TopicList(tuple(map(text, document.get("topicList") or ())), document.get("brokerAddr")),
    )


class TopicTable(NamedTuple):
    """A broker's topics and their version; the content of topics.json too."""

    data_version: DataVersion
    topics: Mapping[str, TopicConfig]


def topic_table_parts(table: TopicTable, *, pretty: bool = False) -> Iterator[bytes]:
    """Encode a topic table in parts, for GET_ALL_TOPIC_CONFIG or for topics.json (pretty)."""
    document = {"dataVersion": data_version_document(table.data_version)}
    topics = ((name, topic_document(config)) for name, config in table.topics.items())
    return table_parts(document, "topicConfigTable", topics, pretty=pretty)


def encode_topic_table(table: TopicTable) -> bytes:
    """Encode a topic table."""
    return b"".join(topic_table_parts(table))


def decode_topic_table(body: bytes) -> TopicTable:
    """Decode a topic table."""
    return parse_body("topic table", body, _parse_topic_table)


def encode_topic_config(config: TopicConfig) -> bytes:
    """Encode one topic's configuration (GET_TOPIC_CONFIG)."""
    return orjson.dumps(topic_document(config))


def decode_topic_config(body: bytes) -> TopicConfig:
    """Decode one topic's configuration."""
    return parse_body("topic configuration", body, parse_topic)


def encode_topic_configs(configs: Iterable[TopicConfig]) -> bytes:
    """Encode the body of UPDATE_AND_CREATE_TOPIC_LIST."""
    return orjson.dumps({"topicConfigList": [topic_document(config) for config in configs]})


def decode_topic_configs(body: bytes, *, size_max: int = 0) -> tuple[TopicConfig, ...]:
    """Decode the body of UPDATE_AND_CREATE_TOPIC_LIST.

    Raises:
        HeaderError: the body is none, or larger than `size_max`.
    """
    return parse_body(
        "topic list",
        body,
        lambda document: tuple(map(_parse_new_topic, items(document["topicConfigList"]))),
        size_max=size_max,
    )


def _parse_new_topic(document: Mapping[str, Any]) -> TopicConfig:
    boolean(document.get("order", False))  # registrations, which are read by parse_topic too, are taken as they come
    if (filter_type := document.get("topicFilterType")) is not None:
        text(filter_type)
    if not isinstance(attributes := document.get("attributes"), dict | None):
        raise TypeError(f"attributes: an object is expected, not {attributes!r:.80}")
    return parse_topic(document)


class QueueStats(NamedTuple):
    """Where a queue begins and ends, and when it last grew (0: unknown)."""

    min_offset: int
    max_offset: int
    updated_at_ms: int = 0


def encode_topic_stats(stats: Mapping[MessageQueue, QueueStats], put_rate: float = 0.0) -> bytes:
    """Encode the answer to GET_TOPIC_STATS_INFO, whose map is keyed by objects."""
    offsets = {
        _key(queue): {
            "lastUpdateTimestamp": found.updated_at_ms,
            "maxOffset": found.max_offset,
            "minOffset": found.min_offset,
        }
        for queue, found in stats.items()
    }
    return fastjson.dumps_loose({"offsetTable": offsets, "topicPutTps": put_rate})


def decode_topic_stats(body: bytes) -> dict[MessageQueue, QueueStats]:
    """Decode the answer to GET_TOPIC_STATS_INFO."""
    return parse_body(
        "topic stats",
        body,
        lambda document: {
            parse_queue_key(key): QueueStats(
                number(found["minOffset"]), number(found["maxOffset"]), number(found.get("lastUpdateTimestamp", 0))
            )
            for key, found in (document.get("offsetTable") or {}).items()
        },
    )


class QueueProgress(NamedTuple):
    """A group's place in one queue."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    consumed_at_ms: int = 0

    @property
    def behind(self) -> int:
        """How many messages the group has still to consume; below 0 where it is past the broker's end."""
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        """How many messages the group has pulled, and not consumed yet."""
        return self.pull_offset - self.consumer_offset


def encode_consume_stats(stats: Mapping[MessageQueue, QueueProgress], consume_rate: float = 0.0) -> bytes:
    """Encode the answer to GET_CONSUME_STATS, whose map is keyed by objects."""
    return fastjson.dumps_loose(consume_stats_document(stats, consume_rate))


def consume_stats_document(stats: Mapping[MessageQueue, QueueProgress], consume_rate: float) -> dict[str, Any]:
    """Return the JSON object of a group's places, as `fastjson.dumps_loose` takes it."""
    offsets = {
        _key(queue): {
            "brokerOffset": found.broker_offset,
            "consumerOffset": found.consumer_offset,
            "lastTimestamp": found.consumed_at_ms,
            "pullOffset": found.pull_offset,
        }
        for queue, found in stats.items()
    }
    return {"consumeTps": consume_rate, "offsetTable": offsets}


def decode_consume_stats(body: bytes) -> dict[MessageQueue, QueueProgress]:
    """Decode the answer to GET_CONSUME_STATS."""
    return parse_body("consume stats", body, parse_consume_stats)


def parse_consume_stats(document: Mapping[str, Any]) -> dict[MessageQueue, QueueProgress]:
    """Build a group's places from their JSON object."""
    return {
        parse_queue_key(key): QueueProgress(
            number(found["brokerOffset"]),
            number(found["consumerOffset"]),
            number(found.get("pullOffset", 0)),
            number(found.get("lastTimestamp", 0)),
        )
        for key, found in (document.get("offsetTable") or {}).items()
    }


def decode_consume_rate(body: bytes) -> float:
    """Decode how many messages a second a group gets, of the answer to GET_CONSUME_STATS."""
    return parse_body("consume stats", body, lambda document: float(document.get("consumeTps") or 0))


def _parse_topic_table(document: dict[str, Any]) -> TopicTable:
    table = document.get("topicConfigTable") or {}
    topics = {name: parse_topic({"topicName": name, **config}) for name, config in table.items()}
    return TopicTable(parse_data_version(document.get("dataVersion") or {}), topics)


def _key(queue: MessageQueue) -> tuple[tuple[str, Any], ...]:
    return tuple(queue_document(queue).items())


class QueueEntry(NamedTuple):
    """An entry of a consume queue: where its message lies in the log, how long it is, and its tag's code."""

    physical_offset: int
    size: int
    tag_code: int


class QueueEntries(NamedTuple):
    """Entries of a consume queue, and what its asker's group subscribes to.

    `filter_data` says that the group is not online.
    """

    entries: tuple[QueueEntry, ...]
    min_offset: int
    max_offset: int
    subscription: Subscription | None = None
    filter_data: str | None = None


def encode_queue_entries(found: QueueEntries) -> bytes:
    """Encode entries of a consume queue (Java: QueryConsumeQueueResponseBody)."""
    document: dict[str, Any] = {} if found.filter_data is None else {"filterData": found.filter_data}
    document |= {
        "maxQueueIndex": found.max_offset,
        "minQueueIndex": found.min_offset,
        "queueData": [
            {"eval": False, "physicOffset": offset, "physicSize": size, "tagsCode": code}
            for offset, size, code in found.entries
        ],
    }
    if found.subscription is not None:
        document["subscriptionData"] = subscription_document(found.subscription)
    return orjson.dumps(document)
