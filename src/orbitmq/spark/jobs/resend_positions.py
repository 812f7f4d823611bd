"""Places that messages come from, as columns: which are left, which were sent already, and whether all was sent in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from orbitmq.errors import JobFailed
from orbitmq.files import replace_file
from orbitmq.model.check_result import CheckResult
from orbitmq.model.message import PropertyName
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.offsets import Offsets, format_offsets, parse_offsets, parse_queues
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "_progress.json"
"""In the job's directory."""
RESENT_FROM = "RESENT_FROM"
"""The property: `id/topic/broker/queue/offset`."""


class ResendProgress(NamedTuple):
    """What was sent, and what is sent to.

    Args:
        id: of the job's directory, new for each one.
        targets: the queues that are sent to, the same for all runs: a key stays in its queue when a topic gets more of them.
        began: where the targets' topics ended when they were first sent to.
        ends: where they ended when this was noted.
        done: of each queue that messages come from, the first offset that was not sent yet.
        left_out: how many messages that are done could not be sent.
    """

    id: str
    targets: frozenset[MessageQueue] = frozenset()
    began: Offsets = {}
    ends: Offsets = {}
    done: Offsets = {}
    left_out: int = 0

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that are sent to, in an order that stays."""
        return sorted(queue for queue in self.targets if queue.topic == topic)

    def origin(self, queue: MessageQueue, offset: int) -> str:
        """Return the value of `RESENT_FROM` for the message of a place."""
        return f"{self.id}/{queue.topic}/{queue.broker_name}/{queue.queue_id}/{offset}"


def load_progress(path: Path) -> ResendProgress | None:
    """Return what an earlier run has noted, None where there was none.

    Raises:
        JobFailed: the file is none of ours.
    """
    if not path.exists():
        return None
    try:
        found = orjson.loads(path.read_bytes())
        began, ends, done = (parse_offsets(found[name], 0) for name in ("began", "ends", "done"))
        left_out = int(found.get("leftOut", 0))
        return ResendProgress(str(found["id"]), parse_queues(found["targets"]), began, ends, done, left_out)
    except (KeyError, TypeError, ValueError):
        raise JobFailed(f"{path} cannot be read: without it, begin with a new directory") from None


def save_progress(path: Path, progress: ResendProgress) -> None:
    """Note how far the job is; a power cut leaves the old note or the new one."""
    targets: dict[str, Any] = {}
    for topic, broker_name, queue_id in sorted(progress.targets):
        targets.setdefault(topic, {}).setdefault(broker_name, []).append(queue_id)
    offsets = {name: format_offsets(getattr(progress, name)) for name in ("began", "ends", "done")}
    kept = {"id": progress.id, "targets": targets, **offsets, "leftOut": progress.left_out}
    replace_file(path, orjson.dumps(kept))


QUEUE = ("topic", "brokerName", "queueId")
PLACE = (*QUEUE, "queueOffset")
PART_ROWS = 20_000
PART_BYTES = 16 * 2**20
"""Of a part of the rows, which a task sorts and writes: about, where bodies are of about one size."""
_DONE = "topic string, brokerName string, queueId int, next bigint"


class Size(NamedTuple):
    """How many rows there are, and the bytes of their bodies."""

    row_count: int
    body_size: int


def left_of(spark: SparkSession, rows: DataFrame, done: Offsets) -> DataFrame:
    """Return the rows that are not done yet."""
    return _with_next(spark, rows, done).where("queueOffset >= coalesce(next, 0)").drop("next")


def done_of(spark: SparkSession, rows: DataFrame, done: Offsets) -> DataFrame:
    """Return the rows that are done."""
    return _with_next(spark, rows, done).where("queueOffset < next").drop("next")


def measure(rows: DataFrame) -> Size:
    """Return the size of rows with bodies."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.sum(f.octet_length("body")), f.lit(0))
    return Size(*rows.agg(f.count(f.lit(1)), size).collect()[0])


