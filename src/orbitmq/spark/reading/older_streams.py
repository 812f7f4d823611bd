"""The reader of streams on Spark 4.0 and 4.1, which pass it no start, no limit and no trigger of a micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from orbitmq.clock import now_ms
from orbitmq.errors import ConfigError
from orbitmq.model.route import MessageQueue
from orbitmq.spark.error_messages import in_sentences
from orbitmq.spark.offsets import queue_names
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.checkpoint import StreamPosition, format_position, parse_position
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.readers import StreamReader, known_origins
from orbitmq.spark.versions import SPARK_VERSION, ReadAllAvailable

log = logging.getLogger(__name__)

Json = dict[str, Any]


@in_sentences
class OlderStreamReader(StreamReader):
    """Keeps the start of the next micro-batch itself: `latestOffset` of these versions has no `start`.

    When a query restarts, `partitions` of the first micro-batch is the first call that has its start; its end was chosen without,
    and is corrected then. Each micro-batch reads all that there is: a run with `Trigger.AvailableNow` is a single one, so limits
    would end it early.

    Raises:
        ConfigError: an option limits micro-batches.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        for name, value in (
            ("maxOffsetsPerTrigger", options.offsets_per_trigger_max),
            ("maxBytesPerTrigger", options.bytes_per_trigger_max),
            ("minOffsetsPerTrigger", options.offsets_per_trigger_min),
        ):
            if value is not None:
                raise ConfigError(
                    name, value, f"Spark 4.2 or newer: {SPARK_VERSION} does not say how a micro-batch is limited"
                )
        self._next_start: Json | None = None
        """Where the next micro-batch begins; None: not known yet."""
        self._has_planned = False

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where a new query begins."""
        document = super().initialOffset()
        self._next_start = self._next_start or document
        return document

    def latestOffset(self) -> Json:  # type: ignore[override] # noqa: N802
        """Return where the next micro-batch ends; the same as before while there is nothing to read."""
        if self._next_start is None:
            ends = self._poller.find_ends()
            self._next_start = format_position(
                StreamPosition(ends, {}, known_origins(self._poller.origins(ends)), now_ms())
            )
        else:
            self._next_start = super().latestOffset(self._next_start, ReadAllAvailable())
        return self._next_start

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch.

        Raises:
            DataLoss: queues that were read before are not there, or were recreated.
        """
        if start == end:  # a restarted run with AvailableNow plans an empty micro-batch, which says where it goes on
            position = parse_position(end)
            self._wait_for_brokers(position, position.offsets.keys())
            self._next_start = end
            return []
        if not self._has_planned:
            begin, position = parse_position(start), parse_position(end)
            corrected = self._corrected_end(begin, position)
            end = end if corrected == position else format_position(corrected)
            self._next_start = end
        tasks = super().partitions(start, end)
        self._has_planned = True
        return tasks

    def _corrected_end(self, begin: StreamPosition, end: StreamPosition) -> StreamPosition:
        """Return the end of a micro-batch that was chosen without its begin: with all queues of the checkpoint.

        A micro-batch that Spark plans again gets the same end, because new queues begin with their first message.
        """
        self._poller.wait_for_queues(end.offsets)
        self._check_missing(begin, begin.offsets.keys() - end.offsets.keys())
        recreated = self._find_recreated(begin, end.origins)
        fresh = {queue for queue in end.offsets if queue not in begin.offsets and queue not in end.begins}
        ends = {
            queue: max(last, 0 if queue in recreated else begin.offsets.get(queue, 0))
            for queue, last in end.offsets.items()
        }
        begins = {**end.begins, **self._poller.earliest(recreated | fresh)}
        return StreamPosition({**begin.offsets, **ends}, begins, {**begin.origins, **end.origins}, end.reached_at_ms)

    @property
    def _needs_every_answer(self) -> bool:
        return True  # any run may be one with AvailableNow

    def _check_missing(self, begin: StreamPosition, missing: Set[MessageQueue]) -> None:
        """Check queues that were read before and that the end does not name: their offsets stay."""
        absent = self._wait_for_brokers(begin, missing)
        self._check_queues(begin, set(missing - absent))

    def _wait_for_brokers(self, position: StreamPosition, queues: Set[MessageQueue]) -> Set[MessageQueue]:
        """Return the queues whose broker is in no route after `brokerTimeoutMs`.

        Raises:
            DataLoss: some of them had messages, with failOnDataLoss.
        """
        if absent := self._poller.absent(queues):
            self._poller.wait_for_queues(absent)
            absent = self._poller.absent(absent)
        lost = {queue for queue in absent if position.has_had(queue)}
        if lost and self._options.fail_on_data_loss:
            raise DataLoss(
                f"no broker holds queues now that were read before: {queue_names(lost)}. Start their broker, or, if it or their topic "
                "has gone for good, set failOnDataLoss to false to go on without them."
            )
        if absent:
            log.warning(
                "no broker holds queues now that were read before, going on without them: %s", queue_names(absent)
            )
        return absent
