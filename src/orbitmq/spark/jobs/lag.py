"""The job `lag`: how far a group is behind in a topic, looked at again and again; a table and a picture over all of it.

```
DIRECTORY/lag.jsonl   a line for each moment; what was unknown then is null, never 0
DIRECTORY/lag.svg     the lag of all queues together over time, replaced by each run
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.admin.client import AdminClient
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.net.security.client_security import load_security
from orbitmq.spark.jobs.lag_samples import (
    SCHEMA,
    UNKNOWN,
    GroupPosition,
    append_sample,
    encode_sample,
    recover_samples,
)
from orbitmq.spark.jobs.plots import Point, draw_lag
from orbitmq.spark.jobs.runtime.checks import CheckResult
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.directory import claimed
from orbitmq.spark.jobs.runtime.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_TIMEOUT_MS = 10_000
"""For each request: a moment with a broker that hangs longer is unknown."""


class LagPlan(NamedTuple):
    """Whose lag is watched, how often, and where it is kept.

    Args:
        moments: looks of this run.
        every_s: seconds from one moment to the next.
    """

    group: str
    topic: str
    directory: Path
    moments: int
    every_s: float

    @property
    def file(self) -> Path:
        """The samples of all runs."""
        return self.directory / "lag.jsonl"


class Summary(NamedTuple):
    """What Spark finds in the samples of all runs."""

    moments: int
    values: int
    distinct: int
    unknown: int
    unknown_shown: int
    """Values that have a lag although their offset or end is unknown, or none although both are known."""


def watch_lag(spark: SparkSession, cluster: Cluster, plan: LagPlan, screen: Screen) -> list[CheckResult]:
    """Look at a group's lag some times; show all that was seen, also by earlier runs; return what it was checked for.

    Raises:
        JobFailed: another run is under way, or the samples cannot be read.
        ConfigError: the directory is for something else.
        ClientError: the cluster cannot be asked at the very first moment.
    """
    with claimed(plan.directory, {"job": "lag", "group": plan.group, "topic": plan.topic}):
        before, queues = recover_samples(plan.file, plan.topic)
        screen.step(f"watching {plan.group} in {plan.topic}: {before:,} moments are there already")
        with screen.progress({"moments": plan.moments}) as advance:
            run(_watch(cluster, plan, queues, lambda done: advance("moments", done), screen))
        rows = spark.read.schema(SCHEMA).json(str(plan.file))
        _report(plan, rows, screen)
        screen.step("checking")
        return check_samples(before + plan.moments, _summarise(rows))


def check_samples(expected: int, found: Summary) -> list[CheckResult]:
    """Return what holds of the samples of all runs.

    Args:
        expected: moments that were there before, and those of this run.
    """
    return [
        CheckResult(found.moments == expected, f"moments kept = moments looked at: {found.moments:,} = {expected:,}"),
        CheckResult(
            found.values == found.distinct,
            f"each moment has each queue once: {found.values:,} values, {found.distinct:,} different",
        ),
        CheckResult(
            found.unknown_shown == 0,
            f"a lag is null where its offset or end is unknown, and only there: {found.unknown:,} of {found.values:,}",
        ),
    ]


async def look(
    admin: AdminClient, group: str, topic: str, known: Sequence[MessageQueue]
) -> tuple[Mapping[MessageQueue, GroupPosition], str | None]:
    """Return where a group is in each queue now, and why that is unknown where brokers cannot be asked.

    Args:
        known: queues of the moment before.

    Raises:
        ClientError: the cluster cannot be asked, and no queue is known.
    """
    try:
        ends = await admin.topic_stats(topic)
        places = await admin.group_lag(group, topic)
        committed = {
            queue: place.committed
            for queue, place in places.items()
            if place.committed or await admin.group_has_committed(group, queue)
        }
    except ClientError as error:
        if not known:
            raise
        return dict.fromkeys(known, UNKNOWN), str(error)
    found = {queue: GroupPosition(committed.get(queue), stats.max_offset) for queue, stats in ends.items()}
    return {**dict.fromkeys(known, UNKNOWN), **found}, None


async def _watch(
    cluster: Cluster, plan: LagPlan, queues: Sequence[MessageQueue], on_done: Callable[[int], None], screen: Screen
) -> None:
    access = load_security(cluster.security)._asdict()
    issue = None
    loop = asyncio.get_running_loop()
    async with AdminClient(cluster.name_servers, timeout_ms=_QUERY_TIMEOUT_MS, **access) as admin:
        for number in range(plan.moments):
            next_at = loop.time() + plan.every_s
            at_ms, told = now_ms(), issue
            places, issue = await look(admin, plan.group, plan.topic, queues)
            if issue is not None and issue != told:
                screen.step(f"unknown: {issue}")
            append_sample(plan.file, encode_sample(at_ms, places, issue))
            queues = list(places)
            on_done(number + 1)
            if number + 1 < plan.moments:
                await asyncio.sleep(max(0.0, next_at - loop.time()))


def _values(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("at_ms", "inline(queues)")


def _summarise(rows: DataFrame) -> Summary:
    moments = rows.count()
    found = (
        _values(rows)
        .selectExpr(
            "count(*) as values",
            "count(distinct at_ms, broker, queue) as distinct",
            "count_if(lag is null) as unknown",
            "count_if((lag is null) != (committed is null or end is null)) as shown",
        )
        .collect()[0]
    )
    return Summary(moments, found["values"], found["distinct"], found["unknown"], found["shown"])


def _report(plan: LagPlan, rows: DataFrame, screen: Screen) -> None:
    values = _values(rows)
    total = "case when count_if(lag is null) = 0 then sum(lag) end as lag"
    moments = values.groupBy("at_ms").agg(*_expressions(total)).orderBy("at_ms").collect()
    points = [Point(row["at_ms"], row["lag"]) for row in moments]
    replace_file(plan.directory / "lag.svg", draw_lag(f"Lag of {plan.group} in {plan.topic}", points).encode())
    queues = values.groupBy("broker", "queue").agg(
        *_expressions(
            "count(*) as moments",
            "count_if(lag is null) as unknown",
            "percentile(lag, 0.5) as median",
            "max(lag) as most",
            "max_by(struct(lag), at_ms).lag as last",
        )
    )
    table = [
        (f"{row['broker']} {row['queue']}", row["moments"], row["unknown"], *map(_shown, row[4:]))
        for row in queues.orderBy("broker", "queue").collect()
    ]
    columns = ("queue", "moments", "unknown", "median", "most", "last")
    screen.table(f"Lag of {plan.group} in {plan.topic}", columns, table)


def _expressions(*texts: str) -> list[object]:
    from pyspark.sql import functions as f

    return [f.expr(text) for text in texts]


def _shown(lag: float | None) -> str:
    return "?" if lag is None else f"{lag:,.0f}"
