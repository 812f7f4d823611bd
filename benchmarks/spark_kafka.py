"""Spark reads and writes the same rows with Kafka's connector and with orbitmq's, in turn on the same cores.

    python -m benchmarks.spark_kafka [--json] [--rows N] [--runs N] [--attempts N] [--case NAME] [--without-kafka]

Rows are random and distinct, so that nothing on the way gains from compressing or repeating them; both systems get them from
the same Parquet files, into 8 partitions or queues, and both servers run all the time. `tuned` is Kafka's connector with
`fetch.max.wait.ms=10`: its default, 500, leaves cores idle. `floor` is a source in Python that hands out the same ready batch
of such rows again and again (`benchmarks/spark_floor.py`): what is left of its figure is Spark's own. The first read of each way warms up and does not count; then all
ways of a case have a turn in each round. Processor time is that of all processes together: it holds on a busy machine, too.
A turn during which other processes took part of the machine is taken again.
`--json` prints the result of each case as one object on a line of its own, when the case is done; a case that fails does not
keep the others from being measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.kafka.server import connector_jars, fetch_jars, kafka_server, versions
from benchmarks.load import BenchmarkError
from benchmarks.measure import OTHERS_CPU_MAX, Result
from benchmarks.probe import ask_topic
from benchmarks.rows import SPARK_ROWS, SparkRow
from benchmarks.servers import Server, start
from benchmarks.spark_floor import floor_options, register
from benchmarks.spark_latency import Feed, kafka_sender, measure_latency, our_sender
from benchmarks.spark_queues import BATCH_ROWS, PATTERN, fill_queues
from benchmarks.spark_queues import ROWS as QUEUES_ROWS
from benchmarks.usage import Usage, usage_of
from orbitmq.spark.driver.session import local_session

QUEUES = 8
LARGE, SMALL, FEW, WRITTEN = "bench-1024", "bench-128", "bench-few", "bench-written"
SIZES = {LARGE: 1024, SMALL: 128, FEW: 128, WRITTEN: 1024}
TOPICS = {"small": SMALL, "few": FEW}  # that cases read; the others read the large rows
# Cases that make their own topics.
OWN_TOPICS = ("sink", "exactly", "latency-1", "latency-5000", "queues-first", "queues-batch")
FEW_ROWS, FEW_QUEUES = 160, 2
WRITTEN_SHARE = 1 / 8  # of all rows: each turn of a sink adds so many to its topic
LATENCY = {"latency-1": (1, 20), "latency-5000": (5_000, 15)}  # messages a second, seconds
MARKERS = "orbitmq-spark-markers"  # of the exactly-once sink
STREAM_BATCH = 400_000
SHA512_SIZE = 64
SEVEN = "topic,keys,tags,body,queueId,queueOffset,storeTimestamp"  # as many as Kafka's connector has, and like them
FOUR = "topic,body,queueId,queueOffset"
FOUR_OF_KAFKA = ("topic", "value", "partition", "offset")
WITHOUT_MAP = (
    "topic,body,brokerName,queueId,queueOffset,bornTimestamp,storeTimestamp,tags,keys,msgId,flag,reconsumeTimes"
)
TUNED = {"kafka.fetch.max.wait.ms": "10"}

Act = Callable[[Any], list[float] | None]


@dataclass(frozen=True)
class Case:
    """One thing that is done with a frame of each peer; where it writes, with what writes it.

    `act` returns figures, or None: then the figure is rows per second.
    """

    row: SparkRow
    frames: Mapping[str, Any]
    act: Act
    rows: int


class Turn(NamedTuple):
    """What one peer's turn gave, and what it took."""

    figures: list[float]
    usage: Usage


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every way found every row, 1 when a case failed."""
    options = _parse(arguments)
    rows = [row for row in SPARK_ROWS if options.case is None or row.case in options.case]
    results: dict[str, Result] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orbitmq-spark-kafka-")))
        kafka = None
        if not options.without_kafka:
            fetch_jars()
            kafka = stack.enter_context(kafka_server(folder / "kafka"))
        ours = start("ours", "up", os.sched_getaffinity(0))
        stack.callback(ours.stop)
        warnings.simplefilter("ignore", FutureWarning)
        cores = len(os.sched_getaffinity(0))
        jars = {} if kafka is None else {"spark.jars": connector_jars()}
        spark = local_session("spark_kafka", master=f"local[{cores}]", settings=jars, java_options="")
        stack.callback(spark.stop)
        register(spark)
        bench = Bench(spark, folder, ours, kafka, options)
        bench.fill({TOPICS.get(row.case, LARGE) for row in rows if row.case not in OWN_TOPICS})
        for row in rows:
            try:
                result = bench.measure(row)
            except Exception as error:
                print(f"{row.name} failed: {error!r}", file=sys.stderr, flush=True)
                continue
            results[row.name] = result
            if options.json:
                print(json.dumps({"row": row.name, "result": result}), flush=True)
        if not options.json:
            print(report.spark_table(results), flush=True)
    return 0 if len(results) == len(rows) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_kafka", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line for each case that is done")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of each size of body")
    parser.add_argument("--runs", type=int, default=3, help="timed reads of each way; medians are shown")
    parser.add_argument("--attempts", type=int, default=3, help="tries to get an undisturbed read")
    cases = [row.case for row in SPARK_ROWS]
    parser.add_argument("--case", action="append", choices=cases, help="only this one; may be repeated")
    parser.add_argument("--without-kafka", action="store_true", help="ours alone")
    return parser.parse_args(arguments)


class Bench:
    """Both systems, and what is asked of them.

    Args:
        folder: for files, gone after the run.
        ours: the server `orbitmq up`.
        kafka: its address, None to measure ours alone.
    """

    def __init__(self, spark: Any, folder: Path, ours: Server, kafka: str | None, options: argparse.Namespace) -> None:
        self._spark = spark
        self._folder = folder
        self._ours = ours
        self._kafka = kafka
        self._options = options
        self._rows: int = options.rows
        written = int(self._rows * WRITTEN_SHARE)
        self._topic_rows = {FEW: FEW_ROWS, WRITTEN: written}  # the other topics have all rows, as the other cases
        self._case_rows = {"few": FEW_ROWS, "sink": written, "exactly": written}
        self._case_rows |= {case: min(rate * seconds, self._rows) for case, (rate, seconds) in LATENCY.items()}
        self._case_rows |= {"queues-first": QUEUES_ROWS, "queues-batch": QUEUES_ROWS}
        self._has_queues = False
        self._written: dict[str, dict[str, int]] = {}

    def fill(self, topics: Collection[str]) -> None:
        """Write the same rows to both, and note how many a second each took of each topic."""
        for topic in topics:
            count, queues = self._topic_rows.get(topic, self._rows), FEW_QUEUES if topic == FEW else QUEUES
            # Digests of the rows' numbers: random, distinct, the same in every run, and made by Java.
            parts = ", ".join(f"unhex(sha2(concat(id, '.{part}'), 512))" for part in range(SIZES[topic] // SHA512_SIZE))
            rows = self._spark.range(count).selectExpr(f"concat({parts}) AS body", f"int(id % {queues}) AS partition")
            path = self._path(topic)
            rows.write.parquet(path)
            ask_topic(self._ours.port, topic, queues=queues)
            used = {"ours": usage_of(partial(self._write_ours, path, topic))}
            if self._kafka is not None:
                self._create_kafka_topic(topic, queues)
                used["kafka"] = usage_of(partial(self._write_kafka, path, topic))
            self._written[topic] = {peer: round(count / usage.seconds) for peer, usage in used.items()}
            self._say(f"{count:,} rows of {SIZES[topic]:,} bytes written, rows a second: {self._written[topic]}")

    def measure(self, row: SparkRow) -> Result:
        """Let each way warm up and then have its turns; return what was found of each peer."""
        case = self._case(row)
        frames = {peer: frame for peer, frame in case.frames.items() if frame is not None}
        turns: dict[str, list[Turn]] = {peer: [] for peer in frames}
        for number in range(self._options.runs + 1):
            for peer in frames if number % 2 else reversed(frames):
                turn = quiet_turn(partial(_take_turn, case, frames[peer]), self._options.attempts if number else 1)
                if number:
                    turns[peer].append(turn)
        found = summarise(case, turns)
        detail: Result = {"rows": case.rows}
        if row.case not in OWN_TOPICS:
            detail["written_rows_per_second"] = self._written[TOPICS.get(row.case, LARGE)]
        if self._kafka is not None:
            detail["versions"] = versions()
        found["ours"]["detail"] = detail
        self._say(_line(row, found))
        return found

    def _case(self, row: SparkRow) -> Case:
        make: Callable[[], tuple[Mapping[str, Any], Act]] = getattr(self, f"_{row.case.replace('-', '_')}")
        frames, act = make()
        return Case(row, frames, act, self._case_rows.get(row.case, self._rows))

    def _batch(self, topic: str, columns: str | None = None, of_kafka: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the frames of a batch read: all columns, or those named."""
        options = {} if columns is None else {"columns": columns}
        frames = {"kafka": self._read_kafka(topic), "tuned": self._read_kafka(topic, TUNED)}
        if of_kafka is not None:
            frames = {peer: frame and frame.select(*of_kafka) for peer, frame in frames.items()}
        ours = self._read_ours(topic, options)
        return frames | {
            "ours": ours,
            "local": self._read_ours(topic, options | self._local),
            "floor": self._floor(ours),
        }

    def _all(self) -> tuple[Mapping[str, Any], Act]:
        return self._batch(LARGE), _discard

    def _seven(self) -> tuple[Mapping[str, Any], Act]:
        return self._batch(LARGE, SEVEN), _discard

    def _four(self) -> tuple[Mapping[str, Any], Act]:
        return self._batch(LARGE, FOUR, FOUR_OF_KAFKA), _discard

    def _small(self) -> tuple[Mapping[str, Any], Act]:
        return self._batch(SMALL), _discard

    def _count(self) -> tuple[Mapping[str, Any], Act]:
        frames = {"kafka": self._read_kafka(LARGE), "tuned": self._read_kafka(LARGE, TUNED)}
        one = self._read_ours(LARGE, {"columns": "queueOffset"})
        return frames | {"ours": self._read_ours(LARGE), "one column": one}, self._count_all

    def _parquet(self) -> tuple[Mapping[str, Any], Act]:
        ours = self._read_ours(LARGE, {"columns": WITHOUT_MAP})
        frames = {"kafka": self._read_kafka(LARGE), "ours": ours, "floor": self._floor(ours)}
        return frames, self._to_parquet

    def _stream(self) -> tuple[Mapping[str, Any], Act]:
        batch = min(STREAM_BATCH, self._rows // 5)
        options = {"maxOffsetsPerTrigger": str(batch), "startingOffsets": "earliest"}
        frames = {
            "kafka": self._read_kafka(LARGE, options, stream=True),
            "tuned": self._read_kafka(LARGE, TUNED | options, stream=True),
            "ours": self._read_ours(LARGE, options, stream=True),
            "local": self._read_ours(LARGE, options | self._local, stream=True),
            "floor": self._floor(self._read_ours(LARGE), batch),
        }
        return frames, partial(self._steady, batch)

    def _few(self) -> tuple[Mapping[str, Any], Act]:
        options = {"maxOffsetsPerTrigger": str(FEW_QUEUES), "startingOffsets": "earliest"}
        frames = {
            "kafka": self._read_kafka(FEW, options, stream=True),
            "ours": self._read_ours(FEW, options, stream=True),
            "floor": self._floor(self._read_ours(FEW), FEW_QUEUES, rows=FEW_ROWS),
        }
        return frames, self._durations

    def _files(self) -> tuple[Mapping[str, Any], Act]:
        log = self._spark.read.format("rocketmq").options(commitLogPath=str(self._store), topic=LARGE).load()
        return {"ours": log}, _discard

    def _sink(self) -> tuple[Mapping[str, Any], Act]:
        self._fill_written()
        path = self._path(WRITTEN)
        kafka = None if self._kafka is None else partial(self._write_kafka, path, WRITTEN)
        return {"kafka": kafka, "ours": partial(self._write_ours, path, WRITTEN)}, _call

    def _exactly(self) -> tuple[Mapping[str, Any], Act]:
        self._fill_written()
        ask_topic(self._ours.port, MARKERS, queues=1)
        at_least_once = partial(self._write_ours, self._path(WRITTEN), WRITTEN)
        runs = itertools.count(1)

        def exactly_once() -> None:
            at_least_once(delivery="exactly-once", runId=f"bench-{next(runs)}")

        return {"at-least-once": at_least_once, "ours": exactly_once}, _call

    def _latency_1(self) -> tuple[Mapping[str, Any], Act]:
        return self._latency("latency-1")

    def _latency_5000(self) -> tuple[Mapping[str, Any], Act]:
        return self._latency("latency-5000")

    def _latency(self, case: str) -> tuple[Mapping[str, Any], Act]:
        earliest = {"startingOffsets": "earliest"}  # the topics are new: nothing that is sent is missed

        def ours(topic: str) -> Any:
            ask_topic(self._ours.port, topic, queues=QUEUES)
            return self._read_ours(topic, earliest, stream=True).select("body")

        def kafka(topic: str) -> Any:
            self._create_kafka_topic(topic, QUEUES)
            return self._read_kafka(topic, earliest, stream=True).select("value")

        feeds = {
            "kafka": None if self._kafka is None else Feed(kafka, kafka_sender(self._kafka)),
            "ours": Feed(ours, our_sender(self._name_server)),
        }
        turns, (rate, _), rows = itertools.count(1), LATENCY[case], self._case_rows[case]
        return feeds, lambda feed: measure_latency(feed, f"bench-{case}-{next(turns)}", rate, rows)

    def _queues_first(self) -> tuple[Mapping[str, Any], Act]:
        return self._queues(), self._first_batch

    def _queues_batch(self) -> tuple[Mapping[str, Any], Act]:
        return self._queues(), self._later_batches

    def _queues(self) -> Mapping[str, Any]:
        if not self._has_queues:
            fill_queues(self._ours)
            self._has_queues = True
        options = {"maxOffsetsPerTrigger": str(BATCH_ROWS), "startingOffsets": "earliest", "topicPattern": PATTERN}
        return {"ours": self._read_ours(None, options, stream=True)}

    def _fill_written(self) -> None:
        """Fill the sinks' topic before the first of their cases: the cases that read are over."""
        if WRITTEN not in self._written:
            self.fill([WRITTEN])

    def _path(self, topic: str) -> str:
        return str(self._folder / topic)

    @property
    def _local(self) -> dict[str, str]:
        return {"localReads": str(self._store)}

    @property
    def _store(self) -> Path:
        return next(self._ours.folder.glob("**/commitlog")).parent

    @property
    def _name_server(self) -> str:
        return f"127.0.0.1:{self._ours.ports['nameserver']}"

    def _read_ours(self, topic: str | None, options: Mapping[str, str] | None = None, *, stream: bool = False) -> Any:
        reader = (self._spark.readStream if stream else self._spark.read).format("rocketmq")
        options = {} if options is None else options
        if topic is not None:
            options = {"topic": topic, **options}
        return reader.options(nameServer=self._name_server, **options).load()

    def _read_kafka(self, topic: str, options: Mapping[str, str] | None = None, *, stream: bool = False) -> Any:
        if self._kafka is None:
            return None
        reader = (self._spark.readStream if stream else self._spark.read).format("kafka")
        return reader.options(**{"kafka.bootstrap.servers": self._kafka, "subscribe": topic}, **(options or {})).load()

    def _floor(self, frame: Any, per_batch: int | None = None, *, rows: int | None = None) -> Any:
        """Return a frame of as many rows as the columns of `frame` have, from a source that reads nothing."""
        path = self._folder / f"floor-{len(list(self._folder.glob('floor-*')))}.arrow"
        tasks = QUEUES if per_batch is None or per_batch > QUEUES else per_batch
        options = floor_options(frame, path, rows or self._rows, tasks)
        if per_batch is None:
            return self._spark.read.format("floor").options(**options).load()
        return self._spark.readStream.format("floor").options(**options, rowsPerBatch=str(per_batch)).load()

    def _write_ours(self, path: str, topic: str, **more: str) -> None:
        rows = self._spark.read.parquet(path).select("body")
        # Without the property that tells repeats apart: Kafka's sink writes none, and readers would carry it.
        options = {"nameServer": self._name_server, "topic": topic, "rowIds": "false"} | more
        rows.write.format("rocketmq").options(**options).mode("append").save()

    def _write_kafka(self, path: str, topic: str) -> None:
        rows = self._spark.read.parquet(path).selectExpr("body AS value", "partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", self._kafka).option("topic", topic).save()

    def _create_kafka_topic(self, topic: str, partitions: int) -> None:
        java = self._spark._jvm.java.util
        client = self._spark._jvm.org.apache.kafka.clients.admin
        settings = java.Properties()
        settings.put("bootstrap.servers", self._kafka)
        admin = client.AdminClient.create(settings)
        try:
            made = client.NewTopic(topic, java.Optional.of(partitions), java.Optional.empty())
            admin.createTopics(java.Collections.singleton(made)).all().get()
        finally:
            admin.close()

    def _count_all(self, frame: Any) -> None:
        found = frame.count()
        if found != self._rows:
            raise BenchmarkError(f"{found:,} of {self._rows:,} rows")

    def _to_parquet(self, frame: Any) -> None:
        frame.write.parquet(str(self._folder / "written"), mode="overwrite")

    def _steady(self, batch: int, frame: Any) -> list[float]:
        """Return rows per second of each full micro-batch but the first."""
        batches = [progress for progress in self._drain(frame) if progress["numInputRows"] == batch]
        return [batch / progress["batchDuration"] * 1000 for progress in batches[1:]] or [0.0]

    def _durations(self, frame: Any) -> list[float]:
        """Return how many milliseconds each micro-batch took, but the first ones."""
        return [float(progress["batchDuration"]) for progress in self._drain(frame)[10:]]

    def _first_batch(self, frame: Any) -> list[float]:
        """Return how many seconds a stream takes from its start to the end of its first micro-batch."""
        began = time.time()
        first = self._drain(frame)[0]
        return [datetime.fromisoformat(first["timestamp"]).timestamp() + first["batchDuration"] / 1000 - began]

    def _later_batches(self, frame: Any) -> list[float]:
        """Return how many seconds each full micro-batch took, but the first one."""
        batches = [progress for progress in self._drain(frame) if progress["numInputRows"] == BATCH_ROWS]
        if len(batches) < 2:
            raise BenchmarkError(f"{len(batches)} micro-batches of {BATCH_ROWS:,} rows; at least 2 are needed")
        return [progress["batchDuration"] / 1000 for progress in batches[1:]]

    def _drain(self, frame: Any) -> list[Any]:
        with tempfile.TemporaryDirectory(dir=self._folder) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return list(query.recentProgress)

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr if self._options.json else sys.stdout, flush=True)


