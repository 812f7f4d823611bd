"""The job `archive`: a topic becomes Parquet files by day, every message once, however often the job is killed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.errors import ConfigError
from orbitmq.job_directory import check_claimable
from orbitmq.model.check_result import CheckResult
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.directories import HadoopDirectory, opened
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.tables import STAGING, Growth, QueueCount, finish_merges, grow, merge_small_files, write_part
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = "earliest"


class ArchivePlan(NamedTuple):
    """What is archived where.

    Args:
        directory: on a disk that every task sees, or the URI of one in another file system.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
        merges: small files are put together at the end, which only a disk allows.
    """

    topic: str
    directory: Path | str
    start: str
    rows_per_batch: int
    merges: bool

    @property
    def subject(self) -> dict[str, str]:
        """What a directory remembers that it is for."""
        return {"job": "archive", "topic": self.topic, "start": self.start}


def check_plan(cluster: Cluster, plan: ArchivePlan) -> None:
    """Find out before Spark starts what the job would refuse: a mistyped topic claims no directory.

    Raises: as `archive`.
    """
    cluster.topic_stats(plan.topic)
    if isinstance(plan.directory, Path):
        check_claimable(plan.directory, plan.subject)


def archive(spark: SparkSession, cluster: Cluster, plan: ArchivePlan, screen: Screen) -> list[CheckResult]:
    """Archive what is in a topic now and not in the archive yet; return what the whole archive was checked for.

    Raises:
        JobFailed: Spark's query failed, or another run is under way.
        ConfigError: the directory is for something else.
        ClientError: the cluster cannot be asked.
    """
    check_plan(cluster, plan)
    with opened(spark, plan.directory, plan.subject) as directory:
        if isinstance(directory, Path):
            finish_merges(directory)
        else:
            directory.remove(STAGING)
        before = count_queues(spark, directory)
        screen.step(
            f"archiving {plan.topic}: {sum(queue.rows for queue in before.values()):,} messages are there already"
        )
        growth = Growth(plan.topic, directory, plan.start, plan.rows_per_batch, "archived")
        goal = grow(spark, cluster, growth, before, lambda rows, number: write_part(rows, number, directory), screen)
        if plan.merges and isinstance(directory, Path):
            screen.step("putting small files together")
            saved = merge_small_files(spark, directory)
            screen.step(f"{saved:,} files fewer")
        screen.step("checking")
        return check_archive(goal, count_queues(spark, directory), is_whole=plan.start == EARLIEST)


def check_archive(
    goal: Mapping[MessageQueue, QueueStats], found: Mapping[MessageQueue, QueueCount], *, is_whole: bool
) -> list[CheckResult]:
    """Return what holds of an archive.

    Args:
        goal: where the topic's queues began and ended when the run began.
        is_whole: the archive begins with the topic's first message.
    """
    results = check_queues(found.values())
    filled = {queue: stats for queue, stats in goal.items() if stats.max_offset > stats.min_offset}
    if is_whole:
        reached = [
            queue
            for queue, stats in filled.items()
            if queue in found and found[queue].first <= stats.min_offset and found[queue].last + 1 >= stats.max_offset
        ]
        claim = f"all that was in the topic when the run began is there: {len(reached)} of {len(filled)} queues"
        results.append(CheckResult(len(reached) == len(filled), claim))
    return results


def check_queues(queues: Iterable[QueueCount]) -> list[CheckResult]:
    """Return True if the messages of all queues are there once each."""
    queues = list(queues)
    rows, distinct = sum(queue.rows for queue in queues), sum(queue.distinct for queue in queues)
    return [
        CheckResult(rows == distinct, f"rows = different messages: {rows:,} = {distinct:,}"),
        CheckResult(
            all(queue.is_contiguous for queue in queues), f"offsets are contiguous in each of {len(queues)} queues"
        ),
    ]


def has_rows(directory: Path | HadoopDirectory) -> bool:
    """Return True if anything was archived there."""
    return any(directory.glob("date=*/batch=*/*.parquet"))


def check_finished(directory: Path | HadoopDirectory) -> None:
    """Raise ConfigError where a run was killed in a micro-batch, whose files may be there in part."""
    begun, done = (
        max((int(str(path).rpartition("/")[2]) for path in directory.glob(f"_checkpoint/{kind}/[0-9]*")), default=-1)
        for kind in ("offsets", "commits")
    )
    if begun > done:
        wanted = f"a finished one: archive it again, or delete _checkpoint/offsets/{begun} where its topic is gone"
        raise ConfigError("source", f"{directory}, whose micro-batch {begun} is unfinished", wanted)


def count_queues(spark: SparkSession, *tables: Path | HadoopDirectory) -> dict[MessageQueue, QueueCount]:
    """Count the messages of tables by their queues."""
    from pyspark.sql import functions as f

    columns = "topic string, brokerName string, queueId int, queueOffset bigint"
    # Not one reading of several paths, which Spark refuses where each has partitions.
    parts = [
        spark.read.schema(columns).parquet(str(table)).drop("date", "batch") for table in tables if has_rows(table)
    ]
    if not parts:
        return {}
    queues = (
        reduce(lambda rows, part: rows.unionAll(part), parts)
        .groupBy("topic", "brokerName", "queueId")
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.count_distinct("queueOffset").alias("distinct"),
            f.min("queueOffset").alias("first"),
            f.max("queueOffset").alias("last"),
        )
    )
    return {
        MessageQueue(row["topic"], row["brokerName"], row["queueId"]): QueueCount(
            row["rows"], row["distinct"], row["first"], row["last"]
        )
        for row in queues.collect()
    }
