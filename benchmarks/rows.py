"""The rows of the benchmarks' table: each with its load and the bar it has to reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SAMPLE_MESSAGES = 400_000
PULL_SETTINGS = "maxTransferCountOnMessageInMemory=1024\nmaxTransferBytesOnMessageInMemory=4194304\n"


@dataclass(frozen=True)
class Bar:
    """What ours has to reach: a multiple of Java's figure, or a limit of its own."""

    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    at_most_ratio: float | None = None
    p99_ratio: float | None = None  # ours / Java's, at most

    def text(self, unit: str = "") -> str:
        """Return the bar in words; `unit` is that of a limit of its own."""
        parts = []
        if self.ratio is not None:
            parts.append(f">= {self.ratio:g} x Java")
        if self.at_least is not None:
            parts.append(f">= {self.at_least:,g} {unit}".rstrip())
        if self.at_most is not None:
            parts.append(f"<= {self.at_most:,g} {unit}".rstrip())
        if self.at_most_ratio is not None:
            parts.append(f"<= {self.at_most_ratio:.2f} x Java")
        if self.p99_ratio is not None:
            parts.append(f"p99 <= {self.p99_ratio:.2f} x Java's")
        return ", ".join(parts)


@dataclass(frozen=True)
class PeerBar:
    """What a peer of a Spark row has to reach: a multiple of a rival's figure, or a figure of its own."""

    times: float
    rival: str | None = None
    peer: str = "ours"

    def share(self, values: Mapping[str, float], *, is_time: bool) -> float | None:
        """Return the figure as a share of the bar, 1 where it is just reached; None where a side was not measured.

        Args:
            values: of each peer.
            is_time: the figure is to stay below the bar.
        """
        if self.peer not in values or (self.rival is not None and self.rival not in values):
            return None
        wanted = self.times * (1 if self.rival is None else values[self.rival])
        return wanted / values[self.peer] if is_time else values[self.peer] / wanted

    def text(self, *, is_time: bool) -> str:
        """Return the bar in words."""
        limit = f"{self.times:,g}" if self.rival is None else f"{self.times:g} x {self.rival.replace('kafka', 'Kafka')}"
        return f"{'' if self.peer == 'ours' else self.peer + ' '}{'<=' if is_time else '>='} {limit}"