def _call(write: Callable[[], None]) -> None:
    write()


def _discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _take_turn(case: Case, frame: Any) -> Turn:
    figures: list[float] = []
    usage = usage_of(lambda: figures.extend(case.act(frame) or ()))
    return Turn(figures or [case.rows / usage.seconds], usage)


def quiet_turn(take: Callable[[], Turn], attempts_max: int) -> Turn:
    """Take a turn, again when other processes took part of the machine, and return the quietest."""
    attempts: list[Turn] = []
    while len(attempts) < attempts_max:
        attempts.append(take())
        if attempts[-1].usage.others <= OTHERS_CPU_MAX:
            break
    return min(attempts, key=lambda turn: turn.usage.others)


def summarise(case: Case, turns: Mapping[str, Sequence[Turn]]) -> Result:
    """Return what each peer's turns gave: the medians of its figures, of its processor time and of what others took."""
    result: Result = {}
    for peer, taken in turns.items():
        runs = [statistics.median(turn.figures) for turn in taken]
        result[peer] = {
            "value": statistics.median(runs),
            "runs": runs,
            "bad": 0,
            "cpu_us": statistics.median(turn.usage.cpu_s for turn in taken) / case.rows * 1e6,
            "others_cpu": statistics.median(turn.usage.others for turn in taken),
        }
        pooled = [figure for turn in taken for figure in turn.figures]
        if case.row.is_time and len(pooled) > 1:
            result[peer]["p95"] = statistics.quantiles(pooled, n=20)[-1]
    return result


def _line(row: SparkRow, found: Result) -> str:
    others = max(side["others_cpu"] for side in found.values())
    figures = (f"{peer} {report.number(side)} ({side['cpu_us']:.2f} us of CPU each)" for peer, side in found.items())
    busy = f"; others used {others:.2f} cores" if others > OTHERS_CPU_MAX else ""
    return f"  {row.title:46} {', '.join(figures)}{busy}"


if __name__ == "__main__":
    sys.exit(main())
