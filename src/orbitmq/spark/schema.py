"""The columns of a RocketMQ DataFrame, for Spark and for Arrow.

Names are those of the old RocketMQ connector where it had them; the others follow the message's own terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from orbitmq.errors import ConfigError


class Column(NamedTuple):
    """One column: its name, its type in Spark and in Arrow."""

    name: str
    spark: DataType
    arrow: pa.DataType


PROPERTIES = pa.map_(pa.string(), pa.field("value", pa.string()))
TIMESTAMP = pa.timestamp("us", tz="UTC")

COLUMNS = (
    Column("topic", StringType(), pa.string()),
    Column("body", BinaryType(), pa.binary()),
    Column("properties", MapType(StringType(), StringType()), PROPERTIES),
    Column("brokerName", StringType(), pa.string()),
    Column("queueId", IntegerType(), pa.int32()),
    Column("queueOffset", LongType(), pa.int64()),
    Column("bornTimestamp", TimestampType(), TIMESTAMP),
    Column("storeTimestamp", TimestampType(), TIMESTAMP),
    Column("tags", StringType(), pa.string()),
    Column("keys", StringType(), pa.string()),
    Column("msgId", StringType(), pa.string()),
    Column("flag", IntegerType(), pa.int32()),
    Column("reconsumeTimes", IntegerType(), pa.int32()),
    Column("bornHost", StringType(), pa.string()),
    Column("storeHost", StringType(), pa.string()),
)
COLUMN_NAMES = tuple(column.name for column in COLUMNS)
PHYSICAL_OFFSET = Column("physicalOffset", LongType(), pa.int64())
"""Where the broker's log has the message, in bytes: a column of files, and of topics on request."""
DECODE_ERROR = Column("decodeError", StringType(), pa.string())
"""Why the body is as it was stored and not as it was sent, null where it is: a column on request."""
_BY_NAME = {column.name: column for column in (*COLUMNS, PHYSICAL_OFFSET, DECODE_ERROR)}


def spark_schema(names: Sequence[str]) -> StructType:
    """Return Spark's schema of the columns called `names`, in their order.

    Raises:
        ConfigError: messages do not have such a column.
    """
    for name in names:
        if name not in _BY_NAME:
            raise ConfigError("columns", name, f"columns out of {', '.join(_BY_NAME)}")
    return StructType([StructField(name, _BY_NAME[name].spark) for name in names])


def default_columns(names: Sequence[str], *, include_body: bool, include_decode_error: bool) -> StructType:
    """Return Spark's schema of `names` without the body, and with the column of its errors, as options say."""
    chosen = [name for name in names if include_body or name != "body"]
    return spark_schema([*chosen, DECODE_ERROR.name] if include_decode_error else chosen)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of the columns called `names`: exactly what Spark derives from `spark_schema(names)`."""
    return pa.schema([pa.field(name, _BY_NAME[name].arrow) for name in names])


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Return the names that a user's own schema asks for: this is how a query reads fewer columns.

    Raises:
        ConfigError: a column that messages do not have, one of another type, one that is said to be never null, or asked for twice.
    """
    names = tuple(schema.fieldNames())
    for field in schema.fields:
        column = _BY_NAME.get(field.name)
        if column is None:
            raise ConfigError("schema", field.name, f"columns out of {', '.join(_BY_NAME)}")
        wanted, found = column.spark.simpleString(), field.dataType.simpleString()
        if found != wanted:
            raise ConfigError("schema", f"{field.name} {found}", f"{field.name} {wanted}")
        if not field.nullable:  # Spark would believe it, and its workers refuse batches that do not promise it
            raise ConfigError("schema", f"{field.name} {found} NOT NULL", f"{field.name} {wanted}, without NOT NULL")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("schema", name, "each column once")
    return names
