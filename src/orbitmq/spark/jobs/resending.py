"""The sending of a job's messages again, at a rate: Spark orders them in files, and a file keeps the progress.

Messages of one key go to one queue, one request at a time, and those that a killed run has sent behind its last checkpoint
are found in the topics: so the order of each key stays, and each message is sent once.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from orbitmq.admin.client import AdminClient
from orbitmq.client.producer import Producer
from orbitmq.client.send.queue_selector import choose_by_key
from orbitmq.client.send.request import encode_message
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConfigError, InvalidArgument, JobFailed, RemoteRefused
from orbitmq.model.message import BODY_SIZE_MAX, Message
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.net.security.client_security import load_security
from orbitmq.spark.jobs.cluster import TIMEOUT_MS, Cluster, readable_stats
from orbitmq.spark.jobs.resend_positions import (
    FILE,
    RESENT_FROM,
    ResendProgress,
    left_of,
    load_progress,
    measure,
    ordered,
    part_count,
    save_progress,
    sent_since,
)
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Row = Mapping[str, Any]
"""A row by the names of its columns; `properties` is a dict."""

ROWS_PER_BATCH = 16
"""Rows that are decoded at a time: bodies have up to 4 MiB and more."""
_WRITING = {"parquet.block.size": str(16 * 2**20), "parquet.block.size.row.check.min": "10"}
"""What a task holds of the rows that it writes, and after how many rows it looks for the first time."""
GROUP = "orbitmq-job"
SPILLED = "_rows"
"""In the job's directory: what it has still to send, while it runs."""
ATTEMPTS = 5
"""Failures one after the other that end the job, where none of its attempts has come to a checkpoint."""
PORTION_BYTES = 8 * 2**20
"""Bodies that are sent at a time."""
PAUSE_S = 2.0
"""After the first failure; the next ones twice as long each."""
NAMED_MAX = 10
"""Messages left out that are named; the others are only counted."""
_ID = "0" * 32
"""As long as the id of a message that is sent."""


class ResendTask(NamedTuple):
    """What is sent again.

    Args:
        rows: messages, in any order: `places.PLACE`, `storeTimestamp`, `body`, and what `message` needs.
        message: makes what is sent of a row; it adds no `RESENT_FROM`. InvalidArgument leaves the row out.
        topics: where `message` may send to.
        directory: the job's.
        rate: messages in a second.
        rows_per_checkpoint: messages from one checkpoint to the next.
        skip_refused: messages that a broker takes never are left out; else the first one ends the job.
    """

    rows: DataFrame
    message: Callable[[Row], Message]
    topics: Sequence[str]
    directory: Path
    rate: int
    rows_per_checkpoint: int
    skip_refused: bool = False

    @property
    def file(self) -> Path:
        """Where the progress is kept."""
        return self.directory / FILE


