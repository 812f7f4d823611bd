"""The reading side of the data source: batches and streams of messages as DataFrames.

Spark pickles readers, so they hold plain values only until they are used. Connections are made where they are used: a
driver's in `MetadataClient`, a task's in `RangeReader`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from orbitmq.clock import now_ms
from orbitmq.model.route import MessageQueue
from orbitmq.spark.error_messages import in_sentences
from orbitmq.spark.offsets import Committed, Earliest, Latest, Offsets, Timestamp, format_offsets, queue_names
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.checkpoint import Origin, Origins, StreamPosition, format_position, parse_position
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.local_reader import LocalReader
from orbitmq.spark.reading.metadata_client import MetadataClient, QueueAddresses, QueuesNotTold
from orbitmq.spark.reading.offset_poller import OffsetPoller, patiently
from orbitmq.spark.reading.planning import (
    Range,
    TriggerGate,
    advance,
    backlog,
    count_of_size,
    pack,
    ranges_between,
    split,
)
from orbitmq.spark.reading.range_reader import RangeReader
from orbitmq.spark.schema import COLUMN_NAMES, chosen_columns, default_columns, spark_schema
from orbitmq.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from orbitmq.spark.worker import prepare_worker

log = logging.getLogger(__name__)

ORIGINS_EVERY_S = 10.0
"""How often queues with new messages are asked what they hold first, one question or two for each: a topic may be recreated."""

_OF_ALL_QUEUES = Earliest | Latest | Timestamp | Committed
"""Bounds that name no queues by themselves."""

Json = dict[str, Any]


def read_schema(options: ReadOptions) -> StructType:
    """Return the columns that a query gets when it does not choose its own."""
    if options.columns is not None:
        return spark_schema(options.columns)
    return default_columns(
        COLUMN_NAMES, include_body=options.include_body, include_decode_error=options.include_decode_error
    )


@dataclass
class QueuePartition(InputPartition):  # type: ignore[misc]
    """One Spark task: a range of one queue, and where the queue was when the task was planned."""

    wanted: Range
    address: str


@dataclass
class SharedPartition(InputPartition):  # type: ignore[misc]
    """One Spark task for the ranges of several queues, which are read one after the other."""

    parts: list[QueuePartition]


@in_sentences
class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads the messages between two bounds, which are resolved to offsets when the query is planned.

    It takes no filters of the query: see docs/adr/0022-no-filter-pushdown.md.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._names = chosen_columns(schema)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return one task per queue that holds messages, or several for long ones."""
        options = self._options
        with MetadataClient.of(options) as client:
            ranges, queues = patiently(partial(self._ranges, client), options, "what the query reads", client)
        # Spark plans one task that gets no range of its own where there is nothing to read.
        return plan_tasks(ranges, queues, options) or [InputPartition(None)]

    def _ranges(self, client: MetadataClient) -> tuple[list[Range], QueueAddresses]:
        options = self._options
        queues = client.queues_at_start(options)
        if all(isinstance(bound, _OF_ALL_QUEUES) for bound in (options.start, options.end)):
            queues |= client.left_queues(options, queues)
        begins = client.resolve(queues, options.start, "startingOffsets")
        ends = client.resolve(queues, options.end, "endingOffsets")
        ends = self._checked_ends(begins, ends, client.latest(queues))
        return ranges_between(StreamPosition(begins), StreamPosition(ends)), queues

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task."""
        return read_partition(partition, self._options, self._names)

    def _checked_ends(self, begins: Offsets, ends: Offsets, latest: Offsets) -> Offsets:
        """Return where the batch ends, not behind the last message of a queue: a task would wait for what is not there.

        Raises:
            DataLoss: the offsets of a bound lie behind it, which happens to those of a topic that was recreated.
        """
        beyond = sorted(queue for queue, last in latest.items() if begins[queue] > last or ends[queue] > last)
        if not beyond:
            return ends
        what = ", ".join(
            f"{queue.topic}/{queue.broker_name}/{queue.queue_id} ends at {latest[queue]}" for queue in beyond
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"the query names offsets behind the last message: {what}. Was the topic deleted and created again? Set "
                "failOnDataLoss to false to read what there is."
            )
        log.warning("the query names offsets behind the last message, reading what there is: %s", what)
        return {queue: min(end, latest[queue]) for queue, end in ends.items()}


@in_sentences
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads micro-batch after micro-batch from where Spark's checkpoint says.

    Spark asks for the latest offset about a hundred times a second while there is nothing to do; it is made to wait, so
    that the cluster is asked at most every `offsetPollMs`. It asks twice for the initial offset when a query starts: both
    times it gets the same answer.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._names = chosen_columns(schema)
        self._options = options
        self._opened_poller: OffsetPoller | None = None
        self._initial: StreamPosition | None = None
        self._gate = TriggerGate(options.offsets_per_trigger_min, options.trigger_delay_ms / 1000)
        self._unchecked: set[MessageQueue] | None = None
        """Queues of the checkpoint that were not looked at since the query began; None before the first look."""
        self._moved: set[MessageQueue] = set()
        """Queues with new messages since it was asked last what they hold first."""
        self._origins_at = -math.inf
        self._behind_since = 0.0
        """When queues were first seen to end before what was read, on the monotonic clock; 0: none do."""
        self._has_passed_over = False
        """Whether it was told that they are not waited for any longer."""
        self._planned: Offsets = {}
        """Where the last micro-batch ends."""

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where a new query begins."""
        if self._initial is None:
            offsets = self._poller.resolve(self._options.start, "startingOffsets")
            self._initial = StreamPosition(offsets, offsets, known_origins(self._poller.origins(offsets)))
        return format_position(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        size_max = options.bytes_per_trigger_max
        return ReadAllAvailable() if size_max is None else ReadMaxBytes(size_max)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return where the next micro-batch ends; `start` itself while there is nothing to read."""
        position = parse_position(start)
        # Spark asks when the batch that ends at `start` is done, and once more behind the last one: `commit` of the last
        # batch would never come.
        if self._options.commits_offsets and not position.is_initial:
            self._poller.commit(position.offsets)
        end = position
        # A backlog that is known already is read first; brokers are asked when it is used up.
        if not self._poller.is_fresh or (end := self._advance(position, limit)) is position:
            self._poller.refresh()
            end = self._advance(position, limit)
        self._planned = end.offsets
        return start if end is position else format_position(end)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return the newest offsets known and how far the query is behind them, for its progress."""
        newest = self._poller.latest
        if not newest:
            return None
        lag = {queue: max(0, end - self._planned[queue]) for queue, end in newest.items() if queue in self._planned}
        return {"queues": format_offsets(newest), "lag": format_offsets(lag), "lagTotal": sum(lag.values())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix where the run ends: what arrives later belongs to the next one."""
        self._poller.fix_end()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        position = parse_position(end)
        ranges = ranges_between(parse_position(start), position)
        # A replay after a restart: the latest offset is not known yet.
        queues = self._poller.wait_for_queues(found.queue for found in ranges)
        gone = queue_names(found.queue for found in ranges if found.queue not in queues)
        if gone and self._options.fail_on_data_loss:
            raise DataLoss(
                f"the micro-batch reads queues that no broker holds now: {gone}. Start their broker, or give the topic its "
                "read queues back, or set failOnDataLoss to false to go on without them."
            )
        if gone:
            log.warning("no broker holds queues of this micro-batch now, their messages are passed over: %s", gone)
            ranges = [found for found in ranges if found.queue in queues]
        if self._unchecked is None:  # a replay once more: its topic may have been deleted and created again meanwhile
            recreated = self._find_recreated(
                position, known_origins(self._poller.origins(found.queue for found in ranges))
            )
            ranges = [found for found in ranges if found.queue not in recreated]
        return plan_tasks(ranges, queues, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task."""
        return read_partition(partition, self._options, self._names)

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._opened_poller is not None:
            self._opened_poller.close()

    @property
    def _poller(self) -> OffsetPoller:
        """The poller, made at first use: a reader that is pickled for tasks has none."""
        if self._opened_poller is None:
            self._opened_poller = OffsetPoller(MetadataClient.of(self._options), self._options)
        return self._opened_poller

    def _advance(self, position: StreamPosition, limit: ReadLimit) -> StreamPosition:
        if self._unchecked is None:
            self._unchecked = set(position.offsets)
            self._check_absent(position)
        self._check_unknown(position)
        self._unchecked |= self._poller.take_removed() & position.offsets.keys()
        self._unchecked -= self._check_queues(position, self._unchecked - self._poller.readable.keys())
        latest = self._poller.latest
        moved = {
            queue for queue, end in latest.items() if end != position.offsets.get(queue) or end < position.seen(queue)
        }
        origins = self._query_origins(position, moved)
        recreated = self._find_recreated(position, origins)
        self._wait_for_ends(position, moved - recreated)
        latest = self._poller.latest
        first = self._poller.earliest({queue for queue in latest if queue not in position.offsets} | recreated)
        begins = {**position.offsets, **first}
        counts = backlog(begins, latest)
        # A run that ends with what is there now must not wait for more.
        if counts and not self._poller.is_fixed and not self._gate.opens(sum(counts.values()), time.monotonic()):
            return position
        end = advance(position, latest, first, self._count_max(begins, counts, limit), origins)
        return end if end is position else end._replace(reached_at_ms=now_ms())

    def _query_origins(self, position: StreamPosition, moved: set[MessageQueue]) -> Origins:
        """Return what queues hold first: of the checkpoint's when they answer first, of others that got messages now and then.

        A topic may have been recreated with as many messages while no query ran. While one runs its offsets fall first.
        """
        assert self._unchecked is not None
        latest, now = self._poller.latest, time.monotonic()
        self._moved |= moved
        asked = {queue for queue in moved if latest[queue] < position.seen(queue)}
        asked |= self._unchecked & latest.keys()
        is_due = now - self._origins_at >= ORIGINS_EVERY_S
        if is_due:
            asked |= self._moved
        if not asked:
            return {}
        found = self._poller.origins(asked)
        self._unchecked -= found.keys()
        if is_due:
            self._origins_at = now
            self._moved -= found.keys()
        return known_origins(found)

    def _count_max(self, begins: Offsets, counts: dict[MessageQueue, int], limit: ReadLimit) -> int | None:
        """Return how many messages the next batch may take; None for all."""
        size_max = None if isinstance(limit, ReadAllAvailable) else self._options.bytes_per_trigger_max
        limits = [limit.max_rows] if isinstance(limit, ReadMaxRows) else []
        if size_max is not None and counts:
            sizes = self._poller.record_sizes({queue: begins[queue] for queue in counts})
            limits.append(count_of_size(counts, sizes, size_max))
        return min(limits, default=None)

    def _check_absent(self, position: StreamPosition) -> None:
        """Look after queues that were read before and whose broker no route names: a run with a fixed end waits for it.

        Raises:
            DataLoss: they are not there, and the run is to end with everything that is.
        """
        absent = self._poller.wait_for_absent(position.offsets)
        if not absent or not self._poller.is_fixed:
            return
        lost = {queue for queue in absent if position.has_had(queue)}
        what = f"no broker holds queues now that were read before: {queue_names(lost or absent)}"
        if lost and self._options.fail_on_data_loss:
            raise DataLoss(
                f"{what}. Start their broker, or, if it or their topic has gone for good, set failOnDataLoss to false to go on "
                "without them."
            )
        log.warning("%s; going on without them", what)

    def _check_unknown(self, position: StreamPosition) -> None:
        """Look after topics that were named and that no NameServer knows, in a query that began again.

        Raises:
            DataLoss: one of them had messages.
        """
        if not (unknown := self._poller.take_unknown()):
            return
        lost = sorted({q.topic for q in position.offsets if q.topic in unknown and position.has_had(q)})
        if lost and self._options.fail_on_data_loss:
            raise DataLoss(
                f"no NameServer knows topics that were read before: {', '.join(lost)}. Start their brokers, or, if the topics were "
                "deleted, set failOnDataLoss to false to go on without them."
            )
        log.warning("no NameServer knows these topics, going on without them: %s", ", ".join(sorted(unknown)))

    def _check_queues(self, position: StreamPosition, queues: set[MessageQueue]) -> Set[MessageQueue]:
        """Look after queues that were read before and that no route names any more: the topic may have fewer now.

        Returns:
            Those that need no further look.

        Raises:
            DataLoss: they hold messages that were not read, or may hold some in a run that is to read everything.
        """
        try:
            ends = self._poller.ends_too(queues, waits=self._needs_every_answer) if queues else {}
        except QueuesNotTold as error:
            what = f"queues that their topic's route names no more may hold messages that were not read: {error}"
            told: Set[MessageQueue] = queues
        else:
            left = {queue: end - position.offsets[queue] for queue, end in ends.items()}
            left = {queue: count for queue, count in left.items() if count > 0}
            if not left:
                return ends.keys()
            count = sum(left.values())
            what = f"{count} messages are left in queues that their topic's route names no more: {queue_names(left)}"
            told = ends.keys()
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"{what}. Give the topic its read queues back until they are read, or set failOnDataLoss to false to leave them."
            )
        log.warning("%s; going on without them", what)
        return told

    @property
    def _needs_every_answer(self) -> bool:
        """True where the run ends with what is there: it waits until every broker has reported how much that is."""
        return self._poller.is_fixed

    def _find_recreated(self, position: StreamPosition, origins: Origins) -> set[MessageQueue]:
        """Return the queues that were deleted and created again since they were read.

        Raises:
            DataLoss: there are some, with failOnDataLoss.
        """
        recreated = {queue for queue, now in origins.items() if position.is_recreated(queue, now)}
        if not recreated:
            return recreated
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"queues were recreated, with messages that were stored after those that were read: {queue_names(recreated)}. Was the topic "
                "deleted and created again? Set failOnDataLoss to false to read them from their beginning."
            )
        log.warning("queues were recreated, they are read from their beginning: %s", queue_names(recreated))
        return recreated

    def _wait_for_ends(self, position: StreamPosition, queues: set[MessageQueue]) -> None:
        """Wait for queues that end before what was read: a slave is behind, or a broker has lost its last messages.

        Raises:
            DataLoss: they have ended there for longer than `brokerTimeoutMs`.
        """
        timeout_s = self._options.broker_timeout_ms / 1000
        while behind := {q for q in queues if self._poller.latest.get(q, 0) < position.seen(q)}:
            now = time.monotonic()
            if not self._behind_since:
                self._behind_since = now
                log.warning("queues end before what was read already, waiting for them: %s", queue_names(behind))
            elif now - self._behind_since >= timeout_s:
                if self._options.fail_on_data_loss:
                    raise DataLoss(
                        f"queues have ended before what was read already for {timeout_s:g} s: {queue_names(behind)}. Did a broker "
                        "lose its last messages, or was the topic deleted and created again? Set failOnDataLoss to false to go on "
                        "where they end by then: messages below what was read are passed over."
                    )
                if not self._has_passed_over:
                    self._has_passed_over = True
                    log.warning("messages are passed over until queues reach what was read: %s", queue_names(behind))
                return
            if not self._poller.is_fixed:
                return
            self._poller.refix(behind)
        self._behind_since = 0.0
        self._has_passed_over = False


