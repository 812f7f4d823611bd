"""Rows as Arrow batches: before version 4.1 Spark hands a stream's writer rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from inspect import signature
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

ROWS_PER_BATCH = 1_000


def batches_of(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in batches of a thousand, with the types that Spark itself gives them."""
    arrow = arrow_types(schema)
    while some := list(islice(rows, ROWS_PER_BATCH)):
        columns = zip(*some, strict=True) if arrow.names else ()
        arrays = [pa.array(map(_plain, column), type=field.type) for field, column in zip(arrow, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


def arrow_types(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark itself makes of its own."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it: a map as its pairs, a time, which Spark gives as this machine's, with its zone."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone()
    return value