def resend(
    spark: SparkSession, cluster: Cluster, work: ResendTask, screen: Screen
) -> tuple[ResendProgress, ResendProgress]:
    """Send what was not sent yet; return the progress before and after. Rows that cannot be sent are left out, and counted.

    Raises:
        JobFailed: it could not be sent, or rows could not be read.
        ClientError: the cluster cannot be asked.
        ConfigError: a topic has no queue for it.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    first = run(_begin(cluster, work, load_progress(work.file) or ResendProgress(uuid4().hex)))
    left = left_of(spark, work.rows, first.done)
    try:
        waiting = measure(left)
        screen.step(f"{waiting.row_count:,} messages to send")
        rows = ordered(left, part_count(waiting))
        with (
            spilled(rows, work.directory / SPILLED, waiting.row_count) as read,
            screen.progress({"sent": waiting.row_count}) as advance,
        ):
            sender = _Sender(cluster, work, lambda count: advance("sent", count), screen)
            return first, _send_all(spark, sender, read, first, screen)
    except PySparkException as error:
        raise JobFailed(str(error).splitlines()[0]) from error
    except Py4JJavaError as error:  # of a task that failed, which pyspark does not translate
        raise JobFailed(str(error.java_exception.getMessage()).splitlines()[0]) from error


@contextmanager
def spilled(rows: DataFrame, directory: Path, count: int) -> Iterator[Callable[[], Iterator[Row]]]:
    """Write rows to a directory, which is removed at the end; give a function that reads them in their order, any number of times.

    `toLocalIterator` would spare the files, but Spark's driver holds every part that it has handed on, until the iterator ends.

    Args:
        directory: one that a killed run has left is replaced.
        count: how many rows there are.

    Raises:
        JobFailed: not all of them are in the directory: executors elsewhere have written to disks of their own.
    """
    try:
        rows.write.mode("overwrite").options(**_WRITING).parquet(f"file://{directory}")
        found = sum(_open(file).metadata.num_rows for file in _files(directory))
        if found != count:
            raise JobFailed(f"{found:,} of {count:,} rows are in {directory}: every executor has to see this directory")
        yield lambda: read_rows(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_rows(directory: Path) -> Iterator[Row]:
    """Yield the rows of a directory, part after part; never more than a few are held."""
    for file in _files(directory):
        for batch in _open(file).iter_batches(batch_size=ROWS_PER_BATCH):
            for row in batch.to_pylist():
                yield {**row, "properties": dict(row.get("properties") or ())}


def _files(directory: Path) -> list[Path]:
    """Return the files of the parts in their order: part-NUMBER-..."""
    return sorted(directory.glob("part-*.parquet"), key=lambda file: int(file.name.split("-")[1]))


def _open(file: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(file)


async def _begin(cluster: Cluster, work: ResendTask, found: ResendProgress) -> ResendProgress:
    """Note where topics end that were not sent to before."""
    fresh = [topic for topic in work.topics if not found.queues_of(topic)]
    access = load_security(cluster.security)._asdict()
    async with (
        AdminClient(cluster.name_servers, timeout_ms=TIMEOUT_MS, **access) as admin,
        Producer(GROUP, cluster.name_servers, **access) as producer,
    ):
        ends = await _ends(admin, fresh)
        targets: set[MessageQueue] = set()
        for topic in fresh:
            queues = [queue for queue in await producer.queues(topic) if queue in ends]
            if not queues:
                raise ConfigError("topic", topic, "one with queues that can be sent to and read, and no static topic")
            targets.update(queues)
    progress = found._replace(
        targets=found.targets | targets, began={**found.began, **ends}, ends={**found.ends, **ends}
    )
    save_progress(work.file, progress)
    return progress


async def _ends(admin: AdminClient, topics: Sequence[str]) -> dict[MessageQueue, int]:
    stats = [await readable_stats(admin, topic) for topic in topics]
    return {queue: found.max_offset for topic in stats for queue, found in topic.items()}


def take_portion(rows: Iterator[Row], count_max: int) -> list[Row]:
    """Take the next rows: at most so many, and none after that with which their bodies are `PORTION_BYTES`."""
    portion, size = [], 0
    for row in islice(rows, count_max):
        portion.append(row)
        size += len(row["body"] or b"")
        if size >= PORTION_BYTES:
            break
    return portion


def left_in(rows: Iterator[Row], done: Offsets) -> Iterator[Row]:
    """Yield the rows that are not done yet."""
    return (row for row in rows if row["queueOffset"] >= done.get(_queue_of(row), 0))


def _queue_of(row: Row) -> MessageQueue:
    return MessageQueue(row["topic"], row["brokerName"], row["queueId"])


def sent_properties_size(message: Message) -> int:
    """Return how many bytes the properties of a message have as our producer sends them.

    Raises:
        InvalidArgument: it does not send such a message.
    """
    return len(encode_message(message, _ID, BODY_SIZE_MAX).properties)


class _Sender:
    """Sends rows in their order.

    `sent` has the origins of messages that are behind the newest checkpoint already. `is_single` sends each message by itself,
    which shows the one that a broker refuses.
    """

    def __init__(self, cluster: Cluster, work: ResendTask, on_sent: Callable[[int], None], screen: Screen) -> None:
        self.sent: set[str] = set()
        self.is_single = False
        self.cluster = cluster
        self.work = work
        self._pace = SendRate(work.rate)
        self._on_sent = on_sent
        self._screen = screen
        self._counted = 0
        self._left_out = 0
        self._named: set[str] = set()

    async def send(self, rows: Iterator[Row], begin: ResendProgress) -> ResendProgress:
        """Send all rows; return the progress then.

        Raises:
            ClientError: some messages were not sent, and nothing behind them in their queues.
            JobFailed: a broker refuses a message for good.
        """
        access = load_security(self.cluster.security)._asdict()
        progress, done, unnoted, counted = begin, dict(begin.done), 0, self._counted
        self._left_out = begin.left_out
        loop = asyncio.get_running_loop()
        async with (
            AdminClient(self.cluster.name_servers, timeout_ms=TIMEOUT_MS, **access) as admin,
            # One attempt: after another one a message could be there twice. The caller looks first.
            Producer(GROUP, self.cluster.name_servers, retries=0, send_timeout_ms=TIMEOUT_MS, **access) as producer,
        ):

            async def note() -> ResendProgress:
                ends = await _ends(admin, self.work.topics)
                ends = {**progress.ends, **ends}
                noted = progress._replace(ends=ends, done=dict(done), left_out=self._left_out)
                save_progress(self.work.file, noted)
                self._counted = counted
                return noted

            def next_portion() -> tuple[int, dict[MessageQueue, list[Message]]]:
                portion = take_portion(rows, self._pace.portion)
                return len(portion), self._runs(portion, progress, done)

            while True:
                # Rows come from files, and `message` may be slow: connections must not suffer from it.
                row_count, runs = await asyncio.to_thread(next_portion)
                if not row_count:
                    return await note()
                count = sum(map(len, runs.values()))
                await asyncio.sleep(self._pace.wait_s(count, loop.time()))
                await _send_runs(runs, lambda queue, messages: self._send_run(producer, queue, messages))
                unnoted, counted = unnoted + count, counted + row_count
                self._on_sent(counted)
                if unnoted >= self.work.rows_per_checkpoint:
                    progress, unnoted = await note(), 0

    def _runs(
        self, portion: Sequence[Row], progress: ResendProgress, done: dict[MessageQueue, int]
    ) -> dict[MessageQueue, list[Message]]:
        """Return what to send to which queue, and count all rows of the portion as done."""
        runs: defaultdict[MessageQueue, list[Message]] = defaultdict(list)
        for row in portion:
            place = _queue_of(row)
            origin = progress.origin(place, row["queueOffset"])
            if row["queueOffset"] < done.get(place, 0):
                continue  # its archive has it twice
            done[place] = row["queueOffset"] + 1
            if origin in self.sent:
                continue
            try:
                message = self.work.message(row)
                message = replace(message, properties={**message.properties, RESENT_FROM: origin})
                sent_properties_size(message)  # the producer would refuse all messages of a batch
            except InvalidArgument as error:
                self._leave_out(origin, error)
                continue
            queue = choose_by_key(progress.queues_of(message.topic), message.sharding_key or str(place[1:]))
            runs[queue].append(message)
        return runs

    async def _send_run(self, producer: Producer, queue: MessageQueue, messages: Sequence[Message]) -> None:
        """Send messages to a queue in their order, together where they may be."""
        for is_single, group in groupby(messages, lambda message: self.is_single or message.priority is not None):
            if not is_single:
                await producer.send_batch(list(group), queue=queue)
                continue
            for message in group:
                try:
                    await producer.send(message, queue=queue)
                except RemoteRefused as error:
                    if error.code != ResponseCode.MESSAGE_ILLEGAL:
                        raise
                    self._refused(message.properties[RESENT_FROM], error)

    def _refused(self, origin: str, error: RemoteRefused) -> None:
        if not self.work.skip_refused:
            way_on = "Change the broker and start again, or leave such messages out with --skip-refused"
            raise JobFailed(f"a broker refuses {_place(origin)} for good: {error}. {way_on}") from error
        self._leave_out(origin, error)

    def _leave_out(self, origin: str, error: Exception) -> None:
        """Count a message that cannot be sent; name it if it is one of the first."""
        self._left_out += 1
        if origin not in self._named and len(self._named) < NAMED_MAX:
            self._named.add(origin)
            self._screen.step(f"left out: {_place(origin)}: {error}")


def _place(origin: str) -> str:
    """Return where a message is from, `topic/broker/queue/offset`, by its `RESENT_FROM`."""
    return origin.partition("/")[2]


def _send_all(
    spark: SparkSession, sender: _Sender, read: Callable[[], Iterator[Row]], begin: ResendProgress, screen: Screen
) -> ResendProgress:
    """Send all rows, and go on from the newest checkpoint after a failure; return the progress at the end."""
    failures, now, work = 0, begin, sender.work
    while True:
        try:
            there = sent_since(spark, sender.cluster, work.topics, now, now.ends)
            sender.sent = {row["origin"] for row in there.collect()}
            return run(sender.send(left_in(read(), now.done), now))
        except ClientError as error:
            # A broker refuses a batch for one message in it.
            sender.is_single |= isinstance(error, RemoteRefused) and error.code == ResponseCode.MESSAGE_ILLEGAL
            found = load_progress(work.file) or now
            failures, now = (1 if found != now else failures + 1), found
            if failures == ATTEMPTS:
                raise JobFailed(f"messages cannot be sent: {error}. Started again, it goes on") from error
            screen.step(f"tried again: {error}")
            time.sleep(PAUSE_S * 2 ** (failures - 1))


async def _send_runs(
    runs: dict[MessageQueue, list[Message]], send: Callable[[MessageQueue, list[Message]], Awaitable[None]]
) -> None:
    # All are awaited, also when one has failed: one that was still under way would be stored unnoticed.
    for result in await asyncio.gather(*(send(*found) for found in runs.items()), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


PORTION_MAX = 500
"""Messages that are sent at a time: enough for requests that are worth their way."""
_PORTIONS_PER_S = 10


class SendRate:
    """Says when the next portion may be sent; what was late is not caught up with.

    Args:
        rate: messages in a second, at least 1.
    """

    def __init__(self, rate: int) -> None:
        self.portion = max(1, min(PORTION_MAX, rate // _PORTIONS_PER_S))
        self._rate = rate
        self._free_at_s = 0.0

    def wait_s(self, count: int, now_s: float) -> float:
        """Note that messages are sent as soon as they may be; return how long that still is, in seconds."""
        begin_s = max(now_s, self._free_at_s)
        self._free_at_s = begin_s + count / self._rate
        return begin_s - now_s