@dataclass(frozen=True)
class Fill:
    """What a broker's topic holds before a row reads it; rows with equal ones share it."""

    topic: str
    messages: int = SAMPLE_MESSAGES
    queues: int = 8
    load: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One load against one kind of server."""

    name: str
    title: str
    kind: str  # nameserver | broker
    load: Mapping[str, object]
    flush: str = "ASYNC_FLUSH"
    metric: str = "per_second"
    bar: Bar | None = None
    settings: str = ""
    fill: Fill | None = None

    @property
    def server_key(self) -> tuple[str, str, str]:
        """Rows with equal keys share their servers."""
        return self.kind, self.flush, self.settings


def _route_rows() -> list[Row]:
    k8 = {"mode": "route", "brokers": 100, "topics": 1000, "topic_brokers": 8}
    k100 = k8 | {"topic_brokers": 100}
    one = {"connections": 1, "depth": 1}
    fifty, deep = {"connections": 50, "depth": 1}, {"connections": 50, "depth": 16}
    title = "route query, topic on {} brokers, {} connections x {} in flight"
    return [
        Row("route-k8-50x1", title.format(8, 50, 1), "nameserver", k8 | fifty, bar=Bar(3, p99_ratio=1 / 3)),
        Row("route-k8-50x16", title.format(8, 50, 16), "nameserver", k8 | deep, bar=Bar(8)),
        Row("route-k8-1x1", title.format(8, 1, 1), "nameserver", k8 | one),
        Row("route-k100-50x1", title.format(100, 50, 1), "nameserver", k100 | fifty, bar=Bar(10)),
    ]


def _registration_rows() -> list[Row]:
    load = {"mode": "register", "brokers": 100, "topics": 1000, "connections": 50, "depth": 1}
    small, large = load | {"topic_brokers": 8}, load | {"topic_brokers": 100}
    version, changed = {"changed": 1}, {"changed": 2}
    title = "registration, {}, {}"
    same, counted, altered = "unchanged", "only the version counts up", "one topic changed"
    rows = []
    for count, body, load, bars in (
        ("80", "80 topics (13 kB)", small, (Bar(3.5), None, None)),
        ("1000", "1,000 topics (163 kB)", large, (Bar(6), None, Bar(2))),
    ):
        rows += [
            Row(f"register-{count}-same", title.format(body, same), "nameserver", load, bar=bars[0]),
            Row(f"register-{count}-version", title.format(body, counted), "nameserver", load | version, bar=bars[1]),
            Row(f"register-{count}-changed", title.format(body, altered), "nameserver", load | changed, bar=bars[2]),
        ]
    return rows


FILLED = Fill("bench-pull", load={"body_size": 1024})

SEND_BARS = {
    ("ASYNC_FLUSH", 100, 16, 1): Bar(2.5),
    ("ASYNC_FLUSH", 1024, 16, 1): Bar(3),
    ("SYNC_FLUSH", 100, 64, 1): Bar(2),
}


def _send_rows() -> list[Row]:
    rows = []
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        for body_size in (100, 1024):
            for connections in (1, 16, 64):
                for depth in (1, 16):
                    short = flush.split("_")[0].lower()
                    rows.append(
                        Row(
                            f"send-{short}-{body_size}-{connections}x{depth}",
                            f"send {body_size:,} B, {flush}, {connections} connections x {depth} in flight",
                            "broker",
                            {"mode": "send", "body_size": body_size, "connections": connections, "depth": depth},
                            flush=flush,
                            bar=SEND_BARS.get((flush, body_size, connections, depth)),
                        )
                    )
    return rows


def _pull_rows() -> list[Row]:
    load = {"mode": "pull", "body_size": 1024, "connections": 16, "depth": 1}
    title = "pull of {} messages of 1 KiB, 16 connections x 1 in flight, messages/s"
    return [
        Row(
            "pull-32",
            title.format(32),
            "broker",
            load | {"pull_count": 32},
            metric="messages_per_second",
            fill=FILLED,
            bar=Bar(1.5),
        ),
        Row(
            "pull-256",
            title.format(256) + " (both brokers told to allow as many)",
            "broker",
            load | {"pull_count": 256, "pull_size_max": 4 << 20},
            metric="messages_per_second",
            settings=PULL_SETTINGS,
            fill=FILLED,
            bar=Bar(1.5),
        ),
    ]


def _feature_rows() -> list[Row]:
    one = {"connections": 16, "depth": 1, "body_size": 100}
    numbered = Fill("bench-numbers", load={"body_size": 100, "expression": "n = 3"})
    return [
        Row(
            "send-keys-100-16x1",
            "send 100 B with 3 keys, indexed, 16 connections x 1 in flight",
            "broker",
            one | {"mode": "send", "keys": 3},
            bar=Bar(2.2),
        ),
        Row(
            "transaction-100-16x1",
            "transactions of 100 B, half message and commit, 16 connections x 1 in flight, transactions/s",
            "broker",
            one | {"mode": "transaction"},
            metric="messages_per_second",
            bar=Bar(2.5),
        ),
        Row(
            "pop-32",
            "POP of 32 messages of 1 KiB, each acknowledged, 16 connections, messages/s",
            "broker",
            {"mode": "pop", "connections": 16, "pull_count": 32, "queues": 16},
            metric="messages_per_second",
            bar=Bar(2.5),
            fill=Fill("bench-pop", queues=16, load={"body_size": 1024}),
        ),
        Row(
            "sql92-pull",
            "pull by SQL92, 1 message of 100 B in 10 matches, 16 connections x 1 in flight, scanned messages/s",
            "broker",
            {"mode": "pull", "connections": 16, "depth": 1, "expression": "n = 3"},
            metric="messages_per_second",
            settings="enablePropertyFilter=true\n",
            bar=Bar(1.2),
            fill=numbered,
        ),
        Row(
            "query-key",
            "query by key among 2,000,000 indexed messages, 16 connections x 1 in flight",
            "broker",
            {"mode": "query", "connections": 16, "depth": 1},
            bar=Bar(1.2, p99_ratio=0.8),
            fill=Fill("bench-keys", messages=2_000_000, load={"body_size": 100, "keys": 1}),
        ),
    ]


LOAD_ROWS = [*_route_rows(), *_registration_rows(), *_send_rows(), *_pull_rows(), *_feature_rows()]


@dataclass(frozen=True)
class Figure:
    """A row that is not a load: one number per peer, taken in `benchmarks.figures`."""

    name: str
    title: str
    unit: str
    bar: Bar | None = None


FIGURES = [
    Figure("start-nameserver", "NameServer: start to first answer", "ms", Bar(at_most=150)),
    Figure("start-broker", "broker: start to first SEND_OK", "ms"),
    Figure(
        "start-up", "NameServer and broker (`orbitmq up`), both cores: start to first SEND_OK", "ms", Bar(at_most=1000)
    ),
    Figure("memory-nameserver-idle", "NameServer: resident memory, idle", "MB", Bar(at_most=40)),
    Figure(
        "memory-nameserver-k8",
        "NameServer: resident memory after the load of 1,000 topics on 8 of 100 brokers",
        "MB",
        Bar(at_most=60),
    ),
    Figure(
        "memory-nameserver-k100",
        "NameServer: resident memory after the load of 1,000 topics on all of 100 brokers",
        "MB",
        Bar(at_most=90),
    ),
    Figure("memory-broker-idle", "broker: resident memory without mapped files, idle", "MB", Bar(at_most=60)),
    Figure(
        "memory-broker-loaded", "broker: resident memory without mapped files, after 400,000 messages of 1 KiB", "MB"
    ),
    Figure("timers", "100,000 timer messages of 100 B: stored and delivered", "messages/s", Bar(1.5)),
    Figure(
        "restart-2gb",
        "broker: kill -9 with 2 GB of 1 KiB messages, to the first SEND_OK",
        "ms",
        Bar(at_most_ratio=0.2),
    ),
    Figure(
        "restart-5000",
        "broker: kill -9 with 5,000 topics x 8 queues, to the first SEND_OK",
        "ms",
        Bar(at_most_ratio=1 / 3),
    ),
    Figure(
        "memory-broker-5000",
        "broker: resident memory without mapped files, 5,000 topics x 8 queues",
        "MB",
        Bar(at_most_ratio=1 / 3),
    ),
    Figure(
        "poison",
        "100,000 good messages consumed next to one in forty that always fails: time, against none that fails",
        "times",
        Bar(at_most=1.2),
    ),
    Figure("sends-together-failed", "40,000 concurrent sends of one client: failed", "sends", Bar(at_most=0)),
    Figure(
        "sends-together-memory", "40,000 concurrent sends of one client: its memory grows by", "MB", Bar(at_most=200)
    ),
    Figure(
        "send-after-return",
        "a send that waits for its broker, killed or stopped for 6 s: from the broker's return to SEND_OK",
        "s",
        Bar(at_most=1.2),
    ),
    Figure(
        "timers-million-memory",
        "broker: anonymous memory with 1,000,000 pending timers, 5,000 due a second, at most",
        "MB",
        Bar(at_most=60),
    ),
    Figure("timers-million-start", "broker: start with 1,000,000 pending timers", "s", Bar(at_most=3)),
    Figure(
        "timers-million-late",
        "broker: the latest of 1,000,000 timers, 5,000 due a second, after the end of its step",
        "s",
        Bar(at_most=1),
    ),
    Figure(
        "replicated-sends",
        "send 1,024 B, answered when a slave has it (SYNC_MASTER), 64 connections, master and slave on one core",
        "sends/s",
        Bar(2),
    ),
    Figure("catch-up", "an empty slave takes its master's log of 1 KiB messages", "MB/s", Bar(1, at_least=150)),
    Figure("group-start", "`orbitmq up --brokers 3`, both cores: start to first SEND_OK", "s", Bar(at_most=3)),
    Figure("group-memory", "`orbitmq up --brokers 3`: memory of all its processes, idle", "MB", Bar(at_most=250)),
    Figure(
        "dashboard-pages",
        "dashboard, 1,000 topics and 2,500 groups: the slowest page's p95",
        "ms",
        Bar(at_most=300),
    ),
    Figure("dashboard-memory", "dashboard, 1,000 topics and 2,500 groups: its memory", "MB", Bar(at_most=120)),
    Figure("doctor", "`orbitmq doctor` over 1,000 topics and 2,500 groups", "s", Bar(at_most=5)),
    Figure(
        "assistants-tool", "the slowest tool for assistants over 1,000 topics and 2,500 groups", "s", Bar(at_most=1)
    ),
    Figure(
        "dashboard-tail",
        "5,000 messages a second with a live tail: the rate, against that without",
        "times",
        Bar(at_least=0.9),
    ),
    Figure("dashboard-up", "`orbitmq up --dashboard`: start to ready", "s", Bar(at_most=1.5)),
    Figure("dashboard-up-memory", "`orbitmq up --dashboard`: memory of both processes, idle", "MB", Bar(at_most=110)),
    Figure(
        "mqadmin-cluster-list", "`mqadmin clusterList`, from the shell: p50", "ms", Bar(at_most=150, at_most_ratio=0.1)
    ),
    Figure("wheel-size", "the wheel", "MB", Bar(at_most=2)),
    Figure(
        "wheel-install", "`pip install` of the wheel into an empty environment, nothing cached", "s", Bar(at_most=10)
    ),
    Figure(
        "wheel-download", "`pip install` of the wheel: what is downloaded, the wheel included", "MB", Bar(at_most=25)
    ),
    Figure("wheel-on-disk", "`pip install` of the wheel: what is on the disk after it, bytecode included", "MB"),
    Figure(
        "spark-read", "Spark batch read, 1 KiB bodies, broker on the same two cores", "rows/s", Bar(at_least=200_000)
    ),
]


@dataclass(frozen=True)
class SparkRow:
    """A case of `benchmarks.spark_kafka`: what Spark does with the same rows from Kafka and from orbitmq."""

    name: str
    title: str
    bars: tuple[PeerBar, ...]
    unit: str = "rows/s"

    @property
    def case(self) -> str:
        """Return the case's name there."""
        return self.name.removeprefix("spark-")

    @property
    def is_time(self) -> bool:
        """Return True if less is better."""
        return self.unit in ("ms", "s")

    def shares(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return, for each bar whose sides were measured, the share of it that was reached."""
        shares = ((bar, bar.share(values, is_time=self.is_time)) for bar in self.bars)
        return {bar.text(is_time=self.is_time): share for bar, share in shares if share is not None}


SPARK_ROWS = [
    SparkRow("spark-all", "batch, 1 KiB, all columns", (PeerBar(1.5, "kafka"), PeerBar(1.5, "tuned", "local"))),
    SparkRow("spark-seven", "batch, 1 KiB, seven columns like Kafka's", (PeerBar(1, "tuned"),)),
    SparkRow("spark-four", "batch, 1 KiB, four columns", (PeerBar(2, "kafka"),)),
    SparkRow("spark-count", "`count()`, 1 KiB", (PeerBar(1.35, "kafka"), PeerBar(3, "kafka", "one column"))),
    SparkRow("spark-parquet", "to Parquet, 1 KiB, without the properties' map", (PeerBar(1.7, "kafka"),)),
    SparkRow("spark-small", "batch, 128 B, all columns", (PeerBar(1, "tuned"),)),
    SparkRow("spark-stream", "stream, 1 KiB, AvailableNow, full micro-batches", (PeerBar(1, "kafka"),)),
    SparkRow("spark-few", "micro-batch of 2 rows, p50", (PeerBar(1.2, "kafka"),), unit="ms"),
    SparkRow("spark-files", "batch, 1 KiB, from CommitLog files", (PeerBar(450_000),)),
    SparkRow(
        "spark-latency-1", "running stream, 1 message/s: acknowledgement to row, p50", (PeerBar(1.2, "kafka"),), "ms"
    ),
    SparkRow(
        "spark-latency-5000",
        "running stream, 5,000 messages/s: acknowledgement to row, p50",
        (PeerBar(1.2, "kafka"),),
        "ms",
    ),
    SparkRow("spark-sink", "sink, at-least-once, 1 KiB", (PeerBar(1, "kafka"),)),
    SparkRow("spark-exactly", "sink, exactly-once, 1 KiB", (PeerBar(0.5, "at-least-once"),)),
    SparkRow("spark-queues-first", "2,000 queues: first micro-batch of a new stream", (PeerBar(10),), "s"),
    SparkRow("spark-queues-batch", "2,000 queues: micro-batch of 6,000 rows, p50", (PeerBar(10),), "s"),
]
