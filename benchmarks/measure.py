"""Measuring: both peers in alternation, the one that is not asked stopped meanwhile, medians of several runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from benchmarks.load import BenchmarkError, run_load
from benchmarks.probe import ask_topic
from benchmarks.rows import Fill, Row
from benchmarks.servers import Server, start

WARM_WITHIN = 0.05
WARM_STEP_S = 3.0
WARM_STEPS = 3
OTHERS_CPU_MAX = 0.15  # of one core: more means that another program is at work on this machine
ATTEMPTS_MAX = 3
KEPT = ("p50_us", "p99_us", "server_cpu", "client_cpu", "others_cpu")
Say = Callable[[str], None]
Result = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How long and how often, and on which cores."""

    peers: tuple[str, ...] = ("java", "ours")
    runs: int = 3
    warmup_s: float = 1
    seconds: float = 4
    warm_java_s: float = 90
    attempts_max: int = ATTEMPTS_MAX
    server_core: int = 0
    load_core: int = 1
    sample_messages_max: int = 10_000_000
    brokers: int | None = None  # smaller cluster for a sanity run
    topics: int | None = None

    @property
    def both_cores(self) -> set[int]:
        """What a Java server may use while its code is compiled."""
        return {self.server_core, self.load_core}


def measure_rows(rows: Sequence[Row], plan: Plan, say: Say) -> Iterator[tuple[str, Result]]:
    """Measure `rows`, in the order of their servers, and yield the name of each with peer -> figures.

    Raises:
        BenchmarkError: at the end, when rows have failed.
    """
    failed: list[str] = []
    ordered = sorted(rows, key=lambda row: row.server_key)
    for (kind, flush, settings), group in groupby(ordered, key=lambda row: row.server_key):
        members = list(group)
        say(f"starting {' and '.join(plan.peers)}: {kind} {flush if kind == 'broker' else ''}")
        servers: list[Server] = []
        try:
            for peer in plan.peers:
                servers.append(start(peer, kind, {plan.server_core}, flush=flush, settings=settings))
                servers[-1].pause()
            for row in members:
                try:
                    yield row.name, _measure_row(row, servers, plan, say)
                except BenchmarkError as error:
                    say(f"  {row.name:24} failed: {error}")
                    failed.append(row.name)
                    for server in servers:
                        server.pause()
        finally:
            for server in servers:
                server.stop()
    if failed:
        raise BenchmarkError(f"{', '.join(failed)} failed")


def _measure_row(row: Row, servers: Iterable[Server], plan: Plan, say: Say) -> Result:
    peers = list(servers)
    for server in peers:
        server.resume()
        _prepare(row, server, plan)
        _warm(row, server, plan)
        server.pause()
    runs: dict[str, list[dict[str, Any]]] = {server.name: [] for server in peers}
    for number in range(plan.runs):
        for server in peers if number % 2 == 0 else reversed(peers):
            server.resume()
            run = _quiet_load(row, server, plan)
            server.pause()
            runs[server.name].append(run)
            cost = run["server_cpu"] / max(run["per_second"], 1) * 1e6
            busy = f", others used {run['others_cpu']:.2f} cores" if run["others_cpu"] > OTHERS_CPU_MAX else ""
            bad = f", {run['bad']} BAD {run['codes']} {run['remarks']}" if run["bad"] else ""
            say(
                f"  {row.name:24} {server.name:5} {run[row.metric]:>12,.0f}/s  p99 {run['p99_us'] / 1000:8.2f} ms"
                f"  {cost:7.1f} us of CPU each"
                f"  saturated: {run['saturated']}{busy}{bad}"
            )
    return {name: summarise(measured, row.metric) for name, measured in runs.items()}


def summarise(runs: Sequence[Mapping[str, Any]], metric: str) -> Result:
    """Return the medians of several runs of one load."""
    sides = [run["saturated"] for run in runs]
    return {
        "value": statistics.median(run[metric] for run in runs),
        "runs": [run[metric] for run in runs],
        "bad": sum(run["bad"] for run in runs),
        "saturated": max(set(sides), key=sides.count),
        "server_cpu_us": statistics.median(run["server_cpu"] / max(run["per_second"], 1) * 1e6 for run in runs),
        "rss_mb": statistics.median(run["rss_kb"] for run in runs) * 1024 / 1e6,
        **{name: statistics.median(run[name] for run in runs) for name in KEPT},
    }


def _quiet_load(row: Row, server: Server, plan: Plan) -> dict[str, Any]:
    """Load the server, again when other processes took part of the machine, and return the quietest run."""
    attempts: list[dict[str, Any]] = []
    while len(attempts) < plan.attempts_max:
        attempts.append(_load(row, server, plan, plan.warmup_s, plan.seconds))
        if attempts[-1]["others_cpu"] <= OTHERS_CPU_MAX:
            break
    return min(attempts, key=lambda run: float(run["others_cpu"]))


def _load(row: Row, server: Server, plan: Plan, warmup_s: float, seconds: float) -> dict[str, Any]:
    load = dict(row.load)
    if plan.brokers is not None and row.kind == "nameserver":
        load |= {"brokers": plan.brokers, "topics": plan.topics}
        load["connections"] = min(int(str(load["connections"])), plan.brokers)
        load["topic_brokers"] = min(int(str(load["topic_brokers"])), plan.brokers)
    if row.fill is not None:
        load["key_range"] = min(row.fill.messages, plan.sample_messages_max)
    return run_load(
        **load,
        port=server.port,
        server_pid=server.pid,
        cpu=plan.load_core,
        topic=topic_of(row),
        warmup=warmup_s,
        seconds=seconds,
    )


def topic_of(row: Row) -> str:
    """Return the topic of a row: reads find what was filled in for them, sends write to one of their own."""
    if row.fill is not None:
        return row.fill.topic
    return "bench-send" if row.kind == "broker" else "bench_topic"


def _prepare(row: Row, server: Server, plan: Plan) -> None:
    """Create the topic with its queues, and for a read the messages."""
    if row.kind != "broker":
        return
    if row.fill is None:
        ask_topic(server.port, topic_of(row))
    elif row.fill.topic not in server.ports:
        ask_topic(server.port, row.fill.topic, queues=row.fill.queues)
        fill(server, row.fill, plan)
        server.ports[row.fill.topic] = 0  # filled once


def fill(server: Server, what: Fill, plan: Plan) -> None:
    """Send the messages that rows are to read, on both cores."""
    server.pin(plan.both_cores)
    run_load(
        mode="send",
        port=server.port,
        topic=what.topic,
        queues=what.queues,
        connections=16,
        depth=4,
        requests=min(what.messages, plan.sample_messages_max),
        cpu=plan.load_core,
        **what.load,
    )
    server.pin({plan.server_core})


def _warm(row: Row, server: Server, plan: Plan) -> None:
    """Let a JVM compile this load's path, with both cores to do it on, until it is warm."""
    if server.name != "java" or plan.warm_java_s <= 0:
        return
    server.pin(plan.both_cores)
    rates: list[float] = []
    while not is_warm(rates) and len(rates) * WARM_STEP_S < plan.warm_java_s:
        rates.append(float(_load(row, server, plan, 0, WARM_STEP_S)["per_second"]))
    server.pin({plan.server_core})


def is_warm(rates: Sequence[float]) -> bool:
    """Return True if the last few looks were hardly better than the best one before: one alone may be slow by chance."""
    before = rates[:-WARM_STEPS]
    return len(before) > 0 and max(rates[-WARM_STEPS:]) <= max(before) * (1 + WARM_WITHIN)
