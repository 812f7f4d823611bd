"""Growth of a table by what is in a topic now, and not in the table yet: every message once, however often it is killed.

Each micro-batch writes partitions of its own (`date=…/batch=…`). One that was killed runs again over the same offsets, which
Spark's checkpoint has, and replaces what it had written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.frame.checks import QueueCount
from orbitmq.spark.jobs.frame.cluster import Cluster
from orbitmq.spark.jobs.frame.screen import Screen
from orbitmq.spark.jobs.frame.streams import run_to_end
from orbitmq.spark.jobs.tables.merging import batch_name
from orbitmq.spark.versions import LIMITS_STREAMS
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Write = Callable[["DataFrame", int], None]
"""Writes one micro-batch; may be called again for the newest one."""


class Growth(NamedTuple):
    """Which messages a table grows by.

    Args:
        directory: has the checkpoint; on a disk that every task sees.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
        name: of what happens to messages, on the screen.
    """

    topic: str
    directory: Path
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


def write_part(rows: DataFrame, number: int, directory: Path) -> None:
    """Write the rows of one micro-batch; what an earlier attempt has written of it is replaced.

    Args:
        rows: with a column `storeTimestamp`.
    """
    from pyspark.sql import functions as f

    days = rows.withColumn("date", f.to_date("storeTimestamp")).withColumn("batch", f.lit(batch_name(number)))
    writer = days.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("date", "batch").parquet(str(directory))


def _start(spark: SparkSession, cluster: Cluster, growth: Growth, write: Write):  # type: ignore[no-untyped-def]
    options = {**cluster.options(growth.topic), "startingOffsets": growth.start}
    if LIMITS_STREAMS:  # without limits a run is one micro-batch
        options["maxOffsetsPerTrigger"] = str(growth.rows_per_batch)
    messages = spark.readStream.format("rocketmq").options(**options).load()
    writer = messages.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(growth.directory / "_checkpoint"))
    return writer.trigger(availableNow=True).start()


def _waiting(stats: QueueStats, found: QueueCount | None) -> int:
    return stats.max_offset - max(stats.min_offset, found.last + 1 if found is not None else 0)
