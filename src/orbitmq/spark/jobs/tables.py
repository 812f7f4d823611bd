"""Parquet tables that grow by what is in a topic, every message once, and whose small files are merged.

Each micro-batch writes partitions of its own (`date=…/batch=…`). One that was killed runs again over the same offsets, which
Spark's checkpoint has, and replaces what it had written.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.directories import HadoopDirectory
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.versions import LIMITS_STREAMS
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_EVERY_S = 1
Write = Callable[["DataFrame", int], None]
"""Writes one micro-batch; may be called again for the newest one."""


class QueueCount(NamedTuple):
    """The messages of one queue that a job has: how many, how many of them are different, and which offsets they span."""

    rows: int
    distinct: int
    first: int
    last: int

    @property
    def is_contiguous(self) -> bool:
        """Whether no message between the first and the last is missing, and none is there twice."""
        return self.last - self.first + 1 == self.rows == self.distinct


class Growth(NamedTuple):
    """Which messages a table grows by.

    Args:
        directory: has the checkpoint.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
        name: of what happens to messages, on the screen.
    """

    topic: str
    directory: Path | HadoopDirectory
    start: str
    rows_per_batch: int
    name: str


def grow(
    spark: SparkSession,
    cluster: Cluster,
    growth: Growth,
    found: Mapping[MessageQueue, QueueCount],
    write: Write,
    screen: Screen,
) -> Mapping[MessageQueue, QueueStats]:
    """Let a table grow; return where the topic's queues began and ended when it began.

    Args:
        found: what the table has already.

    Raises:
        JobFailed: Spark's query failed.
        ClientError: the cluster cannot be asked.
    """
    goal = cluster.topic_stats(growth.topic)
    waiting = sum(_waiting(stats, found.get(queue)) for queue, stats in goal.items())
    with screen.progress({growth.name: waiting}) as advance:
        run_to_end(lambda: _start(spark, cluster, growth, write), lambda rows: advance(growth.name, rows))
    return goal


def run_to_end(start: Callable[[], StreamingQuery], on_rows: Callable[[int], None]) -> int:
    """Run a query until it ends by itself; return how many rows it has read. However this ends, the query has ended, too.

    Args:
        on_rows: is told now and then how many rows finished micro-batches have read.

    Raises:
        JobFailed: the query has failed; says why.
    """
    from pyspark.errors import StreamingQueryException

    query = start()
    try:
        while not query.awaitTermination(_LOOK_EVERY_S):
            on_rows(_rows(query))
    except StreamingQueryException as error:
        raise JobFailed(str(error).splitlines()[0]) from error
    finally:
        query.stop()
    rows = _rows(query)
    on_rows(rows)
    return rows


def _rows(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def write_part(rows: DataFrame, number: int, directory: Path | HadoopDirectory) -> None:
    """Write the rows of one micro-batch; what an earlier attempt has written of it is replaced.

    Args:
        rows: with a column `storeTimestamp`.
    """
    from pyspark.sql import functions as f

    days = rows.withColumn("date", f.to_date("storeTimestamp")).withColumn("batch", f.lit(batch_name(number)))
    writer = days.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("date", "batch").parquet(str(directory))


def _start(spark: SparkSession, cluster: Cluster, growth: Growth, write: Write) -> StreamingQuery:
    options = {**cluster.options(growth.topic), "startingOffsets": growth.start, "includeDecodeError": "true"}
    if LIMITS_STREAMS:  # without limits a run is one micro-batch
        options["maxOffsetsPerTrigger"] = str(growth.rows_per_batch)
    messages = spark.readStream.format("rocketmq").options(**options).load()
    writer = messages.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(growth.directory / "_checkpoint"))
    return writer.trigger(availableNow=True).start()


def _waiting(stats: QueueStats, found: QueueCount | None) -> int:
    return stats.max_offset - max(stats.min_offset, found.last + 1 if found is not None else 0)


FILE_SIZE_MAX = 256 * 1024 * 1024
"""Bytes; what is larger is not put together any more."""
ORDER = ("brokerName", "queueId", "queueOffset")
_NAME = re.compile(r"batch=b(\d{8,})(?:-(\d{8,}))?")
_MERGING = "_merging"
STAGING = ".spark-staging-*"
"""What a killed run leaves of a micro-batch that it wrote."""


class Part(NamedTuple):
    """A directory with the rows of some micro-batches, of one day."""

    path: Path
    first: int
    last: int
    file_count: int
    size: int


def batch_name(number: int) -> str:
    """Return the value of the column `batch` for the rows of one micro-batch."""
    return f"b{number:08}"


def merge_small_files(spark: SparkSession, archive: Path) -> int:
    """Put small files together; return how many there are fewer. No query may be writing."""
    saved = 0
    for day in _days(archive):
        for run in plan_merges(parts_of(day)):
            _merge(spark, archive / _MERGING, day, run)
            saved += sum(part.file_count for part in run) - 1
    return saved


def finish_merges(archive: Path) -> None:
    """Finish what a run has left that was killed."""
    for left in (archive / _MERGING, *archive.glob(STAGING)):
        shutil.rmtree(left, ignore_errors=True)
    for day in _days(archive):
        merged_to = -1
        for part in parts_of(day):
            if part.last <= merged_to:
                shutil.rmtree(part.path)
            else:
                merged_to = part.last


def parts_of(day: Path) -> list[Part]:
    """Return the parts of one day; one that replaces others comes before them."""
    parts = []
    for path in day.iterdir():
        if (found := _NAME.fullmatch(path.name)) is not None:
            files = [file.stat().st_size for file in path.glob("*.parquet")]
            first, last = int(found[1]), int(found[2] or found[1])
            parts.append(Part(path, first, last, len(files), sum(files)))
    return sorted(parts, key=lambda part: (part.first, -part.last, -len(part.path.name)))


def plan_merges(parts: Sequence[Part], size_max: int = FILE_SIZE_MAX) -> Iterator[list[Part]]:
    """Yield the neighbours that become one file."""
    run: list[Part] = []
    for part in parts:
        if run and sum(other.size for other in run) + part.size > size_max:
            yield from _worthwhile(run)
            run = []
        if part.size <= size_max:
            run.append(part)
    yield from _worthwhile(run)


def _worthwhile(run: list[Part]) -> Iterator[list[Part]]:
    if sum(part.file_count for part in run) > 1:
        yield run


def _merge(spark: SparkSession, workplace: Path, day: Path, run: list[Part]) -> None:
    merged = day / f"batch={batch_name(run[0].first)}-{run[-1].last:08}"
    rows = spark.read.parquet(*(str(part.path) for part in run))
    rows.repartition(1).sortWithinPartitions(*ORDER).write.mode("overwrite").parquet(str(workplace))
    workplace.rename(merged)
    for part in run:
        shutil.rmtree(part.path)


def _days(archive: Path) -> list[Path]:
    return sorted(archive.glob("date=*"))
