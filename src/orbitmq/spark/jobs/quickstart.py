"""The first flight: a real table travels through NameServer, broker and Spark, and the job checks every step.

    python -m orbitmq.spark.jobs.quickstart [--name-servers HOST:PORT;...] [--months N] [--out DIR] [--data FILE]

336,776 flights are published as messages while Structured Streaming reads the topic: one query keeps the rows as
Parquet, one sums up departures and delays by carrier and hour. A summary goes to a second topic, which a PushConsumer
prints. At the end everything is compared with what plain Python finds in the file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from orbitmq.admin.client import AdminClient
from orbitmq.blocking import PushConsumer
from orbitmq.client.producer import Producer
from orbitmq.errors import OrbitError
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run as run_loop
from orbitmq.spark.jobs.checks import Seen, check_all
from orbitmq.spark.jobs.embedded import embedded_cluster
from orbitmq.spark.jobs.flights import LATE_MINUTES, Truth, find_flights, read_flights, to_message
from orbitmq.spark.jobs.interrupts import plain_interrupts, termination_as_interrupt
from orbitmq.spark.jobs.screen import Advance, Screen
from orbitmq.spark.jobs.supervision import SupervisedQuery
from orbitmq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE_COUNT = 4
TIMEOUT_MS = 30_000
"""For whatever a cluster is asked: a laptop that starts Spark is slow for some seconds."""
_FLIGHT_DDL = "carrier string, hour int, dep_time int, dep_delay int, arr_delay int, origin string, dest string"
_SHOW_EVERY = 2_000


@dataclass(frozen=True)
class Run:
    """The names of one run: all of them are new, so that runs do not meet."""

    id: str
    out: Path
    name_servers: str

    @property
    def topic(self) -> str:
        """Where the flights go."""
        return f"flights-{self.id}"

    @property
    def summary_topic(self) -> str:
        """Where the summary goes."""
        return f"flights-summary-{self.id}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return 0 when every check holds, 1 when one does not, 2 when it could not run, 130 on Ctrl-C."""
    options = _parse(arguments)
    screen = Screen()
    try:
        with termination_as_interrupt():
            return 0 if fly(options, screen) else 1
    except KeyboardInterrupt:
        screen.step("interrupted: everything was stopped")
        return 130
    except OrbitError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 2


def fly(options: argparse.Namespace, screen: Screen) -> bool:
    """Do the whole job; return whether all checks hold."""
    path = find_flights(options.data, options.cache)
    screen.step(f"reading {path.name}: what plain Python finds is what Spark must find")
    truth = Truth.of(read_flights(path, options.months))
    with ExitStack() as stack:
        id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
        if options.name_servers:
            name_servers = options.name_servers
        else:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orbitmq-quickstart-")))
            name_servers = stack.enter_context(embedded_cluster(data_dir))
            screen.step(f"NameServer and broker are up: {name_servers}")
        run = Run(id, options.out / id, name_servers)
        run.out.mkdir(parents=True)
        run_loop(_create_topics(run))
        screen.step("starting Spark")
        spark = stack.enter_context(_session(run))
        sent, hourly = _stream(spark, run, truth.flights, screen, path, options.months)
        screen.step(f"summing up by carrier into {run.summary_topic}")
        flights = spark.read.parquet(str(run.out / "flights"))
        summary = _summarise(flights, run)
        received = _receive_summary(run, len(truth.carriers))
        _show(screen, received)
        _plot(hourly, run.out / "delays.png")
        seen = _look(flights, hourly, sent, received, summary)
    screen.step("checking")
    verdicts = check_all(truth, seen, is_whole_year=options.months == 12 and options.data is None)
    for holds, claim in verdicts:
        screen.verdict(holds, claim)
    failed = sum(not holds for holds, _ in verdicts)
    screen.step(f"{failed} of {len(verdicts)} checks FAILED" if failed else f"all {len(verdicts)} checks hold")
    screen.step(f"results: {run.out}  (flights/, delays/, delays.png)")
    return not failed


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quickstart", description="Flights through NameServer, broker and Spark.")
    parser.add_argument("--name-servers", help="use this cluster (host:port;host:port) instead of an embedded one")
    parser.add_argument(
        "--months", type=int, choices=range(1, 13), default=12, metavar="1..12", help="of the year 2013"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/quickstart"), help="directory of results [out/quickstart]"
    )
    parser.add_argument("--data", type=Path, help="flights.csv or flights.csv.zip, when it is not to be fetched")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="directory of fetched data [.cache]")
    return parser.parse_args(arguments)


