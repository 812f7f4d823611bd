"""Messages made of a DataFrame's rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.model.message import FLAG_LIMIT, Message, PropertyName
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.schema import COLUMN_NAMES

ROW_ID = "SPARK_ROW_ID"
"""The property that is the same in every attempt to send a row: `query/batch/partition/row` for streams."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "delayLevel": ("int", "smallint", "tinyint", "bigint"),
    "flag": ("int", "smallint", "tinyint", "bigint"),
}
"""Columns that a message is made of, and the types they may have."""
IGNORED = frozenset(COLUMN_NAMES) - COLUMNS.keys()
"""Columns that the broker sets: a DataFrame that was read may be written as it is."""

# What RocketMQ sets in a message on its way; a copy gets its own.
SYSTEM_PROPERTIES = frozenset(value for name, value in vars(PropertyName).items() if not name.startswith("_"))


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Refuse a DataFrame that cannot become messages, before anything is sent.

    Raises:
        ConfigError: names the column and what is allowed.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, found in types.items():
        if name in IGNORED:
            continue
        if name not in COLUMNS:
            raise ConfigError("column", name, f"columns out of {', '.join(COLUMNS)}")
        if found not in COLUMNS[name]:
            raise ConfigError("column", f"{name} {found}", f"{name} of type {' or '.join(COLUMNS[name])}")
    if "body" not in types:
        raise ConfigError("column", sorted(types), "a column body (binary or string)")
    if "topic" not in types and options.topic is None:
        raise ConfigError("topic", None, "a column topic, or the option topic for all rows")


class MessageBuilder:
    """Makes messages of rows, and numbers them.

    Args:
        options: for the topic of rows that name none, and whether rows get ids.
        row_id_prefix: the row ids are `row_id_prefix/row number`.
    """

    def __init__(self, options: WriteOptions, row_id_prefix: str) -> None:
        self._options = options
        self._row_id_prefix = row_id_prefix
        self.count = 0
        """Rows that were made into messages."""

    def messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        """Yield a message for each row.

        Raises:
            InvalidArgument: a row has no topic or no body, or one that RocketMQ does not take.
        """
        nothing = [None] * batch.num_rows
        found = set(batch.schema.names)
        columns = (batch.column(name).to_pylist() if name in found else nothing for name in COLUMNS)
        for row in zip(*columns, strict=True):
            yield self._message(*row)
            self.count += 1

    def _check_numbers(self, delay_level: int, flag: int) -> None:
        level_max = self._options.delay_level_max
        row = f"row {self._row_id_prefix}/{self.count}"
        if not 0 <= delay_level <= level_max:
            hint = "brokers that have more levels: the option delayLevelMax"
            raise InvalidArgument("delayLevel", delay_level, f"0 to {level_max} ({hint}); {row}")
        if not -FLAG_LIMIT <= flag < FLAG_LIMIT:
            raise InvalidArgument("flag", flag, f"{-FLAG_LIMIT} to {FLAG_LIMIT - 1}; {row}")

    def _message(
        self,
        topic: str | None,
        body: bytes | str | None,
        tags: str | None,
        keys: str | list[str] | None,
        properties: list[tuple[str, str | None]] | None,
        sharding_key: str | None,
        delay_level: int | None,
        flag: int | None,
    ) -> Message:
        topic = topic if topic is not None else self._options.topic
        if topic is None or body is None:
            missing = "topic" if topic is None else "body"
            raise InvalidArgument(
                missing, None, f"a value in every row; row {self._row_id_prefix}/{self.count} has null"
            )
        self._check_numbers(delay_level or 0, flag or 0)
        given: dict[str, Any] = {name: value for name, value in properties or () if value}
        own = {name: value for name, value in given.items() if name not in SYSTEM_PROPERTIES}
        if self._options.row_ids:
            own[ROW_ID] = f"{self._row_id_prefix}/{self.count}"
        keys = keys if keys is not None else given.get(PropertyName.KEYS, "")
        return Message(
            topic,
            body.encode() if isinstance(body, str) else body,
            tag=tags if tags is not None else given.get(PropertyName.TAGS),
            keys=tuple(keys.split() if isinstance(keys, str) else keys),
            properties=own,
            flag=flag or 0,
            delay_level=delay_level or 0,
            sharding_key=sharding_key if sharding_key is not None else given.get(PropertyName.SHARDING_KEY),
        )
