"""The job `archive`: a topic becomes Parquet files by day, every message once, however often the job is killed.

Each micro-batch writes partitions of its own (`date=…/batch=…`). One that was killed runs again over the same offsets, which
Spark's checkpoint has, and replaces what it had written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.frame.checks import QueueCount, Verdict, check_queues
from orbitmq.spark.jobs.frame.cluster import Cluster
from orbitmq.spark.jobs.frame.directory import claimed
from orbitmq.spark.jobs.frame.screen import Screen
from orbitmq.spark.jobs.frame.streams import run_to_end
from orbitmq.spark.jobs.merging import batch_name, finish_merges, merge_small_files
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST = "earliest"


class ArchivePlan(NamedTuple):
    """What is archived where.

    Args:
        directory: on a disk that every task sees.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
        merges: small files are put together at the end.
    """

    topic: str
    directory: Path
    start: str
    rows_per_batch: int
    merges: bool


def archive(spark: SparkSession, cluster: Cluster, plan: ArchivePlan, screen: Screen) -> list[Verdict]:
    """Archive what is in a topic now and not in the archive yet; return what the whole archive was checked for.

    Raises:
        JobFailed: Spark's query failed, or another run is under way.
        ConfigError: the directory is for something else.
        ClientError: the cluster cannot be asked.
    """
    subject = {"job": "archive", "topic": plan.topic, "start": plan.start}
    with claimed(plan.directory, subject):
        finish_merges(plan.directory)
        goal = cluster.topic_stats(plan.topic)
        before = count_queues(spark, plan.directory)
        waiting = sum(_waiting(stats, before.get(queue)) for queue, stats in goal.items())
        screen.step(
            f"archiving {plan.topic}: {sum(queue.rows for queue in before.values()):,} messages are there already"
        )
        with screen.progress({"archived": waiting}) as advance:
            run_to_end(lambda: _start(spark, cluster, plan), lambda rows: advance("archived", rows))
        if plan.merges:
            screen.step("putting small files together")
            saved = merge_small_files(spark, plan.directory)
            screen.step(f"{saved:,} files fewer")
        screen.step("checking")
        return check_archive(goal, count_queues(spark, plan.directory), is_whole=plan.start == EARLIEST)


def check_archive(
    goal: Mapping[MessageQueue, QueueStats], found: Mapping[MessageQueue, QueueCount], *, is_whole: bool
) -> list[Verdict]:
    """Return what holds of an archive.

    Args:
        goal: where the topic's queues began and ended when the run began.
        is_whole: the archive begins with the topic's first message.
    """
    verdicts = check_queues(found.values())
    filled = {queue: stats for queue, stats in goal.items() if stats.max_offset > stats.min_offset}
    if is_whole:
        reached = [
            queue
            for queue, stats in filled.items()
            if queue in found and found[queue].first <= stats.min_offset and found[queue].last + 1 >= stats.max_offset
        ]
        claim = f"all that was in the topic when the run began is there: {len(reached)} of {len(filled)} queues"
        verdicts.append(Verdict(len(reached) == len(filled), claim))
    return verdicts


def count_queues(spark: SparkSession, directory: Path) -> dict[MessageQueue, QueueCount]:
    """Count the messages of an archive by their queues."""
    from pyspark.sql import functions as f

    if not any(directory.glob("date=*/batch=*/*.parquet")):
        return {}
    columns = "topic string, brokerName string, queueId int, queueOffset bigint"
    rows = spark.read.schema(columns).parquet(str(directory))
    queues = rows.groupBy("topic", "brokerName", "queueId").agg(
        f.count(f.lit(1)).alias("rows"),
        f.count_distinct("queueOffset").alias("distinct"),
        f.min("queueOffset").alias("first"),
        f.max("queueOffset").alias("last"),
    )
    return {
        MessageQueue(row["topic"], row["brokerName"], row["queueId"]): QueueCount(
            row["rows"], row["distinct"], row["first"], row["last"]
        )
        for row in queues.collect()
    }


def _start(spark: SparkSession, cluster: Cluster, plan: ArchivePlan):  # type: ignore[no-untyped-def]
    options = {
        **cluster.options(plan.topic),
        "startingOffsets": plan.start,
        "maxOffsetsPerTrigger": str(plan.rows_per_batch),
    }
    messages = spark.readStream.format("rocketmq").options(**options).load()
    writer = messages.writeStream.foreachBatch(lambda rows, number: _write(rows, number, plan.directory))
    writer = writer.option("checkpointLocation", str(plan.directory / "_checkpoint"))
    return writer.trigger(availableNow=True).start()


def _write(rows: DataFrame, number: int, directory: Path) -> None:
    """Write one micro-batch; what an earlier attempt has written of it is replaced."""
    from pyspark.sql import functions as f

    days = rows.withColumn("date", f.to_date("storeTimestamp")).withColumn("batch", f.lit(batch_name(number)))
    writer = days.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("date", "batch").parquet(str(directory))


def _waiting(stats: QueueStats, found: QueueCount | None) -> int:
    return stats.max_offset - max(stats.min_offset, found.last + 1 if found is not None else 0)