async def _create_topics(run: Run) -> None:
    async with AdminClient(run.name_servers, timeout_ms=TIMEOUT_MS) as admin:
        for topic, count in ((run.topic, QUEUE_COUNT), (run.summary_topic, 1)):
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=count, write_queue_count=count))


@contextmanager
def _session(run: Run) -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # pyspark's doubts about versions of pandas, which is not used
        spark = local_session(
            "orbitmq quickstart",
            settings={
                "spark.sql.warehouse.dir": str((run.out / "warehouse").resolve()),
                "spark.sql.streaming.numRecentProgressUpdates": "100000",
            },
        )
    try:
        yield spark
    finally:
        spark.stop()


def _stream(
    spark: SparkSession, run: Run, count: int, screen: Screen, path: Path, months: int
) -> tuple[int, list[dict[str, Any]]]:
    """Publish the flights while two queries read them; return how many were sent and what the second one found."""
    with ExitStack() as stack:
        rows, hourly = _start_queries(spark, run, screen)
        stack.callback(rows.stop)
        stack.callback(hourly.stop)
        screen.step(f"publishing {count:,} flights to {run.topic} while Spark reads them")
        with screen.progress({"published": count, "read": count}) as advance:
            with plain_interrupts():
                sent = run_loop(_publish(run, path, months, advance, rows))
            while rows.rows_read < sent:
                rows.wait(1)
                advance("read", rows.rows_read)
            rows.catch_up()
            hourly.catch_up()
        spark.table("hourly").coalesce(1).write.parquet(str(run.out / "delays"))
        return sent, [row.asDict() for row in spark.table("hourly").collect()]


def _start_queries(spark: SparkSession, run: Run, screen: Screen) -> tuple[SupervisedQuery, SupervisedQuery]:
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


async def _publish(run: Run, path: Path, months: int, advance: Advance, rows: SupervisedQuery) -> int:
    """Send every flight; return how many were acknowledged."""
    count = 0
    async with Producer("quickstart", run.name_servers, send_timeout_ms=TIMEOUT_MS) as producer:
        for flight in read_flights(path, months):
            await producer.send_soon(to_message(run.topic, flight))
            count += 1
            if count % _SHOW_EVERY == 0:
                advance("published", count)
                advance("read", await asyncio.to_thread(lambda: rows.rows_read))
        await producer.flush()  # raises when any of them was not stored
    advance("published", count)
    return count


def _summarise(flights: DataFrame, run: Run) -> int:
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


def _receive_summary(run: Run, count: int) -> list[dict[str, Any]]:
    """Consume the second topic until each of `count` carriers has come, or nothing more comes."""
    found: dict[str, dict[str, Any]] = {}
    consumer = PushConsumer(f"quickstart-{run.id}", run.name_servers, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.summary_topic)
    with consumer:
        while len(found) < count and (batch := consumer.next_batch(TIMEOUT_MS)) is not None:
            for message in batch:
                summary = orjson.loads(message.body)
                found[summary["carrier"]] = summary
            batch.commit()
    return sorted(found.values(), key=lambda summary: -summary["flights"])


def _show(screen: Screen, received: Sequence[dict[str, Any]]) -> None:
    columns = ("carrier", "flights", "cancelled", "late", "mean_delay", "p95_delay")
    titles = ("carrier", "flights", "cancelled", f"> {LATE_MINUTES} min late", "mean delay", "95th percentile")
    rows = [[summary.get(column, "") for column in columns] for summary in received]
    screen.table("Arrivals by carrier, as the PushConsumer received them (minutes)", titles, rows)


def _plot(hourly: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw mean and 95th percentile of departure delays by carrier and hour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    carriers = sorted({row["carrier"] for row in hourly})
    hours = sorted({row["hour"] for row in hourly})
    by_group = {(row["carrier"], row["hour"]): row for row in hourly}
    figure, panels = pyplot.subplots(1, 2, figsize=(14, 6), layout="constrained")
    for panel, column, title in zip(panels, ("mean_delay", "p95_delay"), ("mean", "95th percentile"), strict=True):
        grid = [[_number(by_group.get((carrier, hour), {}).get(column)) for hour in hours] for carrier in carriers]
        image = panel.imshow(grid, aspect="auto", cmap="viridis")
        panel.set(title=f"Departure delay, {title} (minutes)", xlabel="scheduled hour", ylabel="carrier")
        panel.set_xticks(range(len(hours)), hours)
        panel.set_yticks(range(len(carriers)), carriers)
        figure.colorbar(image, ax=panel)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _look(
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


if __name__ == "__main__":
    sys.exit(main())
