"""The job `trace`: a message-trace topic becomes a table, and end-to-end latencies by topic and group, with a picture.

```
DIRECTORY/traces/date=…/batch=…   the trace messages, decoded in the column `traces`
DIRECTORY/latency.json, .svg      percentiles, replaced as a whole by each run
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from orbitmq.files import replace_file
from orbitmq.job_directory import check_claimable, claimed
from orbitmq.model.check_result import CheckResult
from orbitmq.spark.jobs.archive import EARLIEST, check_archive, count_queues, has_rows
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.latencies import (
    SCHEMA,
    Consumptions,
    Latency,
    consumptions,
    count_consumptions,
    count_undecodable,
    draw_latencies,
    find_latencies,
    trace_rows,
)
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.tables import Growth, finish_merges, grow, merge_small_files, write_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "bornHost")


class TracePlan(NamedTuple):
    """Which traces are evaluated, and where the results go.

    Args:
        topic: the trace topic.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
        since_ms: messages that were sent before have no part in the latencies.
    """

    topic: str
    directory: Path
    start: str
    rows_per_batch: int
    since_ms: int

    @property
    def table(self) -> Path:
        """The directory of decoded traces."""
        return self.directory / "traces"

    @property
    def subject(self) -> dict[str, str]:
        """What a directory remembers that it is for."""
        return {"job": "trace", "topic": self.topic, "start": self.start}


def check_plan(cluster: Cluster, plan: TracePlan) -> None:
    """Find out before Spark starts what the job would refuse: a mistyped topic claims no directory.

    Raises: as `evaluate_traces`.
    """
    cluster.topic_stats(plan.topic)
    check_claimable(plan.directory, plan.subject)


def evaluate_traces(spark: SparkSession, cluster: Cluster, plan: TracePlan, screen: Screen) -> list[CheckResult]:
    """Take in what clients have told since the run before, and find latencies; return what all was checked for.

    Raises:
        JobFailed: Spark's query failed, or another run is under way.
        ConfigError: the directory is for something else.
        ClientError: the cluster cannot be asked.
    """
    check_plan(cluster, plan)
    with claimed(plan.directory, plan.subject):
        finish_merges(plan.table)
        before = count_queues(spark, plan.table)
        screen.step(
            f"reading {plan.topic}: {sum(queue.rows for queue in before.values()):,} messages are there already"
        )
        growth = Growth(plan.topic, plan.directory, plan.start, plan.rows_per_batch, "read")
        goal = grow(spark, cluster, growth, before, lambda rows, number: _write(rows, number, plan.table), screen)
        merge_small_files(spark, plan.table)
        screen.step("finding latencies")
        latencies, counts = _find(spark, plan)
        undecodable = count_undecodable(spark, plan.table) if has_rows(plan.table) else 0
        _report(plan, latencies, counts, undecodable, screen)
        screen.step("checking")
        results = check_archive(goal, count_queues(spark, plan.table), is_whole=plan.start == EARLIEST)
        return [*results, *check_consumptions(latencies, counts)]


def check_consumptions(latencies: list[Latency], counts: Consumptions) -> list[CheckResult]:
    """Return True if every consumption is counted once: in a latency, or as one that has none for a reason."""
    measured = sum(latency.messages for latency in latencies)
    told = counts.measured + counts.untold + counts.delayed + counts.earlier
    claim = (
        f"{counts.all:,} consumptions = {counts.measured:,} with a latency + {counts.untold:,} whose sending was not traced"
        f" + {counts.delayed:,} delayed + {counts.earlier:,} sent earlier"
    )
    return [
        CheckResult(counts.all == told, claim),
        CheckResult(
            measured == counts.measured, f"latencies of {measured:,} messages are summed up in {len(latencies)} rows"
        ),
    ]


def _write(rows: DataFrame, number: int, table: Path) -> None:
    from pyspark.sql import functions as f

    decode = f.udf(trace_rows, SCHEMA, useArrow=False)  # Arrow's way would need pandas
    traces = f.when(f.isnull("decodeError"), decode("body"))
    write_part(rows.select(*_KEPT, traces.alias("traces")), number, table)


def _find(spark: SparkSession, plan: TracePlan) -> tuple[list[Latency], Consumptions]:
    if not has_rows(plan.table):
        return [], Consumptions(0, 0, 0, 0, 0, 0, 0)
    found = consumptions(spark, plan.table, plan.since_ms).persist()
    try:
        return find_latencies(found), count_consumptions(spark, plan.table, found)
    finally:
        found.unpersist()


def _report(plan: TracePlan, latencies: list[Latency], counts: Consumptions, undecodable: int, screen: Screen) -> None:
    rows = [latency._asdict() for latency in latencies]
    document = {"latencies": rows, "consumptions": counts._asdict(), "undecodable": undecodable}
    replace_file(plan.directory / "latency.json", orjson.dumps(document, option=orjson.OPT_INDENT_2))
    replace_file(plan.directory / "latency.svg", draw_latencies(latencies).encode())
    columns = ("topic → group", "messages", "median ms", "95 %", "99 %", "slowest")
    screen.table(
        "From sending to the end of consumption",
        columns,
        [(f"{latency.topic} → {latency.group}", *latency[2:6], float(latency.max_ms)) for latency in latencies],
    )
    if undecodable:
        screen.step(f"{undecodable:,} trace messages have no trace that can be decoded")
    screen.step(f"{counts.failed:,} attempts to consume have failed")
    if counts.backwards:
        screen.step(f"{counts.backwards:,} messages ended before they were sent: the clocks of their hosts differ")
