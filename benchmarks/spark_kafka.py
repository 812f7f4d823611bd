"""Spark reads the same rows from Kafka, with Spark's own connector, and from orbitmq, in turn on the same cores.

    python -m benchmarks.spark_kafka [--json] [--rows N] [--runs N] [--case NAME] [--without-kafka]

Rows are random and distinct, so that nothing on the way gains from compressing or repeating them; both systems get them from
the same Parquet files, into 8 partitions or queues, and both servers run all the time. `tuned` is Kafka's connector with
`fetch.max.wait.ms=10`: its default, 500, leaves cores idle. `floor` is a source in Python that hands out the same ready batch
of such rows again and again (`benchmarks/spark_floor.py`): what is left of its figure is Spark's own. The first read of each way warms up and does not count; then all
ways of a case have a turn in each round. Processor time is that of all processes together: it holds on a busy machine, too.
`--json` prints one object on the last line of standard output; its `least` is the least of figure / bar.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kafka.server import connector_jars, fetch_jars, kafka_server, versions
from benchmarks.probe import ask_topic
from benchmarks.servers import Server, start
from benchmarks.spark_floor import floor_options, register
from benchmarks.usage import Usage, usage_of
from orbitmq.spark.driver.session import local_session

QUEUES = 8
LARGE, SMALL, FEW = "bench-1024", "bench-128", "bench-few"
SIZES = {LARGE: 1024, SMALL: 128, FEW: 128}
FEW_ROWS, FEW_QUEUES = 160, 2
STREAM_BATCH = 400_000
SHA512_SIZE = 64
OTHERS_CPU_MAX = 0.15
NARROW = {"columns": "topic,body,queueId,queueOffset"}
NARROW_OF_KAFKA = ("topic", "value", "partition", "offset")
COLUMNS = "topic,body,brokerName,queueId,queueOffset,bornTimestamp,storeTimestamp,tags,keys,msgId,flag,reconsumeTimes"
WITHOUT_MAP = {"columns": COLUMNS}
TUNED = {"kafka.fetch.max.wait.ms": "10"}

Act = Callable[[Any], list[float] | None]


@dataclass(frozen=True)
class Bar:
    """A peer's figure as a multiple of a rival's, or by itself; for times it is the most, for rates the least."""

    times: float
    rival: str | None = None
    peer: str = "ours"

    def share(self, medians: Mapping[str, float], *, is_time: bool) -> float | None:
        """Return the figure as a share of the bar, 1 where it is just reached; None where a side was not measured."""
        if self.peer not in medians or (self.rival is not None and self.rival not in medians):
            return None
        wanted = self.times * (1 if self.rival is None else medians[self.rival])
        return wanted / medians[self.peer] if is_time else medians[self.peer] / wanted

    def __str__(self) -> str:
        return f"{self.peer} / {self.rival} {self.times:g}" if self.rival else f"{self.peer} {self.times:,g}"


@dataclass(frozen=True)
class Case:
    """One thing that is done with a frame of each peer.

    `act` returns figures, or None: then the figure is rows per second.
    """

    name: str
    title: str
    frames: Mapping[str, Any]
    act: Act
    rows: int
    bars: tuple[Bar, ...] = ()
    is_time: bool = False


class Turn(NamedTuple):
    """What one peer's turn gave, and what it took."""

    figures: list[float]
    usage: Usage


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every way found every row."""
    options = _parse(arguments)
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
        rates = bench.fill()
        found = [bench.measure(case) for case in bench.cases() if options.case is None or case.name in options.case]
        shares = [share for case in found for share in case["bars"].values()]
        print(table(found), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        measured = {"rows": options.rows, "written_rows_per_second": rates, "cases": found}
        measured |= {"least": min(shares, default=0.0)} | ({} if kafka is None else {"versions": versions()})
        print(json.dumps(measured))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_kafka", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of each size of body")
    parser.add_argument("--runs", type=int, default=3, help="timed reads of each way; medians are shown")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this one; may be repeated")
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

    def fill(self) -> dict[str, dict[str, int]]:
        """Write the same rows to both; return how many a second each took of each topic."""
        rates = {}
        for topic, size in SIZES.items():
            count, queues = (FEW_ROWS, FEW_QUEUES) if topic == FEW else (self._rows, QUEUES)
            # Digests of the rows' numbers: random, distinct, the same in every run, and made by Java.
            parts = ", ".join(f"unhex(sha2(concat(id, '.{part}'), 512))" for part in range(size // SHA512_SIZE))
            rows = self._spark.range(count).selectExpr(f"concat({parts}) AS body", f"int(id % {queues}) AS partition")
            path = str(self._folder / topic)
            rows.write.parquet(path)
            ask_topic(self._ours.port, topic, queues=queues)
            used = {"ours": usage_of(partial(self._write_ours, path, topic))}
            if self._kafka is not None:
                self._create_kafka_topic(topic, queues)
                used["kafka"] = usage_of(partial(self._write_kafka, path, topic))
            rates[topic] = {peer: round(count / usage.seconds) for peer, usage in used.items()}
            self._say(f"{count:,} rows of {size:,} bytes written, rows a second: {rates[topic]}")
        return rates

    def cases(self) -> Iterator[Case]:
        """Yield what is measured."""
        rows, ours, kafka = self._rows, self._read_ours, self._read_kafka
        local = {"localReads": str(self._store)}
        large = {"kafka": kafka(LARGE), "tuned": kafka(LARGE, TUNED)}
        both = {"ours": ours(LARGE), "local": ours(LARGE, local), "floor": self._floor(ours(LARGE))}
        bars = Bar(1, "tuned"), Bar(1.5, "tuned", peer="local")
        yield Case("all", "batch, all columns", large | both, _discard, rows, bars)
        narrow = {peer: frame and frame.select(*NARROW_OF_KAFKA) for peer, frame in large.items()}
        narrow |= {"ours": ours(LARGE, NARROW), "local": ours(LARGE, NARROW | local)}
        narrow |= {"floor": self._floor(ours(LARGE, NARROW))}
        yield Case("four", "batch, four columns", narrow, _discard, rows, (Bar(2.5, "kafka"),))
        counts = large | {"ours": ours(LARGE), "one column": ours(LARGE, {"columns": "queueOffset"})}
        yield Case("count", "count()", counts, self._count, rows, (Bar(2.5, "kafka", peer="one column"),))
        files = {"kafka": large["kafka"], "ours": ours(LARGE, WITHOUT_MAP)}
        files |= {"floor": self._floor(ours(LARGE, WITHOUT_MAP))}
        yield Case("parquet", "to Parquet, without the map", files, self._to_parquet, rows, (Bar(1.5, "kafka"),))
        small = {"kafka": kafka(SMALL), "tuned": kafka(SMALL, TUNED)}
        small |= {"ours": ours(SMALL), "local": ours(SMALL, local), "floor": self._floor(ours(SMALL))}
        yield Case("small", "128 B, all columns", small, _discard, rows, (Bar(1, "tuned"),))
        batch = min(STREAM_BATCH, rows // 5)
        stream = {"maxOffsetsPerTrigger": str(batch), "startingOffsets": "earliest"}
        streams = {
            "kafka": kafka(LARGE, stream, stream=True),
            "tuned": kafka(LARGE, TUNED | stream, stream=True),
            "ours": ours(LARGE, stream, stream=True),
            "local": ours(LARGE, stream | local, stream=True),
            "floor": self._floor(ours(LARGE), batch),
        }
        title = f"AvailableNow, {batch:,} rows a batch, steady"
        yield Case("stream", title, streams, partial(self._steady, batch), rows, (Bar(1, "kafka"),))
        few = {"maxOffsetsPerTrigger": str(FEW_QUEUES), "startingOffsets": "earliest"}
        streams = {"kafka": kafka(FEW, few, stream=True), "ours": ours(FEW, few, stream=True)}
        streams |= {"floor": self._floor(ours(FEW), FEW_QUEUES, rows=FEW_ROWS)}
        title = f"micro-batch of {FEW_QUEUES} rows, p50, ms"
        yield Case("few", title, streams, self._durations, FEW_ROWS, (Bar(1.2, "kafka"),), is_time=True)
        log = self._spark.read.format("rocketmq").options(commitLogPath=str(self._store), topic=LARGE).load()
        yield Case("files", "CommitLog files", {"ours": log}, _discard, rows, (Bar(450_000),))

    def measure(self, case: Case) -> dict[str, Any]:
        """Let each way warm up and then have its turns; return what was found."""
        frames = {peer: frame for peer, frame in case.frames.items() if frame is not None}
        turns: dict[str, list[Turn]] = {peer: [] for peer in frames}
        for number in range(self._options.runs + 1):
            for peer in frames if number % 2 else reversed(frames):
                turn = _take_turn(case, frames[peer])
                if number:
                    turns[peer].append(turn)
        found = summarise(case, turns)
        self._say(_line(found))
        return found

    @property
    def _store(self) -> Path:
        return next(self._ours.folder.glob("**/commitlog")).parent

    def _read_ours(self, topic: str, options: Mapping[str, str] | None = None, *, stream: bool = False) -> Any:
        reader = (self._spark.readStream if stream else self._spark.read).format("rocketmq")
        name_server = f"127.0.0.1:{self._ours.ports['nameserver']}"
        return reader.options(nameServer=name_server, topic=topic, **(options or {})).load()

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

    def _write_ours(self, path: str, topic: str) -> None:
        rows = self._spark.read.parquet(path).select("body")
        name_server = f"127.0.0.1:{self._ours.ports['nameserver']}"
        # Without the property that tells repeats apart: Kafka's sink writes none, and readers would carry it.
        options = {"nameServer": name_server, "topic": topic, "rowIds": "false"}
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

    def _count(self, frame: Any) -> None:
        found = frame.count()
        if found != self._rows:
            sys.exit(f"spark_kafka: {found:,} of {self._rows:,} rows")

    def _to_parquet(self, frame: Any) -> None:
        frame.write.parquet(str(self._folder / "written"), mode="overwrite")

    def _steady(self, batch: int, frame: Any) -> list[float]:
        """Return rows per second of each full micro-batch but the first."""
        batches = [progress for progress in self._drain(frame) if progress["numInputRows"] == batch]
        return [batch / progress["batchDuration"] * 1000 for progress in batches[1:]] or [0.0]

    def _durations(self, frame: Any) -> list[float]:
        """Return how many milliseconds each micro-batch took, but the first ones."""
        return [float(progress["batchDuration"]) for progress in self._drain(frame)[10:]]

    def _drain(self, frame: Any) -> list[Any]:
        with tempfile.TemporaryDirectory(dir=self._folder) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return list(query.recentProgress)

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr if self._options.json else sys.stdout, flush=True)


def _discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _take_turn(case: Case, frame: Any) -> Turn:
    figures: list[float] = []
    usage = usage_of(lambda: figures.extend(case.act(frame) or ()))
    return Turn(figures or [case.rows / usage.seconds], usage)


def summarise(case: Case, turns: Mapping[str, Sequence[Turn]]) -> dict[str, Any]:
    """Return the figures of each peer's turns, their medians, and the shares of the bars that they reach."""
    runs = {peer: [statistics.median(turn.figures) for turn in taken] for peer, taken in turns.items()}
    medians = {peer: statistics.median(figures) for peer, figures in runs.items()}
    shares = {str(bar): bar.share(medians, is_time=case.is_time) for bar in case.bars}
    cpu = {peer: statistics.median(turn.usage.cpu_s for turn in taken) for peer, taken in turns.items()}
    others = {peer: statistics.median(turn.usage.others for turn in taken) for peer, taken in turns.items()}
    found: dict[str, Any] = {
        "case": case.name,
        "title": case.title,
        "median": medians,
        "runs": runs,
        "bars": {bar: share for bar, share in shares.items() if share is not None},
        "cpu_us_per_row": {peer: seconds / case.rows * 1e6 for peer, seconds in cpu.items()},
        "others_cpu": others,
    }
    if case.is_time:
        pooled = {peer: [figure for turn in taken for figure in turn.figures] for peer, taken in turns.items()}
        found["p95"] = {peer: statistics.quantiles(figures, n=20)[-1] for peer, figures in pooled.items()}
    return found


