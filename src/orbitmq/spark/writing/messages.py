"""Messages made of a DataFrame's rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.model.message import DELAY_MS_MAX, FLAG_LIMIT, Message, PropertyName, TimerProperty, split_keys
from orbitmq.model.route import MessageQueue
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.schema import COLUMN_NAMES

ROW_ID = "SPARK_ROW_ID"
"""The property that is the same in every attempt to send a row: `query/batch/partition/row` for streams."""

_INTEGERS = ("int", "smallint", "tinyint", "bigint")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "delayLevel": _INTEGERS,
    "flag": _INTEGERS,
    "queue": ("struct<brokerName:string,queueId:int>",),
    "deliverAt": ("timestamp",),
    "delayMs": _INTEGERS,
}
"""Columns that a message is made of, and the types they may have."""
IGNORED = frozenset(COLUMN_NAMES) - COLUMNS.keys()
"""Columns that the broker sets: a DataFrame that was read may be written as it is."""
KAFKA_COLUMNS = {"value": "body", "key": "keys or shardingKey", "headers": "properties", "partition": "queue"}

# What RocketMQ sets in a message on its way; a copy gets its own.
SYSTEM_PROPERTIES = frozenset(value for name, value in vars(PropertyName).items() if not name.startswith("_"))
_TIMED_PROPERTIES = SYSTEM_PROPERTIES | {
    value for name, value in vars(TimerProperty).items() if not name.startswith("_")
}


@dataclass(frozen=True, slots=True)
class RowMessage(Message):
    """A row's message, the queue that the row names, and the row's id."""

    queue: MessageQueue | None = None
    row_id: str = ""

    def check_queue(self, queues: tuple[MessageQueue, ...]) -> None:
        """Refuse a queue that is none of `queues`, those of the topic. Raises InvalidArgument."""
        if self.queue is not None and self.queue not in queues:
            found = f"{self.queue.broker_name}/{self.queue.queue_id}"
            names = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues)
            raise InvalidArgument("queue", found, f"a writable queue of {self.topic}: {names}; row {self.row_id}")


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
            instead = f"{KAFKA_COLUMNS[name]} in place of Kafka's, " if name in KAFKA_COLUMNS else ""
            raise ConfigError("column", name, f"{instead}columns out of {', '.join(COLUMNS)}")
        if found not in COLUMNS[name]:
            raise ConfigError("column", f"{name} {found}", f"{name} of type {' or '.join(COLUMNS[name])}")
    if "body" not in types:
        raise ConfigError("column", sorted(types), "a column body (binary or string)")
    if "topic" not in types and options.topic is None:
        raise ConfigError("topic", None, "a column topic, or the option topic for all rows")


_COLUMN_OF = {"tag": "tags", "sharding_key": "shardingKey", "delay_level": "delayLevel", "delay_ms": "delayMs"}
"""Columns whose field of a message has another name."""


def of_row(error: InvalidArgument, row_id: str) -> InvalidArgument:
    """Return the error about a row's message as one that names the column and the row."""
    field = _COLUMN_OF.get(error.field, error.field)
    return InvalidArgument(field, error.value, f"{error.allowed}; row {row_id}")


