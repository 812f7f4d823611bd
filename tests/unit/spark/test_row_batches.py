"""Rows of a stream's writer as the batches of columns that newer versions of Spark hand over."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from orbitmq.spark.sink import ROWS_PER_BATCH, batches_of

SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("keys", ArrayType(StringType())),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("delayLevel", IntegerType()),
        StructField("deliverAt", TimestampType()),
    ]
)


def test_every_column_keeps_its_values_and_nulls():
    at = datetime(2026, 11, 26, 12, tzinfo=UTC)
    local = at.astimezone().replace(tzinfo=None)
    full = Row(bytearray(b"x"), ["a", "b"], {"k": "v"}, 3, local)
    (batch,) = batches_of(iter([full, Row(None, None, None, None, None)]), SCHEMA)
    assert batch.column("body").to_pylist() == [b"x", None]
    assert batch.column("keys").to_pylist() == [["a", "b"], None]
    assert batch.column("properties").to_pylist() == [[("k", "v")], None]
    assert batch.column("delayLevel").to_pylist() == [3, None]
    assert batch.column("deliverAt").to_pylist() == [at, None]


def test_many_rows_are_several_batches_and_none_are_none():
    rows = [Row(b"%d" % number, None, None, None, None) for number in range(ROWS_PER_BATCH + 1)]
    assert [batch.num_rows for batch in batches_of(iter(rows), SCHEMA)] == [ROWS_PER_BATCH, 1]
    assert list(batches_of(iter([]), SCHEMA)) == []