def _line(found: Mapping[str, Any]) -> str:
    medians, cpu, others = found["median"], found["cpu_us_per_row"], max(found["others_cpu"].values())
    figures = ", ".join(f"{peer} {median:,.0f} ({cpu[peer]:.2f} us of CPU each)" for peer, median in medians.items())
    busy = f"; others used {others:.2f} cores" if others > OTHERS_CPU_MAX else ""
    return f"  {found['title']:44} {figures}{busy}"


def table(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| what | Kafka | tuned | ours | ours / Kafka | ours / tuned | more, shares of bars |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for case in cases:
        medians = case["median"]
        cells = [f"{medians[peer]:,.0f}" if peer in medians else "-" for peer in ("kafka", "tuned", "ours")]
        ratios = {rival: medians["ours"] / medians[rival] for rival in ("kafka", "tuned") if rival in medians}
        cells += [f"{ratios[rival]:.2f}" if rival in ratios else "-" for rival in ("kafka", "tuned")]
        more = [f"{peer} {value:,.0f}" for peer, value in medians.items() if peer not in ("kafka", "tuned", "ours")]
        more += [f"{peer} p95 {value:,.0f}" for peer, value in case.get("p95", {}).items()]
        bars = [f"{bar}: {share:.2f}" for bar, share in case["bars"].items()]
        lines.append(f"| {' | '.join([case['title'], *cells, '; '.join(more + bars)])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