def known_origins(origins: Mapping[MessageQueue, Origin | None]) -> Origins:
    """Return the origins of the queues that are not empty."""
    return {queue: origin for queue, origin in origins.items() if origin is not None}


def plan_tasks(ranges: Sequence[Range], queues: QueueAddresses, options: ReadOptions) -> list[InputPartition]:
    """Return the tasks that read the ranges: several for a long one, one for several short ones where there are many."""
    parts = split(ranges, options.partition_count_min, options.partition_record_count_max)
    tasks = [
        [QueuePartition(part, queues[part.queue]) for part in task]
        for task in pack(parts, options.partition_count_min, options.partition_record_count_max)
    ]
    return [task[0] if len(task) == 1 else SharedPartition(task) for task in tasks]


def read_partition(partition: InputPartition, options: ReadOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one task, nothing for the task that Spark plans for an empty query."""
    prepare_worker()
    if isinstance(partition, QueuePartition):
        yield from read_queue(partition, options, names)
    elif isinstance(partition, SharedPartition):
        for part in partition.parts:
            yield from read_queue(part, options, names)


def read_queue(part: QueuePartition, options: ReadOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one range."""
    wanted, address = part.wanted, part.address
    if options.local_stores:
        begin = yield from LocalReader(wanted, address, options, names).batches()
        wanted = replace(wanted, begin=begin)
    if wanted.count:
        yield from RangeReader(wanted, address, options, names).batches()
