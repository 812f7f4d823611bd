"""The reader of streams on Spark 4.0 and 4.1, which do not say where a micro-batch begins, how long it may be, or that a run is to end."""

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
from orbitmq.spark.reading.readers import StreamReader, held
from orbitmq.spark.versions import SPARK_VERSION, ReadAllAvailable

log = logging.getLogger(__name__)

Json = dict[str, Any]


@in_sentences
class OlderStreamReader(StreamReader):
    """Follows its own answers, since Spark does not tell it what they led to.

    Of a query that begins again it may learn only with the first micro-batch where that begins, which is looked at when Spark
    plans it. Each micro-batch ends with all that is there: a run with `Trigger.AvailableNow` is one, and with limits it would
    end early without a word.

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
        self._reached: Json | None = None
        """Where the next micro-batch begins, once that is known."""
        self._has_planned = False

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where a new query begins."""
        document = super().initialOffset()
        self._reached = self._reached or document
        return document

    def latestOffset(self) -> Json:  # type: ignore[override] # noqa: N802
        """Return where the next micro-batch ends; the same again while there is nothing to read."""
        if self._reached is None:
            ends = self._polled.find_ends()
            self._reached = format_position(StreamPosition(ends, {}, held(self._polled.origins(ends)), now_ms()))
        else:
            self._reached = super().latestOffset(self._reached, ReadAllAvailable())
        return self._reached

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch.

        Raises:
            DataLoss: queues that were read before are not there, or were recreated.
        """
        if (
            start == end
        ):  # what is read already, planned where a run with AvailableNow begins again: now it is known how far it is
            position = parse_position(end)
            self._wait_for_brokers(position, position.offsets.keys())
            self._reached = end
            return []
        if not self._has_planned:
            begin, position = parse_position(start), parse_position(end)
            found = self._checked(begin, position)
            end = end if found == position else format_position(found)
            self._reached = end
        tasks = super().partitions(start, end)
        self._has_planned = True
        return tasks

    def _checked(self, begin: StreamPosition, end: StreamPosition) -> StreamPosition:
        """Return where a micro-batch ends that was planned without knowing where it begins: no queue of the checkpoint is lost.

        The same again where Spark plans it again: new queues begin with their first message.
        """
        self._polled.wait_for_queues(end.offsets)
        self._check_missing(begin, begin.offsets.keys() - end.offsets.keys())
        recreated = self._recreated(begin, end.origins)
        fresh = {queue for queue in end.offsets if queue not in begin.offsets and queue not in end.begins}
        ends = {
            queue: max(last, 0 if queue in recreated else begin.offsets.get(queue, 0))
            for queue, last in end.offsets.items()
        }
        begins = {**end.begins, **self._polled.earliest(recreated | fresh)}
        return StreamPosition({**begin.offsets, **ends}, begins, {**begin.origins, **end.origins}, end.reached_at_ms)

    @property
    def _must_know(self) -> bool:
        return True  # Spark does not say whether the run is to end

    def _check_missing(self, begin: StreamPosition, missing: Set[MessageQueue]) -> None:
        """Look after queues that were read before and that the end does not name: they stay where they are."""
        absent = self._wait_for_brokers(begin, missing)
        self._check_queues(begin, set(missing - absent))

    def _wait_for_brokers(self, position: StreamPosition, queues: Set[MessageQueue]) -> Set[MessageQueue]:
        """Return those of the queues that were read before whose broker is in no route when the time is over.

        Raises:
            DataLoss: there are some.
        """
        if absent := self._polled.absent(queues):
            self._polled.wait_for_queues(absent)
            absent = self._polled.absent(absent)
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
