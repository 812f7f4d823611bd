"""Topics in SQL: temporary views, tables that CREATE TABLE makes, streams from and into them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from orbitmq import Message
from spark.older import since

pytestmark = pytest.mark.spark


@pytest.fixture
def options(rocketmq_session, topic) -> str:
    return f"OPTIONS (nameServer '{rocketmq_session.name_servers}', topic '{topic}')"


@pytest.fixture
def table(spark, topic, options):
    """Make a table of the test's topic; return its name."""
    name = topic.replace("-", "_")
    spark.sql(f"CREATE TABLE {name} USING rocketmq {options}")
    yield name
    spark.sql(f"DROP TABLE {name}")


def bodies(frame) -> list[str]:
    return sorted(bytes(row.body).decode() for row in frame.select("body").collect())


@pytest.mark.interop
def test_a_temporary_view_is_read_and_written(spark, send, topic, options, read):
    send([Message(topic, b"one", keys=["k1"]), Message(topic, b"two", keys=["k2"])])
    spark.sql(f"CREATE TEMPORARY VIEW orders_view USING rocketmq {options}")

    found = spark.sql("SELECT decode(body, 'UTF-8') AS text FROM orders_view WHERE keys = 'k2'").collect()
    assert [row.text for row in found] == ["two"]
    spark.sql("INSERT INTO orders_view SELECT * FROM orders_view")
    assert bodies(read()) == ["one", "one", "two", "two"]


@since("4.1", "plans a view once")
def test_a_view_and_a_dataframe_keep_to_the_range_of_their_first_use(spark, send, topic, options, read, table):
    send([Message(topic, b"one")])
    spark.sql(f"CREATE TEMPORARY VIEW first_view USING rocketmq {options}")
    frame = read()
    assert frame.count() == spark.table("first_view").count() == spark.table(table).count() == 1

    send([Message(topic, b"two")])

    assert frame.count() == spark.table("first_view").count() == 1  # Spark asks a Python source once for its tasks
    assert spark.table(table).count() == read().count() == 2


@since("4.1", "takes an INSERT that leaves columns out")
def test_a_table_is_read_written_and_kept_by_the_catalog(spark, send, topic, table, options):
    send([Message(topic, b"one", keys=["k1"])])
    to = options.replace("OPTIONS", "WITH").replace(" '", " = '")

    spark.sql(f"INSERT INTO {table} {to} (body, keys) VALUES (binary('two'), 'k2')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'billing')")

    assert bodies(spark.table(table)) == ["one", "two"]
    assert spark.sql(f"SELECT count(*) AS n FROM {table} WITH (subscription = 'no-such-tag')").first().n == 0


@pytest.mark.parametrize("columns", ["*", "* EXCEPT (topic), topic"])
def test_rows_of_one_table_do_not_go_back_to_it_by_mistake(spark, send, topic, table, columns):
    send([Message(topic, b"one")])

    with pytest.raises(AnalysisException, match="a write to a table has options of its own"):
        spark.sql(f"INSERT INTO {table} BY NAME SELECT {columns} FROM {table}")
    with pytest.raises(AnalysisException, match="a write to a table has options of its own"):
        spark.table(table).write.format("rocketmq").mode("append").save()

    assert spark.table(table).count() == 1


@pytest.mark.interop
def test_a_table_is_a_stream_and_a_stream_goes_into_a_table(spark, send, topic, table, rocketmq_session, tmp_path):
    send([Message(topic, b"one"), Message(topic, b"two")])
    stream = spark.readStream.option("startingOffsets", "earliest").table(table).select("body")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer = writer.option("nameServer", rocketmq_session.name_servers).option("topic", topic)

    writer.toTable(table).awaitTermination()

    assert bodies(spark.table(table)) == ["one", "one", "two", "two"]


@since("4.1", "knows STREAM in SQL")
def test_from_stream_reads_a_table_as_a_stream(spark, table):
    assert spark.sql(f"SELECT keys FROM STREAM {table}").isStreaming


def test_a_misspelt_option_of_a_table_is_refused_when_it_is_made(spark, options):
    with pytest.raises(AnalysisException, match="'topc' is not allowed, expected topic"):
        spark.sql(f"CREATE TABLE misspelt USING rocketmq {options.replace('topic', 'topc', 1)}")


def test_a_table_with_a_list_of_columns_says_what_to_do_instead(spark, options):
    spark.sql(f"CREATE TABLE listed (body BINARY) USING rocketmq {options}")
    try:
        with pytest.raises(AnalysisException, match="has it in its OPTIONS, and no list of columns"):
            spark.table("listed").collect()
    finally:
        spark.sql("DROP TABLE listed")


def test_a_table_of_chosen_columns_names_them_in_an_option(spark, send, topic, options):
    send([Message(topic, b"one", keys=["k1"])])
    spark.sql(f"CREATE TABLE chosen USING rocketmq {options[:-1]}, columns 'keys,body')")
    try:
        assert [tuple(row) for row in spark.table("chosen").collect()] == [("k1", bytearray(b"one"))]
    finally:
        spark.sql("DROP TABLE chosen")
