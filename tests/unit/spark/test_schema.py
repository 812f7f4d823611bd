"""The columns have the types that Spark derives, and a query's own schema may choose among them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.spark.schema import COLUMN_NAMES, arrow_schema, chosen_columns, spark_schema
from orbitmq.spark.sink import arrow_types


def test_arrow_columns_are_exactly_what_spark_derives():
    assert arrow_schema(COLUMN_NAMES).equals(arrow_types(spark_schema(COLUMN_NAMES)))


def test_the_columns_are_those_of_the_reference():
    assert COLUMN_NAMES == (
        "topic", "body", "properties", "brokerName", "queueId", "queueOffset", "bornTimestamp", "storeTimestamp",
        "tags", "keys", "msgId", "flag", "reconsumeTimes", "bornHost", "storeHost",
    )  # fmt: skip


def test_schemas_keep_the_order_asked_for():
    names = ["queueOffset", "topic"]

    assert spark_schema(names).fieldNames() == names
    assert arrow_schema(names).names == names
    assert chosen_columns(spark_schema(names)) == ("queueOffset", "topic")


@each_case(
    (StructField("offset", IntegerType()), "'offset' is not allowed, expected columns out of topic, body"),
    (StructField("body", StringType()), "'body string' is not allowed, expected body binary"),
    (
        StructField("tags", StringType(), nullable=False),
        "'tags string NOT NULL' is not allowed, expected tags string, without NOT NULL",
    ),
)
def test_a_column_that_messages_do_not_have_is_named(field, told):
    with pytest.raises(ConfigError, match=told):
        chosen_columns(StructType([StructField("body", BinaryType()), field]))


def test_a_column_that_is_asked_for_twice_is_named():
    body = StructField("body", BinaryType())

    with pytest.raises(ConfigError, match="'body' is not allowed, expected each column once"):
        chosen_columns(StructType([body, StructField("topic", StringType()), body]))
