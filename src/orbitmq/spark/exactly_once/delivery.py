"""Exactly-once delivery of a micro-batch: what a task does, what the driver does, and what either does the second time.

The protocol, and what happens when it is cut anywhere: docs/explain/exactly-once-sink.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa

from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ClientError, SendFailed
from orbitmq.spark.exactly_once.commit_markers import RUN_PREFIX, Abort, Marker, batch_name
from orbitmq.spark.exactly_once.end_transactions import TransactionEnder
from orbitmq.spark.exactly_once.half_sender import HalfSender
from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
from orbitmq.spark.exactly_once.prepared import Prepared, marker_parts
from orbitmq.spark.exactly_once.settling import settle
from orbitmq.spark.options import WriteOptions

log = logging.getLogger(__name__)

_searched: dict[tuple[tuple[str, ...], str, str], tuple[int, int]] = {}
"""In this process: per NameServers, marker topic and query, the last batch that was looked for, and where to go on."""


def prepare(batches: Iterator[pa.RecordBatch], options: WriteOptions, query: str, batch: int) -> Prepared:
    """Send one task's rows as half messages; send nothing when the micro-batch has been decided already.

    Raises:
        SendFailed, InvalidArgument, ClientError: the task fails, and its half messages will be rolled back.
    """
    key = (options.name_servers, options.marker_topic, query)
    known_batch, begin = _searched.get(key, (batch, 0))
    found = MarkerTopic(options).find(query, batch, begin if known_batch <= batch else 0)
    _searched[key] = (batch, found.begin)
    prepared = Prepared(query, batch, uuid4().hex[:16], found.begin)
    if found.marker.marker is not None:
        prepared.is_decided = True
        prepared.unsent_count = sum(rows.num_rows for rows in batches)
        return prepared
    sender = HalfSender(options, prepared)
    try:
        return sender.send(batches)
    except BaseException:
        # This attempt is in no marker, ever: its half messages need no decision. Its brokers would ask for long.
        TransactionEnder(options).tell([sender.prepared], Decision.ROLLBACK)
        raise


def commit(messages: Sequence[Prepared], options: WriteOptions) -> None:
    """Decide a micro-batch, if it is undecided, and return when all of its rows are in their queues.

    Raises:
        SendFailed: the batch was aborted, or not all of its rows have come in time, or it was written before with other rows.
        ClientError, ConfigError: the marker was not written, or that is unknown.
    """
    if not messages:
        return
    query, batch = messages[0].query, messages[0].batch
    marker_topic, ends = MarkerTopic(options), TransactionEnder(options)
    begin = max(part.searched for part in messages)
    found = marker_topic.find(query, batch, begin)
    mine = uuid4().hex
    is_new = found.marker.marker is None and not any(part.is_decided for part in messages)
    if is_new and any(part.count for part in messages):
        ends.check_age(messages)
        attempts, filled = marker_parts(list(messages))
        marker_topic.append(Marker(mine, query, batch, attempts, filled))
        found = marker_topic.find(query, batch, begin)
    elif is_new:
        return  # there are no rows
    marker = found.marker.marker
    if marker is None:
        raise SendFailed(f"{batch_name(query, batch)} was aborted while it ran; it has to run again", [])
    winners = [part for part in messages if part.attempt in marker.attempts]
    losers = [part for part in messages if part.attempt not in marker.attempts and part.count]
    if losers:
        log.warning("%s was decided by another driver: %d tasks lose", batch_name(query, batch), len(losers))
        ends.tell(losers, Decision.ROLLBACK)
    if ends.tell(winners, Decision.COMMIT) or marker.id != mine:
        settle(options, marker_topic, marker)
    if marker.id != mine:
        _check_rows(messages, options, marker, found.last)


def _check_rows(messages: Sequence[Prepared], options: WriteOptions, marker: Marker, last: int) -> None:
    """Compare a batch with what was written of it before, by another driver or by this one.

    A batch that comes again after a failure has the same rows. Others have come since where a checkpoint was restored from an older
    copy, or a run's id was given to other rows: as none of them is sent, they would be lost.

    Args:
        last: the last batch of its query that was decided.

    Raises:
        SendFailed: it has more rows or fewer.
    """
    name, count = batch_name(marker.query, marker.batch), sum(part.count + part.unsent_count for part in messages)
    is_run = marker.query.startswith(RUN_PREFIX)
    if count != marker.row_count:
        advice = (
            "Was its id given to other rows? Give them a runId of their own"
            if is_run
            else "Was its checkpoint restored from an older copy, or does the query give other rows when it is repeated? Start it "
            "with a new checkpointLocation, from where the rows end that were written"
        )
        told = (
            f"{name} was written before, with {marker.row_count} rows, and has {count} rows now: none of them is sent. {advice}, "
            "or set failOnDataLoss to false to go on without them"
        )
        if options.fail_on_data_loss:
            raise SendFailed(told, [])
        log.warning("%s", told)
    elif last > marker.batch:
        log.warning(
            "%s was written before, and batch %d, too: was its checkpoint restored from an older copy? The batch has as many rows as "
            "then; whether they are the same is not known, and none of them is sent",
            name,
            last,
        )


def abort(messages: Sequence[Prepared], options: WriteOptions) -> None:
    """Roll back what the tasks of a failed micro-batch have sent, if no marker has named them; log what goes wrong."""
    sent = [part for part in messages if part.count]
    if not sent:
        return
    query, batch = sent[0].query, sent[0].batch
    marker_topic = MarkerTopic(options)
    try:
        marker_topic.append(Abort(query, batch, frozenset(part.attempt for part in sent)))
        marker = marker_topic.find(query, batch, max(part.searched for part in sent)).marker
        if marker.marker is None:
            TransactionEnder(options).tell([part for part in sent if part.attempt in marker.aborted], Decision.ROLLBACK)
    except ClientError as error:
        log.warning("the half messages of %s stay open for now: %s", batch_name(query, batch), error)
