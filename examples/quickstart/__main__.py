"""The first flight: a real table travels through NameServer, broker and Spark, and the job checks every step.

    python -m examples.quickstart [--name-servers HOST:PORT;...] [--months N] [--out DIR] [--data FILE]

336,776 flights are published as messages while Structured Streaming reads the topic: one query keeps the rows as
Parquet, one sums up departures and delays by carrier and hour. A summary goes to a second topic, which a PushConsumer
prints. At the end everything is compared with what plain Python finds in the file.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.quickstart.checks import check_all
from examples.quickstart.embedded import embedded_cluster
from examples.quickstart.flights import LATE_MINUTES, Truth, find_flights, read_flights
from examples.quickstart.messages import Run, create_topics, receive_summary
from examples.quickstart.plot import plot_delays
from examples.quickstart.queries import collect_findings, send_summary, starting_spark, stream_flights
from orbitmq.cli.jobs.running import print_checks
from orbitmq.errors import OrbitError
from orbitmq.net.loop import run as run_loop
from orbitmq.process.interrupts import termination_as_interrupt
from orbitmq.spark import register
from orbitmq.spark.jobs.screen import Screen


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
    id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    out = options.out / id
    out.mkdir(parents=True)
    with ExitStack() as stack:
        screen.step("starting Spark")
        starting = stack.enter_context(starting_spark(out))
        screen.step(f"reading {path.name}: what plain Python finds is what Spark must find")
        truth = Truth.of(read_flights(path, options.months))
        if options.name_servers:
            name_servers = options.name_servers
        else:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orbitmq-quickstart-")))
            name_servers = stack.enter_context(embedded_cluster(data_dir))
            screen.step(f"NameServer and broker are up: {name_servers}")
        run = Run(id, out, name_servers)
        run_loop(create_topics(run))
        sent, hourly = stream_flights(starting, run, truth.flights, screen, path, options.months)
        screen.step(f"summing up by carrier into {run.summary_topic}")
        spark = starting.result()
        register(spark)  # in this thread, too
        flights = spark.read.parquet(str(run.out / "flights"))
        summary = send_summary(flights, run)
        received = receive_summary(run, len(truth.carriers))
        _show(screen, received)
        plot_delays(hourly, run.out / "delays.png")
        seen = collect_findings(flights, hourly, sent, received, summary)
    screen.step("checking")
    verdicts = check_all(truth, seen, is_whole_year=options.months == 12 and options.data is None)
    print_checks(verdicts)
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


def _show(screen: Screen, received: Sequence[dict[str, Any]]) -> None:
    columns = ("carrier", "flights", "cancelled", "late", "mean_delay", "p95_delay")
    titles = ("carrier", "flights", "cancelled", f"> {LATE_MINUTES} min late", "mean delay", "95th percentile")
    rows = [[summary.get(column, "") for column in columns] for summary in received]
    screen.table("Arrivals by carrier, as the PushConsumer received them (minutes)", titles, rows)


if __name__ == "__main__":
    sys.exit(main())
