"""The Spark part of the quickstart: two streams, a summary that is sent, and the figures that are checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.quickstart.checks import Seen
from examples.quickstart.flights import LATE_MINUTES
from examples.quickstart.messages import Run, publish
from orbitmq.net.loop import run as run_loop
from orbitmq.spark.driver.session import local_session
from orbitmq.spark.driver.supervision import SupervisedQuery
from orbitmq.spark.jobs.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FLIGHT_DDL = "carrier string, hour int, dep_time int, dep_delay int, arr_delay int, origin string, dest string"


Queries = tuple[SupervisedQuery, SupervisedQuery]


@contextmanager
def starting_spark(out: Path) -> Iterator[Future[SparkSession]]:
    """Start Spark in a thread, with its own files under `out`: there is work to do until it is up."""
    settings = {
        "spark.sql.warehouse.dir": str((out / "warehouse").resolve()),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    with warnings.catch_warnings(), ThreadPoolExecutor(1) as threads:
        warnings.simplefilter("ignore", FutureWarning)  # pyspark warns of versions of pandas, which is not used
        starting = threads.submit(local_session, "orbitmq quickstart", settings=settings)
        try:
            yield starting
        finally:
            if starting.exception() is None:
                starting.result().stop()


@contextmanager
def starting_queries(starting: Future[SparkSession], run: Run, screen: Screen) -> Iterator[Future[Queries]]:
    """Start both queries in a thread, as soon as Spark is up."""
    with ThreadPoolExecutor(1) as threads:
        queries = threads.submit(lambda: _start_queries(starting.result(), run, screen))
        try:
            yield queries
        finally:
            if queries.exception() is None:
                for query in queries.result():
                    query.stop()


def stream_flights(
    starting: Future[SparkSession], run: Run, count: int, screen: Screen, path: Path, months: int
) -> tuple[int, list[dict[str, Any]]]:
    """Publish the flights while two queries read them; return how many were sent and what the second one found."""
    with starting_queries(starting, run, screen) as queries:
        screen.step(f"publishing {count:,} flights to {run.topic} while Spark starts, and reads them")
        with screen.progress({"published": count, "read": count}) as advance:
            sent = run_loop(
                publish(run, path, months, advance, lambda: queries.result()[0].rows_read if queries.done() else 0)
            )
            rows, hourly = queries.result()
            while rows.rows_read < sent:
                rows.wait(1)
                advance("read", rows.rows_read)
            rows.catch_up()
            hourly.catch_up()
        found = starting.result().table("hourly")
        found.coalesce(1).write.parquet(str(run.out / "delays"))
        return sent, [row.asDict() for row in found.collect()]


def send_summary(flights: DataFrame, run: Run) -> int:
    """Send one message per carrier to the second topic; return how many."""
    from pyspark.sql import functions as f

    carriers = flights.groupBy("carrier").agg(
        f.count(f.lit(1)).alias("flights"),
        (f.count(f.lit(1)) - f.count("dep_time")).alias("cancelled"),
        f.count_if(f.col("arr_delay") > LATE_MINUTES).alias("late"),
        f.avg("arr_delay").alias("mean_delay"),
        f.percentile("arr_delay", f.lit(0.95)).alias("p95_delay"),
    )
    messages = carriers.select(
        f.to_json(f.struct("*")).alias("body"), f.col("carrier").alias("tags"), f.col("carrier").alias("keys")
    ).cache()
    sink = {"nameServer": run.name_servers, "topic": run.summary_topic}
    messages.write.format("rocketmq").options(**sink).mode("append").save()
    return int(messages.count())


def collect_findings(
    flights: DataFrame,
    hourly: Sequence[dict[str, Any]],
    sent: int,
    received: Sequence[dict[str, Any]],
    summary_count: int,
) -> Seen:
    """Collect from Spark what the checks need."""
    from pyspark.sql import functions as f

    queues = flights.groupBy("brokerName", "queueId").agg(
        f.count(f.lit(1)).alias("count"),
        f.min("queueOffset").alias("first"),
        f.max("queueOffset").alias("last"),
        f.count_distinct("queueOffset").alias("distinct"),
    )
    origins = flights.groupBy("origin").count().collect()
    totals = flights.agg(
        f.avg("arr_delay").alias("mean"), f.count_if(f.col("dep_time").isNull()).alias("cancelled")
    ).first()
    return Seen(
        sent=sent,
        queues=[row.asDict() for row in queues.collect()],
        origins={row["origin"]: row["count"] for row in origins},
        mean_arrival_delay=totals["mean"],
        cancelled=totals["cancelled"],
        hourly={(row["carrier"], row["hour"]): row for row in hourly},
        summaries={summary["carrier"]: summary for summary in received},
        summary_count=summary_count,
    )


def _start_queries(spark: SparkSession, run: Run, screen: Screen) -> Queries:
    """Start one query that keeps the flights as Parquet, and one that sums them up by carrier and hour."""
    from pyspark.sql import functions as f

    source = {"nameServer": run.name_servers, "topic": run.topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("rocketmq").options(**source).load()
    flight = f.from_json(f.col("body").cast("string"), _FLIGHT_DDL)
    flights = messages.select("brokerName", "queueId", "queueOffset", "tags", "keys", flight.alias("flight"))
    rows = (
        flights.select("brokerName", "queueId", "queueOffset", "tags", "keys", "flight.*")
        .writeStream.format("parquet")
        .option("path", str(run.out / "flights"))
        .option("checkpointLocation", str(run.out / "checkpoints" / "flights"))
        .trigger(processingTime="1 second")
    )
    hourly = (
        flights.groupBy("flight.carrier", "flight.hour")
        .agg(
            f.count("flight.dep_delay").alias("departures"),
            f.avg("flight.dep_delay").alias("mean_delay"),
            f.percentile("flight.dep_delay", f.lit(0.95)).alias("p95_delay"),
        )
        .writeStream.format("memory")
        .queryName("hourly")
        .outputMode("complete")
        .trigger(processingTime="2 seconds")
    )
    return SupervisedQuery(rows.start, screen.step), SupervisedQuery(hourly.start, screen.step)
