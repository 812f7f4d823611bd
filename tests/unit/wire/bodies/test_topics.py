"""Lists and tables of topics, and the offsets of their queues."""

from __future__ import annotations

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire.bodies import topics


def test_stats_keyed_by_queues_round_trip():
    queue = MessageQueue("t", "a", 3)
    assert topics.decode_topic_stats(topics.encode_topic_stats({queue: topics.QueueStats(1, 2, 3)})) == {
        queue: topics.QueueStats(1, 2, 3)
    }
    progress = {queue: topics.QueueProgress(9, 4, 5, 6)}
    assert topics.decode_consume_stats(topics.encode_consume_stats(progress)) == progress


def test_a_table_round_trips_with_all_that_a_topic_has():
    config = TopicConfig(
        topic="t", read_queue_count=1, write_queue_count=2, perm=4, topic_filter_type="MULTI_TAG", topic_sys_flag=3,
        order=True, attributes={"a": "b"},
    )  # fmt: skip
    table = topics.TopicTable(DataVersion(0, 1, 2), {"t": config})
    assert topics.decode_topic_table(topics.encode_topic_table(table)) == table
    assert topics.decode_topic_config(topics.encode_topic_config(config)) == config


def test_a_table_for_a_file_has_lines_and_one_for_a_peer_has_none():
    table = topics.TopicTable(DataVersion(), {})
    for_file = b"".join(topics.topic_table_parts(table, pretty=True))
    assert for_file.count(b"\n") > 1
    assert topics.encode_topic_table(table).count(b"\n") == 0
    assert topics.decode_topic_table(for_file) == table


def test_a_topic_of_which_only_the_name_is_written_has_javas_defaults():
    (found,) = topics.decode_topic_table(b'{"topicConfigTable":{"t":{}}}').topics.values()
    assert (found.topic, found.read_queue_count, found.write_queue_count, found.perm) == ("t", 16, 16, 6)
    assert (found.topic_filter_type, found.topic_sys_flag, found.order, found.attributes) == (
        "SINGLE_TAG",
        0,
        False,
        {},
    )


def test_a_table_without_version_and_topics_is_empty():
    assert topics.decode_topic_table(b"{}") == (DataVersion(0, 0, 0), {})


@each_case("h:1", None)
def test_a_list_names_a_broker_or_none(address):
    body = topics.encode_topic_list(["x"], address)
    assert ("brokerAddr" in orjson.loads(body)) is (address is not None)
    assert topics.decode_topic_list(body) == (("x",), address)


def test_a_list_that_is_left_out_is_empty():
    assert topics.decode_topic_list(b"{}") == ((), None)


def test_keys_that_are_the_text_of_an_object_are_read_and_others_say_what_is_expected():
    """rocketmq-rust 1.0.0 writes them."""
    table = orjson.dumps(
        {"offsetTable": {'{"brokerName":"a","queueId":3,"topic":"t"}': {"minOffset": 1, "maxOffset": 2}}}
    )
    assert topics.decode_topic_stats(table) == {MessageQueue("t", "a", 3): topics.QueueStats(1, 2, 0)}
    with pytest.raises(HeaderError, match="topic stats: a key of the table is 'x', expected an object with topic"):
        topics.decode_topic_stats(b'{"offsetTable":{"x":{}}}')


def test_times_and_pull_offsets_that_older_peers_leave_out_are_zero():
    queue = b'{"brokerName":"a","queueId":3,"topic":"t"}'
    stats = b'{"offsetTable":{%b:{"minOffset":1,"maxOffset":2}}}' % queue
    assert topics.decode_topic_stats(stats) == {MessageQueue("t", "a", 3): topics.QueueStats(1, 2, 0)}
    progress = b'{"offsetTable":{%b:{"brokerOffset":9,"consumerOffset":4}}}' % queue
    assert topics.decode_consume_stats(progress) == {MessageQueue("t", "a", 3): topics.QueueProgress(9, 4, 0, 0)}


def test_rates_are_zero_where_they_are_not_measured():
    assert b'"topicPutTps":0.0' in topics.encode_topic_stats({})
    assert b'"consumeTps":0.0' in topics.encode_consume_stats({})
    assert b'"topicPutTps":2.5' in topics.encode_topic_stats({}, 2.5)
    assert b'"consumeTps":2.5' in topics.encode_consume_stats({}, 2.5)
    assert topics.decode_consume_rate(topics.encode_consume_stats({}, 2.5)) == 2.5
    assert topics.decode_consume_rate(b"{}") == 0.0


@each_case(
    (topics.decode_topic_list, "topic list"),
    (topics.decode_topic_table, "topic table"),
    (topics.decode_topic_config, "topic configuration"),
    (topics.decode_topic_stats, "topic stats"),
    (topics.decode_consume_stats, "consume stats"),
)
def test_a_body_that_is_none_is_refused_by_name(decode, named):
    with pytest.raises(HeaderError, match=named):
        decode(b"[]")


@each_case(
    *(("topicFilterType", value, "text is expected") for value in (False, 0, [], {})),
    *(("attributes", value, "an object is expected") for value in (False, 0, [], "")),
    *(
        (name, value, "32-bit")
        for name in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")
        for value in (2**31, -(2**31) - 1, str(2**31))
    ),
)
def test_a_topics_field_that_java_could_not_read_is_refused(name: str, value: object, told: str) -> None:
    asked = {"topicConfigList": [{"topicName": "t", name: value}]}
    with pytest.raises(HeaderError, match=told):
        topics.decode_topic_configs(orjson.dumps(asked))