def _check_text(tag: str | None, sharding_key: str | None, properties: Mapping[str, str]) -> None:
    """Refuse text that properties cannot carry, by its column: the client names them all together."""
    if tag is not None and "||" in tag:
        raise InvalidArgument("tags", tag, "one tag, without '||'")
    for column, text in (("tags", tag), ("shardingKey", sharding_key)):
        if text is not None and "\x02" in text:
            raise InvalidArgument(column, text, "text without 0x02, which separates properties")
    for name, value in properties.items():
        if "\x02" in value or "\x01" in name or "\x02" in name:
            raise InvalidArgument("properties", (name, value), "no 0x01 or 0x02 in a name, and no 0x02 in a value")


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

    def messages(self, batch: pa.RecordBatch) -> Iterator[RowMessage]:
        """Yield a message for each row.

        Raises:
            InvalidArgument: a row has no topic or no body, or one that RocketMQ does not take; says which row.
        """
        nothing = [None] * batch.num_rows
        found = set(batch.schema.names)
        columns = (batch.column(name).to_pylist() if name in found else nothing for name in COLUMNS)
        for row in zip(*columns, strict=True):
            row_id = f"{self._row_id_prefix}/{self.count}"
            try:
                message = self.message(row_id, *row)
            except InvalidArgument as error:
                raise of_row(error, row_id) from None
            yield message
            self.count += 1

    def _check_times(self, delay_level: int, delay_ms: int, deliver_at: datetime | None) -> None:
        level_max = self._options.delay_level_max
        if not 0 <= delay_level <= level_max:
            hint = "brokers that have more levels: the option delayLevelMax"
            raise InvalidArgument("delayLevel", delay_level, f"0 to {level_max} ({hint})")
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise InvalidArgument("delayMs", delay_ms, f"0 to {DELAY_MS_MAX}")
        times = {"delayLevel": delay_level, "delayMs": delay_ms, "deliverAt": deliver_at and str(deliver_at)}
        given = {name: value for name, value in times.items() if value}
        if given and self._options.exactly_once:
            raise InvalidArgument(*given.popitem(), "none with exactly-once: transactions are not delayed")
        if len(given) > 1:
            raise InvalidArgument(
                " and ".join(given), tuple(given.values()), "one of delayLevel, delayMs and deliverAt"
            )

    def message(
        self,
        row_id: str,
        topic: str | None,
        body: bytes | str | None,
        tags: str | None,
        keys: str | list[str] | None,
        properties: Iterable[tuple[str, str | None]] | None,
        sharding_key: str | None = None,
        delay_level: int | None = None,
        flag: int | None = None,
        queue: Mapping[str, Any] | None = None,
        deliver_at: datetime | None = None,
        delay_ms: int | None = None,
    ) -> RowMessage:
        """Return the message of one row's columns.

        Raises:
            InvalidArgument: as `messages`, without the row's id.
        """
        topic = topic if topic is not None else self._options.topic
        if topic is None or body is None:
            raise InvalidArgument("topic" if topic is None else "body", None, "a value in every row, not null")
        self._check_times(delay_level or 0, delay_ms or 0, deliver_at)
        if not -FLAG_LIMIT <= (flag or 0) < FLAG_LIMIT:
            raise InvalidArgument("flag", flag, f"{-FLAG_LIMIT} to {FLAG_LIMIT - 1}")
        if queue is not None and None in queue.values():
            raise InvalidArgument("queue", queue, "a brokerName and a queueId, or null for any queue")
        given: dict[str, Any] = {name: value for name, value in properties or () if value}
        dropped = _TIMED_PROPERTIES if delay_level or delay_ms or deliver_at else SYSTEM_PROPERTIES
        own = {name: value for name, value in given.items() if name not in dropped}
        if self._options.row_ids:
            own[ROW_ID] = row_id
        keys = keys if keys is not None else given.get(PropertyName.KEYS, "")
        tag = tags if tags is not None else given.get(PropertyName.TAGS)
        sharding_key = sharding_key if sharding_key is not None else given.get(PropertyName.SHARDING_KEY)
        _check_text(tag, sharding_key, own)
        return RowMessage(
            topic,
            body.encode() if isinstance(body, str) else body,
            tag=tag,
            keys=split_keys(keys) if isinstance(keys, str) else tuple(keys),
            properties=own,
            flag=flag or 0,
            delay_level=delay_level or 0,
            sharding_key=sharding_key,
            delay_ms=delay_ms or 0,
            deliver_at=deliver_at,
            queue=None if queue is None else MessageQueue(topic, queue["brokerName"], queue["queueId"]),
            row_id=row_id,
        )
