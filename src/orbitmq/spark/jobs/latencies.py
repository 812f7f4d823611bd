"""Traces as rows, and the latencies out of them: from the sending of a message to the end of its consumption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.monitoring.plots import svg_of
from orbitmq.wire.messages.traces import (
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Trace,
    decode_traces,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, Row, SparkSession


SHARES = (0.5, 0.95, 0.99)
_MARKS = (("p50_ms", "median"), ("p95_ms", "95 %"), ("p99_ms", "99 %"))
_ROW_INCHES = 0.4


class Latency(NamedTuple):
    """How long the messages of a topic took to a group, in ms."""

    topic: str
    group: str
    messages: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: int


class Consumptions(NamedTuple):
    """Messages that groups have consumed, each once for each group, by whether their latency is known.

    Args:
        measured: those with a latency.
        untold: their sending was not traced.
        delayed: late on purpose.
        earlier: sent before what is asked for.
        backwards: of the measured ones those that ended before they were sent, by their hosts' clocks.
        failed: attempts that failed, of all messages.
    """

    all: int
    measured: int
    untold: int
    delayed: int
    earlier: int
    backwards: int
    failed: int


def consumptions(spark: SparkSession, table: Path, since_ms: int) -> DataFrame:
    """Return one row for each message and group that has consumed it, at the first success.

    Columns: messageId, group, doneMs, topic, sentMs, isDelayed, latencyMs, and `fate`: how `Consumptions` counts it.
    """
    from pyspark.sql import functions as f

    sent = (
        told(spark, table, PUBLISHED)
        .where("isSuccess")
        .groupBy("messageId")
        .agg(f.min("atMs").alias("sentMs"), f.min("topic").alias("topic"), f.bool_or("isDelayed").alias("isDelayed"))
    )
    fate = (
        f.when(f.isnull("sentMs"), "untold")
        .when(f.col("isDelayed"), "delayed")
        .when(f.col("sentMs") < since_ms, "earlier")
        .otherwise("measured")
    )
    done = ends(spark, table).where("isSuccess").groupBy("messageId", "group").agg(f.min("doneMs").alias("doneMs"))
    return (
        done.join(sent, "messageId", "left")
        .withColumn("latencyMs", f.col("doneMs") - f.col("sentMs"))
        .withColumn("fate", fate)
    )


def ends(spark: SparkSession, table: Path) -> DataFrame:
    """Return the consumptions that have ended; where the end tells neither group nor time, the start does."""
    from pyspark.sql import functions as f

    begun = told(spark, table, BEGUN).select(
        "requestId", "messageId", f.col("group").alias("begunGroup"), f.col("atMs").alias("begunMs")
    )
    return (
        told(spark, table, ENDED)
        .join(begun.dropDuplicates(["requestId", "messageId"]), ["requestId", "messageId"], "left")
        .withColumn("group", f.coalesce("group", "begunGroup"))
        .withColumn("doneMs", f.coalesce("atMs", f.col("begunMs") + f.col("costMs")))
        .where("group is not null and doneMs is not null")
    )


def told(spark: SparkSession, table: Path, kind: str) -> DataFrame:
    """Return the traces of a kind; one that was told twice, because its sending was tried again, comes once."""
    traces = spark.read.parquet(str(table)).selectExpr("inline(traces)")
    return traces.where(f"kind = '{kind}'").dropDuplicates()


def count_undecodable(spark: SparkSession, table: Path) -> int:
    """Return how many trace messages have no trace that can be decoded."""
    return int(spark.read.parquet(str(table)).where("traces IS NULL").count())


def find_latencies(found: DataFrame) -> list[Latency]:
    """Return the latencies of measured consumptions by topic and group."""
    from pyspark.sql import functions as f

    groups = found.where("fate = 'measured'").groupBy("topic", "group")
    rows = groups.agg(
        f.count(f.lit(1)).alias("messages"),
        f.percentile("latencyMs", list(SHARES)).alias("shares"),
        f.max("latencyMs").alias("max"),
    ).orderBy("topic", "group")
    return [_latency(row) for row in rows.collect()]


def _latency(row: Row) -> Latency:
    p50_ms, p95_ms, p99_ms = row["shares"]
    return Latency(row["topic"], row["group"], row["messages"], p50_ms, p95_ms, p99_ms, row["max"])


def count_consumptions(spark: SparkSession, table: Path, found: DataFrame) -> Consumptions:
    """Count what has a latency, and what has none."""
    from pyspark.sql import functions as f

    over = ends(spark, table)
    row = found.agg(
        *(f.count_if(f.col("fate") == fate).alias(fate) for fate in ("measured", "untold", "delayed", "earlier")),
        f.count_if((f.col("fate") == "measured") & (f.col("latencyMs") < 0)).alias("backwards"),
    ).collect()[0]
    succeeded = over.where("isSuccess").select("messageId", "group").distinct().count()
    return Consumptions(all=succeeded, failed=over.where("not isSuccess").count(), **row.asDict())


PUBLISHED, BEGUN, ENDED = "published", "begun", "ended"


class TraceRow(NamedTuple):
    """One trace. A consumption has a request id and no topic, a sending the other way round."""

    kind: str
    atMs: int | None  # noqa: N815
    group: str | None
    topic: str | None
    messageId: str  # noqa: N815
    requestId: str | None  # noqa: N815
    costMs: int | None  # noqa: N815
    isSuccess: bool | None  # noqa: N815
    isDelayed: bool | None  # noqa: N815


SCHEMA = (
    "array<struct<kind:string,atMs:bigint,group:string,topic:string,messageId:string,requestId:string,"
    "costMs:bigint,isSuccess:boolean,isDelayed:boolean>>"
)
_LONG_MAX = 2**63 - 1


def trace_rows(body: bytes | bytearray | None) -> list[TraceRow] | None:
    """Return the sendings and consumptions of a trace message; what is none is left out. None: the body has no trace at all."""
    traces = decode_traces(bytes(body or b""))
    if not traces:
        return None
    rows = map(_row, traces)
    return [
        row for row in rows if row is not None and all(abs(number or 0) <= _LONG_MAX for number in (row[1], row[6]))
    ]


def _row(trace: Trace) -> TraceRow | None:
    if isinstance(trace, Published):
        is_delayed = trace.kind is MessageKind.DELAYED
        return TraceRow(
            PUBLISHED, trace.at_ms, trace.group, trace.topic, trace.message_id, None, trace.cost_ms, trace.is_success, is_delayed
        )  # fmt: skip
    if isinstance(trace, ConsumptionBegun):
        return TraceRow(BEGUN, trace.at_ms, trace.group, None, trace.message_id, trace.request_id, None, None, None)
    if isinstance(trace, ConsumptionEnded):
        at_ms, group = trace.at_ms or None, trace.group or None  # old clients tell neither
        return TraceRow(
            ENDED, at_ms, group, None, trace.message_id, trace.request_id, trace.cost_ms, trace.is_success, None
        )
    return None


def draw_latencies(latencies: Sequence[Latency]) -> str:
    """Return the picture of latencies, as SVG: a line for each topic and group, from the median to the slowest.

    The scale is logarithmic; what took less than a millisecond stands at one.
    """
    return svg_of(plot_latencies(latencies))


def plot_latencies(latencies: Sequence[Latency]) -> Figure:
    """Return the picture of `draw_latencies` as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + _ROW_INCHES * max(len(latencies), 1)), layout="constrained")
    axes = figure.subplots()
    axes.set_title("From sending to the end of consumption, by topic and group", loc="left")
    axes.set_xscale("log")
    axes.set_xlabel("ms")
    rows = range(len(latencies))
    for row, latency in zip(rows, latencies, strict=True):
        ends = [max(latency.p50_ms, 1), max(latency.max_ms, 1)]
        axes.plot(ends, [row, row], color="#999999", label="_" if row else "up to the slowest")
    for field, name in _MARKS:
        axes.scatter([max(getattr(latency, field), 1) for latency in latencies], rows, label=name, zorder=3)
    names = [f"{latency.topic} → {latency.group}" for latency in latencies]
    axes.set_yticks(rows, names, parse_math=False)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd")
    axes.legend(loc="best")
    return figure
