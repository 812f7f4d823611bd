"""The end of a micro-batch whose commits are not all confirmed: brokers ask and are answered, until every row is there."""

from __future__ import annotations

import logging
import time

from orbitmq.errors import ClientError, SendFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.exactly_once.answers import Answers, answering
from orbitmq.spark.exactly_once.commit_markers import AttemptId, Filled, Marker, batch_name, parse_attempt_id
from orbitmq.spark.exactly_once.marker_topic import MarkerTopic, read_options
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.range_reader import RangeReader

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2


class Arrivals:
    """Counts the rows of a micro-batch that have come to their queues.

    Args:
        options: how to read.
        marker: says what the batch adds to which queues, and which half messages count.
    """

    def __init__(self, options: WriteOptions, marker: Marker) -> None:
        self._options = options
        self._marker = marker
        self._read_to = {queue: part.begin for queue, part in marker.filled.items()}
        self._found: dict[MessageQueue, set[tuple[str, int]]] = {queue: set() for queue in marker.filled}

    @property
    def missing(self) -> int:
        """Rows that have not come yet, as far as was read."""
        return sum(part.count - len(self._found[queue]) for queue, part in self._marker.filled.items())

    def look(self) -> None:
        """Read what has come since the last time.

        Raises:
            ClientError: a broker cannot be asked now; what was read before counts.
            DataLoss: rows were deleted before it could be seen that they had come.
        """
        open_queues = [queue for queue, part in self._marker.filled.items() if not self._is_complete(queue, part)]
        topics = sorted({queue.topic for queue in open_queues})
        for topic in topics:
            options = read_options(self._options, topic)
            with MetadataClient.of(options) as client:
                addresses = {queue: at for queue, at in client.queues([topic]).items() if queue in open_queues}
                ends = client.latest(addresses)
            for queue, address in addresses.items():
                wanted = Range(queue, self._read_to[queue], ends[queue])
                if not wanted.count:
                    continue
                for rows in RangeReader(wanted, address, options, ("properties",)).batches():
                    for properties in rows.column(0).to_pylist():
                        self._note(queue, parse_attempt_id(dict(properties)))
                self._read_to[queue] = wanted.end

    def _note(self, queue: MessageQueue, attempt_id: AttemptId | None) -> None:
        marker = self._marker
        if (
            attempt_id is None
            or (attempt_id.query, attempt_id.batch) != (marker.query, marker.batch)
            or not marker.takes(attempt_id)
        ):
            return
        row = (attempt_id.attempt, attempt_id.serial)
        if row in self._found[queue]:
            log.error("a broker has delivered a message twice: %s in %s", attempt_id, queue)
        self._found[queue].add(row)

    def _is_complete(self, queue: MessageQueue, part: Filled) -> bool:
        return len(self._found[queue]) >= part.count


def settle(options: WriteOptions, marker_topic: MarkerTopic, marker: Marker) -> None:
    """Answer brokers until every row of a decided micro-batch is in its queue.

    Raises:
        SendFailed: rows are still missing after `commit_timeout_ms`.
    """
    arrivals = Arrivals(options, marker)
    deadline_s = time.monotonic() + options.commit_timeout_ms / 1000
    _look(arrivals)
    if not arrivals.missing:
        return
    name = batch_name(marker.query, marker.batch)
    log.warning("%d rows of %s are left to their brokers' checks", arrivals.missing, name)
    with answering(options, Answers(marker_topic), sorted({queue.topic for queue in marker.filled})):
        while arrivals.missing:
            if time.monotonic() > deadline_s:
                raise SendFailed(
                    f"{arrivals.missing} rows of {name} are decided and have not "
                    f"come to their queues within {options.commit_timeout_ms} ms: a broker is away, or has given them up "
                    "(then they are in TRANS_CHECK_MAX_TIME_TOPIC). The batch is tried again with the next start",
                    [],
                )
            time.sleep(LOOK_EVERY_S)
            _look(arrivals)


def _look(arrivals: Arrivals) -> None:
    try:
        arrivals.look()
    except ClientError as error:
        log.warning("what has come cannot be read now: %s", error)
