"""Mappings of static topics in Java's JSON."""

from __future__ import annotations

import orjson
import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.static_topic import MappingItem, QueueMapping
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import static_topics
from orbitmq.wire.bodies.topics import TopicTable, decode_topic_config, decode_topic_table

ITEM = MappingItem(1, 2, "a", 10_000, 3, 4, 5, 6)
MAPPING = QueueMapping(
    topic="t", broker_name="a", queue_count=4, epoch=7, scope="s", is_dirty=True, queues={0: (ITEM,), 3: ()}
)
DOCUMENT = {
    "bname": "a", "currIdMap": {}, "dirty": True, "epoch": 7, "scope": "s", "topic": "t", "totalQueues": 4,
    "hostedQueues": {
        "0": [
            {
                "bname": "a", "endOffset": 4, "gen": 1, "logicOffset": 10_000, "queueId": 2, "startOffset": 3,
                "timeOfEnd": 6, "timeOfStart": 5,
            }
        ],
        "3": [],
    },
}  # fmt: skip


def test_a_mapping_has_javas_form() -> None:
    assert fastjson.loads(static_topics.encode_mapping(MAPPING)) == DOCUMENT
    assert b'hostedQueues":{0:[' in static_topics.encode_mapping(MAPPING)
    assert (
        static_topics.decode_mapping(static_topics.encode_mapping(MAPPING))
        == static_topics.decode_mapping(orjson.dumps(DOCUMENT))
        == MAPPING
    )


def test_what_java_leaves_out_has_its_default() -> None:
    found = static_topics.decode_mapping(b'{"topic":"t","bname":"a","hostedQueues":{0:[{"bname":"a"}]}}')
    items = (MappingItem(0, 0, "a", 0, 0, -1, -1, -1),)
    assert found == QueueMapping(topic="t", broker_name="a", queue_count=0, epoch=0, queues={0: items})


@each_case(
    b"[]", b"{}", b'{"topic":1,"bname":"a"}', b'{"topic":"t","bname":"a","totalQueues":4294967296}',
    b'{"topic":"t","bname":"a","hostedQueues":{"x":[]}}', b'{"topic":"t","bname":"a","hostedQueues":{"0":{}}}',
    b'{"topic":"t","bname":"a","hostedQueues":{"0":[%s{}]}}' % (b"{}," * static_topics.ITEMS_MAX),
    b'{"topic":"t","bname":"a","hostedQueues":{"0":[{"bname":null}]}}',
)  # fmt: skip
def test_what_is_no_mapping_is_refused(body: bytes) -> None:
    with pytest.raises(HeaderError, match="static topic mapping"):
        static_topics.decode_mapping(body)


def test_a_mapping_from_any_client_has_a_largest_size() -> None:
    body = static_topics.encode_mapping(MAPPING)
    assert static_topics.decode_mapping(body, size_max=len(body)) == MAPPING
    with pytest.raises(HeaderError, match="limit"):
        static_topics.decode_mapping(body, size_max=len(body) - 1)


def test_the_file_keeps_every_mapping_and_the_version() -> None:
    table = static_topics.MappingTable(DataVersion(1, 2, 3), {"t": MAPPING})
    assert static_topics.decode_mapping_table(static_topics.encode_mapping_table(table)) == table
    assert fastjson.loads(static_topics.encode_mapping_table(table))["topicQueueMappingInfoMap"] == {"t": DOCUMENT}
    assert static_topics.decode_mapping_table(b"{}") == static_topics.MappingTable(DataVersion(), {})


def test_name_servers_are_told_which_queues_the_broker_leads() -> None:
    info = {name: value for name, value in DOCUMENT.items() if name != "hostedQueues"}
    assert static_topics.info_document(MAPPING) == info | {"currIdMap": {"0": 2}}


def test_a_topic_is_shown_with_its_mapping() -> None:
    config = TopicConfig(topic="t", read_queue_count=3)
    body = static_topics.encode_topic_and_mapping(config, MAPPING)
    assert decode_topic_config(body) == config
    assert fastjson.loads(body)["mappingDetail"] == DOCUMENT


def test_all_topics_are_shown_with_their_mappings() -> None:
    topics = TopicTable(DataVersion(0, 1, 2), {"t": TopicConfig(topic="t")})
    body = static_topics.encode_topic_and_mapping_table(
        topics, static_topics.MappingTable(DataVersion(3, 4, 5), {"t": MAPPING})
    )
    assert decode_topic_table(body) == topics
    document = fastjson.loads(body)
    assert document["topicQueueMappingDetailMap"] == {"t": DOCUMENT}
    assert document["mappingDataVersion"]["counter"] == 5


def test_a_mapping_that_mqadmin_sent_is_written_as_it_was() -> None:
    body = golden("513-update-and-create-static-topic-request").body
    found = static_topics.decode_mapping(body)
    assert (found.topic, found.broker_name, found.queue_count, sorted(found.queues)) == (
        "golden-static",
        "broker-a",
        2,
        [0, 1],
    )
    assert fastjson.loads(static_topics.encode_mapping(found)) == fastjson.loads(body)
