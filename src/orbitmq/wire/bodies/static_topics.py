"""The mapping of a static topic's logical queues: as mqadmin sends it, as files keep it, and as NameServers are told.

Source: Java TopicQueueMappingDetail, TopicQueueMappingInfo, TopicQueueMappingSerializeWrapper, TopicConfigAndQueueMapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from orbitmq.model.static_topic import GLOBAL_SCOPE, MappingItem, QueueMapping
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import int32, number, parse_body, text
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version, topic_document
from orbitmq.wire.bodies.topics import TopicTable

ITEMS_MAX = 1_024
"""Ours: items of one logical queue."""


class MappingTable(NamedTuple):
    """The mappings of a broker by topic, and their version: the content of topicQueueMapping.json."""

    data_version: DataVersion
    mappings: Mapping[str, QueueMapping]


def encode_mapping(mapping: QueueMapping) -> bytes:
    """Encode one mapping, as the body of UPDATE_AND_CREATE_STATIC_TOPIC has it."""
    return fastjson.dumps_loose(mapping_document(mapping))


def decode_mapping(body: bytes, *, size_max: int = 0) -> QueueMapping:
    """Decode one mapping.

    Raises:
        HeaderError: the body is none, or larger than `size_max`.
    """
    return parse_body("static topic mapping", body, _parse_mapping, size_max=size_max)


def encode_mapping_table(table: MappingTable) -> bytes:
    """Encode topicQueueMapping.json."""
    return fastjson.dumps_loose(
        {
            "dataVersion": data_version_document(table.data_version),
            "topicQueueMappingInfoMap": _documents(table.mappings),
        }
    )


def decode_mapping_table(body: bytes) -> MappingTable:
    """Decode topicQueueMapping.json.

    Raises:
        HeaderError: not such a file.
    """
    return parse_body("static topic mappings", body, _parse_table)


def encode_topic_and_mapping_table(topics: TopicTable, mappings: MappingTable) -> bytes:
    """Encode the answer to GET_ALL_TOPIC_CONFIG of a broker with static topics."""
    return fastjson.dumps_loose(
        {
            "dataVersion": data_version_document(topics.data_version),
            "mappingDataVersion": data_version_document(mappings.data_version),
            "topicConfigTable": {name: topic_document(config) for name, config in topics.topics.items()},
            "topicQueueMappingDetailMap": _documents(mappings.mappings),
            "topicQueueMappingInfoMap": {},
        }
    )


def encode_topic_and_mapping(config: TopicConfig, mapping: QueueMapping) -> bytes:
    """Encode the answer to GET_TOPIC_CONFIG of a static topic."""
    return fastjson.dumps_loose({"mappingDetail": mapping_document(mapping), **topic_document(config)})


def mapping_document(mapping: QueueMapping) -> dict[str, Any]:
    """Return the JSON object of a mapping, as `fastjson.dumps_loose` takes it."""
    return {
        "bname": mapping.broker_name,
        "currIdMap": {},
        "dirty": mapping.is_dirty,
        "epoch": mapping.epoch,
        "hostedQueues": {
            queue_id: [_item_document(item) for item in items] for queue_id, items in mapping.queues.items()
        },
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.queue_count,
    }


def info_document(mapping: QueueMapping) -> dict[str, Any]:
    """Return what NameServers are told of a mapping: which logical queues the broker leads."""
    return {
        "bname": mapping.broker_name,
        "currIdMap": {str(queue_id): own for queue_id, own in mapping.led.items()},
        "dirty": mapping.is_dirty,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.queue_count,
    }


def _documents(mappings: Mapping[str, QueueMapping]) -> dict[str, Any]:
    return {topic: mapping_document(mapping) for topic, mapping in mappings.items()}


def _item_document(item: MappingItem) -> dict[str, Any]:
    return {
        "bname": item.broker_name,
        "endOffset": item.end_offset,
        "gen": item.generation,
        "logicOffset": item.logic_offset,
        "queueId": item.queue_id,
        "startOffset": item.start_offset,
        "timeOfEnd": item.ended_at_ms,
        "timeOfStart": item.started_at_ms,
    }


def _parse_table(document: dict[str, Any]) -> MappingTable:
    found = document.get("topicQueueMappingInfoMap") or {}
    return MappingTable(
        parse_data_version(document.get("dataVersion") or {}),
        {topic: _parse_mapping(mapping) for topic, mapping in found.items()},
    )


def _parse_mapping(document: dict[str, Any]) -> QueueMapping:
    queues = document.get("hostedQueues") or {}
    return QueueMapping(
        topic=text(document["topic"]),
        broker_name=text(document["bname"]),
        queue_count=int32(document.get("totalQueues", 0)),
        epoch=number(document.get("epoch", 0)),
        scope=text(document.get("scope") or GLOBAL_SCOPE),
        is_dirty=bool(document.get("dirty")),
        queues={int32(queue_id): _parse_items(items) for queue_id, items in queues.items()},
    )


def _parse_items(items: Any) -> tuple[MappingItem, ...]:
    if not isinstance(items, list) or len(items) > ITEMS_MAX:
        raise ValueError(f"hostedQueues: a list of at most {ITEMS_MAX} items is expected for each queue")
    return tuple(map(_parse_item, items))


def _parse_item(document: dict[str, Any]) -> MappingItem:
    return MappingItem(
        int32(document.get("gen", 0)),
        int32(document.get("queueId", 0)),
        text(document["bname"]),
        number(document.get("logicOffset", 0)),
        number(document.get("startOffset", 0)),
        number(document.get("endOffset", -1)),
        number(document.get("timeOfStart", -1)),
        number(document.get("timeOfEnd", -1)),
    )
