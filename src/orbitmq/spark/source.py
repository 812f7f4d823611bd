"""The reading side of the data source: batches and streams of messages as DataFrames.

Readers hold plain values only: Spark pickles them. Connections are made where they are used, a driver's in
`Cluster`, a task's in `RangeReader`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from orbitmq.errors import ClientError, ConfigError, InvalidArgument
from orbitmq.spark.cluster import Addresses, Cluster
from orbitmq.spark.options import Earliest, Latest, Place, ReadOptions, Timestamp
from orbitmq.spark.planning import (
    Offsets,
    Position,
    Range,
    advance,
    format_position,
    parse_position,
    ranges_between,
    resolve_marks,
    split,
)
from orbitmq.spark.pulling import DataLoss, RangeReader
from orbitmq.spark.schema import COLUMN_NAMES, chosen_columns, spark_schema
from orbitmq.spark.security import read_security

log = logging.getLogger(__name__)

Json = dict[str, Any]

ROUTE_POLL_S = 1.0
"""New queues and brokers are looked for this often, at most."""


def read_schema(options: ReadOptions) -> StructType:
    """Return the columns that a query gets when it does not choose its own."""
    return spark_schema([name for name in COLUMN_NAMES if options.include_body or name != "body"])


@dataclass
class QueuePartition(InputPartition):  # type: ignore[misc]
    """One Spark task: a range of one queue, and where the queue was when the task was planned."""

    wanted: Range
    address: str


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads what lies between two places, fixed when the query is planned."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._names = chosen_columns(schema)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return one task per queue that holds messages, or several for long ones."""
        options = self._options
        with open_cluster(options) as cluster:
            queues = cluster.queues(options.topics, options.topic_pattern)
            begins = locate(cluster, queues, options.start, "startingOffsets")
            ends = locate(cluster, queues, options.end, "endingOffsets")
        ranges = ranges_between(Position(begins), Position(ends))
        parts = split(ranges, options.partition_count_min)
        # Spark plans one task that gets no range of its own where there is nothing to read.
        return [QueuePartition(part, queues[part.queue]) for part in parts] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task."""
        return read_partition(partition, self._options, self._names)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads on and on from where Spark's checkpoint says.

    Spark asks for the latest offset about a hundred times a second while there is nothing to do; it is made to wait, so
    that the cluster is asked at most every `offsetPollMs`. The initial offset is asked for twice in one start: both times the same is answered.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._names = chosen_columns(schema)
        self._options = options
        self._cluster: Cluster | None = None
        self._initial: Position | None = None
        self._target: Offsets | None = None
        self._queues: Addresses = {}
        self._latest: Offsets = {}
        self._asked_at = self._routed_at = -float("inf")

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where a new query begins."""
        if self._initial is None:
            queues = self._find_queues()
            offsets = locate(self._connected, queues, self._options.start, "startingOffsets")
            self._initial = Position(offsets, offsets)
        return format_position(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set."""
        count_max = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if count_max is None else ReadMaxRows(count_max)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return where the next micro-batch ends; `start` itself while there is nothing to read."""
        position = parse_position(start)
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = position
        if not self._is_fresh or (end := self._advance(position, count_max)) is position:
            self._refresh()
            end = self._advance(position, count_max)
        return start if end is position else format_position(end)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return the newest offsets known, for the query's progress: what is behind them is the lag."""
        newest = self._latest if self._target is None else self._target
        return format_position(Position(newest)) if newest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix where the run ends: what arrives later belongs to the next one."""
        self._target = self._connected.latest(self._find_queues())

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        ranges = ranges_between(parse_position(start), parse_position(end))
        if any(found.queue not in self._queues for found in ranges):
            self._queues = self._find_queues()  # a replay after a restart: nobody has asked for the latest offset yet
        gone = sorted(found.queue for found in ranges if found.queue not in self._queues)
        if gone:
            raise DataLoss(f"the micro-batch reads queues that no broker holds now: {gone}")
        return [
            QueuePartition(part, self._queues[part.queue]) for part in split(ranges, self._options.partition_count_min)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task."""
        return read_partition(partition, self._options, self._names)

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._cluster is not None:
            self._cluster.close()

    @property
    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = open_cluster(self._options)
        return self._cluster

    def _find_queues(self) -> Addresses:
        self._queues = self._queues | self._connected.queues(self._options.topics, self._options.topic_pattern)
        return self._queues

    def _advance(self, position: Position, count_max: int | None) -> Position:
        latest = self._latest if self._target is None else self._target
        return advance(position, latest, self._first_offsets(position, latest), count_max)

    @property
    def _is_fresh(self) -> bool:
        return self._target is not None or time.monotonic() < self._asked_at + self._options.offset_poll_ms / 1000

    def _refresh(self) -> None:
        """Ask for the latest offsets, not before the poll interval is over: waiting is what keeps an idle query calm.

        The answer is always newer than the question: `processAllAvailable` relies on that. A broker that does not
        answer stops only its own queues: they stay where they are until it is back.
        """
        if self._target is not None:
            return
        time.sleep(max(0.0, self._asked_at + self._options.offset_poll_ms / 1000 - time.monotonic()))
        now = time.monotonic()
        if now - self._routed_at >= ROUTE_POLL_S:
            self._routed_at = now
            try:
                self._find_queues()
            except ClientError as error:  # NameServers are needed for new queues only
                log.warning("no routes now, going on with the queues known: %s", error)
        self._latest = self._connected.latest(self._queues, unreachable=_log_unreachable)
        self._asked_at = time.monotonic()

    def _first_offsets(self, position: Position, latest: Offsets) -> Offsets:
        """Return where queues begin that the position does not know, or that end before it: those were made anew."""
        fresh = {queue for queue in latest if queue not in position.offsets}
        behind = {queue for queue, end in latest.items() if end < position.offsets.get(queue, 0)}
        if behind and self._options.fail_on_data_loss:
            raise DataLoss(
                f"queues end before what was read already: {sorted(behind)}. Was the topic deleted and made anew? "
                "Set failOnDataLoss to false to read them from their beginning."
            )
        wanted = {queue: self._queues[queue] for queue in fresh | behind if queue in self._queues}
        return self._connected.earliest(wanted) if wanted else {}


def open_cluster(options: ReadOptions) -> Cluster:
    """Return the cluster of a query, as its driver asks it."""
    security = read_security(options.security_file)
    return Cluster(options.name_servers, timeout_ms=options.pull_timeout_ms, security=security)


def locate(cluster: Cluster, queues: Addresses, place: Place, option: str) -> Offsets:
    """Return the offset of each queue that `place` means now.

    Raises:
        ConfigError: the place names other queues than there are.
    """
    match place:
        case Earliest():
            return cluster.earliest(queues)
        case Latest():
            return cluster.latest(queues)
        case Timestamp(ms):
            return cluster.at(queues, ms)
    try:
        return resolve_marks(place, cluster.earliest(queues), cluster.latest(queues), option)
    except InvalidArgument as error:
        raise ConfigError(error.field, error.value, error.allowed) from error


def read_partition(partition: InputPartition, options: ReadOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one task, nothing for the task that Spark plans for an empty query."""
    if isinstance(partition, QueuePartition):
        yield from RangeReader(partition.wanted, partition.address, options, names).batches()


def _log_unreachable(address: str, error: ClientError) -> None:
    log.warning("broker %s does not answer, its queues wait: %s", address, error)
