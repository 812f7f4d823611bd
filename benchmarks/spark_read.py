"""Spark reads a topic of 1 KiB messages from an embedded broker; broker, Python workers and JVM share the cores.

    python -m benchmarks.spark_read [--json] [--messages N] [--runs N]

Bodies are random, so that nothing on the way gains from compressing them. A batch read of all columns goes to Spark's noop
sink: what is measured is the way from the broker's files to Spark's rows. The first reads warm the JVM up and do not count.
`--json` prints one object on the last line of standard output; its `rows_per_second` is the median of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.usage import usage_of
from examples.quickstart.embedded import embedded_cluster
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.driver.session import local_session

TOPIC = "spark-read"
SEED = 20130101
WARM_UPS = 4
NARROW = "topic string, body binary, queueId int, queueOffset bigint"
BATCH_OF_STREAM = 100_000
OTHERS_CPU_MAX = 0.15


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every row was there."""
    options = _parse(arguments)
    with ExitStack() as stack:
        data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="orbitmq-spark-read-"))
        name_servers = stack.enter_context(embedded_cluster(Path(data_dir)))
        sent = _fill(name_servers, options.messages, options.body)
        _say(options, f"{options.messages:,} messages of {options.body} bytes sent, {sent:,.0f} per second")
        warnings.simplefilter("ignore", FutureWarning)
        spark = local_session("spark_read", master=f"local[{len(os.sched_getaffinity(0))}]", java_options="")
        stack.callback(spark.stop)
        found = _measure(spark, name_servers, options)
    if options.json:
        print(json.dumps(found))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_read", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--runs", type=int, default=5, help="timed reads of each case; medians are shown")
    return parser.parse_args(arguments)


def _fill(name_servers: str, count: int, size: int) -> float:
    """Send the messages; return how many per second."""
    chance = random.Random(SEED)
    bodies = [chance.randbytes(size) for _ in range(1000)]
    began = time.perf_counter()
    with Producer("benchmarks", name_servers) as producer:
        producer.send_all(_messages(bodies, count))
    return count / (time.perf_counter() - began)


def _messages(bodies: Sequence[bytes], count: int) -> Iterator[Message]:
    for number in range(count):
        yield Message(TOPIC, bodies[number % len(bodies)], tag="ab"[number % 2], keys=(f"k{number}",))


def _measure(spark: Any, name_servers: str, options: argparse.Namespace) -> dict[str, Any]:
    source = spark.read.format("rocketmq").options(nameServer=name_servers, topic=TOPIC)
    everything = source.load()
    rows = everything.select("queueId", "queueOffset").distinct().count()
    if rows != options.messages:
        sys.exit(f"spark_read: {rows:,} distinct rows of {options.messages:,} messages")
    for _ in range(WARM_UPS):
        _read(everything)
    cases = {
        "all columns": everything,
        "four columns": source.schema(NARROW).load(),
        "one tag of two": spark.read.format("rocketmq")
        .options(nameServer=name_servers, topic=TOPIC, subscription="a")
        .load(),
    }
    counts = {"one tag of two": options.messages // 2}
    speeds: dict[str, list[float]] = {}
    others: dict[str, float] = {}
    for name, frame in cases.items():
        count = counts.get(name, options.messages)
        runs = [usage_of(partial(_read, frame)) for _ in range(options.runs)]
        speeds[name] = [count / usage.seconds for usage in runs]
        others[name] = statistics.median(usage.others for usage in runs)
        busy = f", others used {others[name]:.2f} cores" if others[name] > OTHERS_CPU_MAX else ""
        _say(options, f"{name:24} {statistics.median(speeds[name]):>12,.0f} rows/s{busy}")
    speeds["stream, 100 k a batch"] = _stream(spark, name_servers)
    steady = statistics.median(speeds["stream, 100 k a batch"])
    _say(options, f"{'stream, 100 k a batch':24} {steady:>12,.0f} rows/s")
    return {
        "rows_per_second": statistics.median(speeds["all columns"]),
        "messages": options.messages,
        "body_bytes": options.body,
        "others_cpu": others["all columns"],
        "cases": {name: {"median": statistics.median(runs), "runs": runs} for name, runs in speeds.items()},
    }


def _read(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _stream(spark: Any, name_servers: str) -> list[float]:
    """Return rows per second of each full micro-batch but the first, the fixed cost of a batch included."""
    options = {"nameServer": name_servers, "topic": TOPIC, "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger=str(BATCH_OF_STREAM)).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"] == BATCH_OF_STREAM]
    return [batch["numInputRows"] / batch["batchDuration"] * 1000 for batch in batches[1:]] or [0.0]


def _say(options: argparse.Namespace, line: str) -> None:
    print(line, file=sys.stderr if options.json else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
