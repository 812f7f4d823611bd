"""A table's options, from the question for its columns to the reads and writes that Spark gives none, or refuses."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.spark.options import parse_write_options
from orbitmq.spark.reading.unsupported import UnsupportedStream
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from orbitmq.spark.table_options import for_reading, for_writing, readable, table_options, with_options
from pyspark_rocketmq import DefaultSource

COLUMNS = StructType([StructField("keys", StringType()), StructField("queueId", IntegerType())])
OPTIONS = {"nameserver": "ns:1", "topic": "orders", "startingoffsets": "earliest", "rowids": "false"}


def given(**options: str) -> CaseInsensitiveDict:
    return CaseInsensitiveDict(options)


def test_a_table_is_told_from_a_query_and_from_its_own_properties():
    said = {"option.nameserver": "ns:1", "option.topic": "orders"}
    spark_adds = {"provider": "rocketmq", "owner": "root", "comment": "ours", "nameserver": "ns:1", "topic": "orders"}

    assert table_options(given(**said, **spark_adds)) == {"nameserver": "ns:1", "topic": "orders"}
    assert table_options(given(nameServer="ns:1", topic="orders")) is None


def test_options_travel_with_the_columns_through_json():
    schema = StructType.fromJson(with_options(COLUMNS, OPTIONS).jsonValue())

    assert for_reading({}, schema) == {"nameserver": "ns:1", "topic": "orders", "startingoffsets": "earliest"}
    assert [(field.name, field.dataType) for field in schema] == [(field.name, field.dataType) for field in COLUMNS]


def test_they_are_found_when_columns_were_added_or_moved():
    first, second = with_options(COLUMNS, OPTIONS).fields

    assert for_reading({}, StructType([second, first]))["topic"] == "orders"


def test_what_a_query_says_itself_counts():
    schema = with_options(COLUMNS, OPTIONS)

    assert for_reading({"topic": "returns"}, schema)["topic"] == "returns"


@each_case("nameServer", "commitLogPath")
def test_a_query_that_names_its_place_leaves_a_tables_options_behind(place):
    assert for_reading({place: "there"}, with_options(COLUMNS, OPTIONS)) == {place: "there"}


def test_a_write_says_itself_where_its_rows_go():
    assert for_writing({"nameserver": "ns:1"}) == {"nameserver": "ns:1"}
    with pytest.raises(ConfigError, match=r"a write to a table has options of its own, WITH \(\.\.\.\)"):
        for_writing({"checkpointlocation": "/c"})


def test_kafkas_servers_are_left_to_the_options_which_say_what_their_name_is_here():
    given = {"kafka.bootstrap.servers": "kafka:9092", "topic": "orders"}
    with pytest.raises(ConfigError, match="expected the option nameServer in place of Kafka's"):
        parse_write_options(for_writing(given), streaming=False)


def test_names_of_other_connectors_are_told_apart_as_well():
    assert readable({"subscribe": "orders", "delivery": "exactly-once"}) == {"subscribe": "orders"}


def test_columns_without_options_are_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"nameServer: None is not allowed.*no list of columns"):
        for_reading({}, COLUMNS)


@each_case("initialOffset", "latestOffset", "partitions", "read")
def test_every_question_is_answered_with_what_was_wrong(method):
    error = ConfigError("topic", "a b", "a topic's name")
    arguments = {"partitions": ({}, {}), "read": (None,)}.get(method, ())
    with pytest.raises(ConfigError) as raised:
        getattr(UnsupportedStream(error), method)(*arguments)
    assert raised.value is error


def test_a_stream_of_files_is_refused_by_its_reader_and_not_by_its_making(tmp_path):
    source = DefaultSource({"commitLogPath": str(tmp_path)})
    reader = source.streamReader(spark_schema(COLUMN_NAMES))
    reader.stop()
    with pytest.raises(ConfigError, match="commitLogPath"):
        reader.initialOffset()
