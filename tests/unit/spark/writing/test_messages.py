"""Rows become messages, or are refused before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from cases import each_case
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.model.message import DELAY_MS_MAX
from orbitmq.model.route import MessageQueue
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.schema import COLUMN_NAMES, PROPERTIES, spark_schema
from orbitmq.spark.writing.messages import COLUMNS, KAFKA_COLUMNS, ROW_ID, MessageBuilder, check_columns

OPTIONS = WriteOptions(name_servers=("h:1",), topic="orders")


def messages(columns, options=OPTIONS):
    batch = pa.RecordBatch.from_pydict(columns)
    return list(MessageBuilder(options, "query/7/0").messages(batch))


def schema(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_columns_become_the_parts_of_a_message():
    (message,) = messages(
        {
            "topic": ["bills"],
            "body": [b"x"],
            "tags": ["new"],
            "keys": [["a", "b"]],
            "properties": pa.array([[("p", "q"), ("empty", None)]], PROPERTIES),
            "shardingKey": ["s"],
            "delayLevel": [3],
            "flag": [9],
        }
    )

    assert (message.topic, message.body, message.tag, message.keys) == ("bills", b"x", "new", ("a", "b"))
    assert (message.sharding_key, message.delay_level, message.flag) == ("s", 3, 9)
    assert message.properties == {"p": "q", ROW_ID: "query/7/0/0"}


@each_case(["a\nb", "c\td"], "a\nb  c\td", " a\nb c\td ")
def test_a_key_keeps_every_character_but_blanks(keys):
    (message,) = messages({"body": [b"x"], "keys": [keys]})

    assert tuple(message.keys) == ("a\nb", "c\td")


def test_rows_are_numbered_over_all_batches():
    builder = MessageBuilder(OPTIONS, "q/1/2")
    batch = pa.RecordBatch.from_pydict({"body": ["a", "b"]})
    found = [message.properties[ROW_ID] for _ in range(2) for message in builder.messages(batch)]

    assert found == ["q/1/2/0", "q/1/2/1", "q/1/2/2", "q/1/2/3"]
    assert builder.count == 4


def test_row_ids_may_be_left_out():
    options = WriteOptions(name_servers=("h:1",), topic="orders", row_ids=False)

    assert messages({"body": ["a"]}, options)[0].properties == {}


def test_a_copy_keeps_tags_and_keys_but_not_what_the_system_set():
    properties = [
        [("TAGS", "t"), ("KEYS", "a b"), ("UNIQ_KEY", "F00"), ("own", "1"), (ROW_ID, "old"), ("__SHARDINGKEY", "s")]
    ]
    (message,) = messages({"body": [b"x"], "properties": pa.array(properties, PROPERTIES)})

    assert (message.tag, message.keys, message.sharding_key) == ("t", ("a", "b"), "s")
    assert message.properties == {"own": "1", ROW_ID: "query/7/0/0"}


@each_case(({"body": [None]}, "body"), ({"body": [b"x"], "topic": [None]}, "topic"))
def test_a_row_with_a_null_is_named(columns, missing):
    options = WriteOptions(name_servers=("h:1",))

    with pytest.raises(InvalidArgument, match=f"{missing}.*row query/7/0/0"):
        messages({"topic": ["t"]} | columns, options)


@each_case(
    ("flag", 2**40, "-2147483648 to 2147483647"),
    ("flag", 2**31, "-2147483648 to 2147483647"),
    ("flag", -(2**31) - 1, "-2147483648 to 2147483647"),
    ("delayLevel", 99, "0 to 18"),
    ("delayLevel", 19, "0 to 18"),
    ("delayLevel", -1, "0 to 18"),
    ("delayLevel", 2**40, "0 to 18"),
    ("delayMs", -1, f"0 to {DELAY_MS_MAX}"),
    ("delayMs", DELAY_MS_MAX + 1, f"0 to {DELAY_MS_MAX}"),
)
def test_numbers_that_no_broker_knows_are_refused_with_their_limit_and_row(name, value, limit):
    with pytest.raises(InvalidArgument, match=f"{name}.*{value}.*{limit}.*row query/7/0/1"):
        messages({"body": [b"x", b"y"], name: [0, value]})


def test_brokers_may_have_more_delay_levels():
    options = replace(OPTIONS, delay_level_max=99)

    assert [message.delay_level for message in messages({"body": [b"x"] * 2, "delayLevel": [99, 18]}, options)] == [
        99,
        18,
    ]
    assert [message.flag for message in messages({"body": [b"x"] * 2, "flag": [2**31 - 1, -(2**31)]})] == [
        2**31 - 1,
        -(2**31),
    ]
    with pytest.raises(InvalidArgument, match="0 to 99"):
        messages({"body": [b"x"], "delayLevel": [100]}, options)


LATER = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_row_may_name_its_queue_and_its_time():
    queue = {"brokerName": "a", "queueId": 7}
    found = messages(
        {"body": [b"x"] * 3, "queue": [queue, None, None], "deliverAt": [None, LATER, None], "delayMs": [0, 0, 9]}
    )

    assert [message.queue for message in found] == [MessageQueue("orders", "a", 7), None, None]
    assert [message.deliver_at for message in found] == [None, LATER, None]
    assert [message.delay_ms for message in found] == [0, 0, 9]


@each_case(
    {"delayLevel": [1], "delayMs": [1]},
    {"delayLevel": [1], "deliverAt": [LATER]},
    {"delayMs": [1], "deliverAt": [LATER]},
)
def test_a_row_has_one_time(named):
    told = rf"^{' and '.join(named)}: .* expected one of delayLevel, delayMs and deliverAt; row query/7/0/0"
    with pytest.raises(InvalidArgument, match=told):
        messages({"body": [b"x"]} | named)


@each_case(
    ({"topic": ["a b"]}, "^topic: 'a b'"),
    ({"tags": ["a||b"]}, "^tags: 'a\\|\\|b'"),
    ({"keys": [["a b"]]}, "^keys: 'a b'"),
    ({"keys": [["a\x02b"]]}, r"^keys: 'a\\x02b'"),
    ({"keys": ["k a\x02b"]}, r"^keys: 'a\\x02b'"),
    ({"shardingKey": ["a\x02b"]}, r"^shardingKey: 'a\\x02b'"),
    ({"tags": ["a\x02b"]}, r"^tags: 'a\\x02b'"),
    ({"properties": pa.array([[("p", "a\x02b")]], PROPERTIES)}, r"^properties: .*a\\x02b"),
)
def test_a_value_that_no_message_can_have_is_told_by_its_column_and_row(columns, told):
    with pytest.raises(InvalidArgument, match=rf"{told}.*; row query/7/0/0$"):
        messages({"body": [b"x"]} | columns)


@each_case({"delayLevel": [1]}, {"delayMs": [1]}, {"deliverAt": [LATER]})
def test_a_transaction_has_no_time(named):
    (name,) = named
    once = replace(OPTIONS, exactly_once=True)

    messages({"body": [b"x"]} | {name: pa.array([None], pa.array(named[name]).type)}, once)
    with pytest.raises(InvalidArgument, match=f"{name}.*none with exactly-once.*row query/7/0/0"):
        messages({"body": [b"x"]} | named, once)


@each_case({"brokerName": None, "queueId": 0}, {"brokerName": "a", "queueId": None})
def test_half_a_queue_is_refused(queue):
    fields = pa.struct([("brokerName", pa.string()), ("queueId", pa.int32())])

    with pytest.raises(InvalidArgument, match=r"queue.*a brokerName and a queueId.*row query/7/0/0"):
        messages({"body": [b"x"], "queue": pa.array([queue], fields)})


@each_case(({}, {"TIMER_DELIVER_MS": "5"}), ({"delayMs": [1]}, {}))
def test_the_time_of_a_copy_is_that_of_its_columns(columns, kept):
    properties = pa.array([[("TIMER_DELIVER_MS", "5")]], PROPERTIES)
    options = replace(OPTIONS, row_ids=False)

    (message,) = messages({"body": [b"x"], "properties": properties} | columns, options)
    assert message.properties == kept


def test_what_was_read_may_be_written():
    check_columns(spark_schema(COLUMN_NAMES), WriteOptions(name_servers=("h:1",)))


@each_case(
    (schema(body=BinaryType(), tag=StringType()), "tag.*tags"),
    (schema(tags=StringType()), "body"),
    (schema(body=IntegerType()), "binary or string"),
    (schema(body=BinaryType(), delayLevel=StringType()), "delayLevel"),
    (schema(body=BinaryType(), queue=IntegerType()), "queue of type struct<brokerName:string,queueId:int>"),
    (schema(value=BinaryType()), "body in place of Kafka's"),
    (schema(body=BinaryType(), partition=IntegerType()), "queue in place of Kafka's"),
)
def test_columns_that_make_no_message_are_named(found, told):
    with pytest.raises(ConfigError, match=told):
        check_columns(found, OPTIONS)


def test_what_stands_for_a_column_of_kafkas_connector_is_a_column():
    assert {name for names in KAFKA_COLUMNS.values() for name in names.split(" or ")} <= COLUMNS.keys()
    assert not KAFKA_COLUMNS.keys() & (COLUMNS.keys() | set(COLUMN_NAMES))


def test_a_topic_comes_from_a_column_or_an_option():
    with pytest.raises(ConfigError, match="topic"):
        check_columns(schema(body=BinaryType(), flag=LongType()), WriteOptions(name_servers=("h:1",)))