def part_count(size: Size) -> int:
    """Return into how many parts rows are divided, so that each part is small, whatever all of them are."""
    return max(1, -(-size.row_count // PART_ROWS), -(-size.body_size // PART_BYTES))


def ordered(rows: DataFrame, parts: int) -> DataFrame:
    """Return rows by their store times, those of each queue by their offsets even where a clock went backwards.

    Args:
        parts: into so many of about the same count they are divided.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    so_far = Window.partitionBy(*QUEUE).orderBy("queueOffset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    order = ("at", *PLACE)
    timed = rows.withColumn("at", f.max("storeTimestamp").over(so_far))
    return timed.repartitionByRange(parts, *order).sortWithinPartitions(*order)


def sent_since(
    spark: SparkSession, cluster: Cluster, topics: Sequence[str], progress: ResendProgress, since: Offsets
) -> DataFrame:
    """Return the messages of this job that topics have from some offsets on: `origin`, `key`, `priority`, and where they are.

    Raises:
        ClientError: a topic cannot be asked for, or has no route.
    """
    from pyspark.sql import functions as f

    starts = starts_of(_stats(cluster, topics), since)
    options = {**cluster.options(""), "topics": ",".join(topics), "columns": ",".join((*PLACE, "properties"))}
    del options["topic"]
    options["startingOffsets"] = orjson.dumps(format_offsets(starts)).decode()
    told = f.col("properties")
    return (
        spark.read.format("rocketmq")
        .options(**options)
        .load()
        .select(
            told[RESENT_FROM].alias("origin"),
            told[PropertyName.SHARDING_KEY].alias("key"),
            told[PropertyName.PRIORITY].alias("priority"),
            *PLACE,
        )
        .where(f.col("origin").startswith(f"{progress.id}/"))
    )


def starts_of(found: Mapping[MessageQueue, QueueStats], since: Offsets) -> Offsets:
    """Return where to read from: some offsets, as far as the queues, as they are now, have them."""
    return {queue: min(max(since.get(queue, 0), stats.min_offset), stats.max_offset) for queue, stats in found.items()}


def check_resent(
    spark: SparkSession,
    cluster: Cluster,
    rows: DataFrame,
    topics: Sequence[str],
    before: ResendProgress,
    after: ResendProgress,
) -> list[CheckResult]:
    """Return True if messages are in their topics once each, but for those left out, and those of each key in order.

    Brokers choose the queue of a message with a priority: those of one queue and one priority are like those of a key.

    All that the job has ever sent is checked, or what this run had to send where retention has taken some of it.

    Args:
        topics: those that this run may have sent to.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    stats = _stats(cluster, topics)
    is_whole = all(queue in stats and stats[queue].min_offset <= offset for queue, offset in after.began.items())
    sent = sent_since(spark, cluster, topics, after, after.began if is_whole else before.ends).persist()
    rows = done_of(spark, rows.select(*PLACE), after.done)
    rows = rows if is_whole else left_of(spark, rows, before.done)
    try:
        origin = f.concat_ws("/", f.lit(after.id), *PLACE).alias("origin")
        wanted = rows.select(origin).distinct().join(sent.groupBy("origin").count(), "origin", "left")
        count = wanted.agg(f.count(f.lit(1)).alias("all"), f.count_if(f.col("count") == 1).alias("once")).collect()[0]
        queue = f.substring_index("origin", "/", 4)
        ways = sent.select(
            "topic",
            f.struct("brokerName", "queueId").alias("queue"),
            "queueOffset",
            f.coalesce("key", f.concat_ws("/", queue, "priority")).alias("key"),
            queue.alias("from"),
            f.substring_index("origin", "/", -1).cast("bigint").alias("offset"),
        )
        way = Window.partitionBy("topic", "queue", "key", "from").orderBy("queueOffset")
        ways = ways.withColumn("is_late", f.col("offset") <= f.lag("offset").over(way))
        keys = ways.groupBy("topic", "key").agg(
            (f.count_if("is_late") + f.count_distinct("queue") == 1).alias("is_in_order")
        )
        order = keys.agg(f.count(f.lit(1)).alias("all"), f.count_if("is_in_order").alias("kept")).collect()[0]
    finally:
        sent.unpersist()
    part = "" if is_whole else " of this run"
    left_out = after.left_out - (0 if is_whole else before.left_out)
    told = f", and {left_out:,} left out that cannot be sent" if left_out else ""
    return [
        CheckResult(
            count["once"] + left_out == count["all"],
            f"messages{part}, each in its topic once: {count['once']:,} of {count['all']:,}{told}",
        ),
        CheckResult(
            order["kept"] == order["all"],
            f"keys (or queues, of messages without one) in one queue and in order: {order['kept']:,} of {order['all']:,}",
        ),
    ]


def _stats(cluster: Cluster, topics: Sequence[str]) -> dict[MessageQueue, QueueStats]:
    """Return where topics begin and end. One whose brokers are away must not be passed over: what it has would come again."""
    return {queue: found for topic in topics for queue, found in cluster.readable_stats(topic).items()}


def _with_next(spark: SparkSession, rows: DataFrame, done: Offsets) -> DataFrame:
    from pyspark.sql import functions as f

    noted = spark.createDataFrame([(*queue, offset) for queue, offset in done.items()], _DONE)
    return rows.join(f.broadcast(noted), list(QUEUE), "left")
