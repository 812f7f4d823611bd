"""The rows that are no load: start-up, memory, commands, packages, Spark."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.load import BenchmarkError, run_load
from benchmarks.measure import Plan, Result, Say, fill
from benchmarks.probe import ask_count, ask_route, ask_send, ask_topic, wait_for
from benchmarks.replication import measure_catch_up, measure_group, measure_sends
from benchmarks.report import ROOT
from benchmarks.rows import FILLED, Fill, SparkRow
from benchmarks.servers import JARS, Server, allow_open_files, java_command, start
from benchmarks.usage import usage_of

MB = 1_000_000
KIB = 1024
TIMERS, TIMER_DELAY_MS, TIMERS_WITHIN_S, LOOK_EVERY_S = 100_000, 2_000, 300, 0.05
TOPICS, OTHER_FILES = 5_000, 2_000
POISON_MESSAGES = 100_000
SPARK_ROWS_COUNT = 2_000_000
SENDS = 40_000
MILLION, MILLION_LEAD_S = (
    1_000_000,
    (10, 200),
)  # timers, and the time to store them before the first is due: least, for all
LARGE = Fill("bench-large", messages=1_700_000, load={"body_size": KIB})
SPARK_SCRIPT = Path(__file__).parent / "spark_read.py"


def measure_figures(names: Iterable[str], plan: Plan, say: Say) -> Iterator[tuple[str, Result]]:
    """Measure figures, each for every peer that has it, and yield the name of each with peer -> figures.

    Raises:
        BenchmarkError: at the end, when some have failed.
    """
    failed = []
    for name in names:
        try:
            if result := _measure_figure(name, plan, say):
                yield name, result
        except BenchmarkError as error:
            say(f"  {name:24} failed: {error}")
            failed.append(name)
    if failed:
        raise BenchmarkError(f"{', '.join(failed)} failed")


def _measure_figure(name: str, plan: Plan, say: Say) -> Result:
    result: Result = {}
    for peer in plan.peers:
        taken: list[Result] = []
        usage = usage_of(partial(_measure_peer, name, peer, plan, taken))
        for measured in taken:
            result[peer] = measured | {"cpu_s": usage.cpu_s}
            say(f"  {name:24} {peer:5} {measured['value']:>12,.1f}  {measured.get('note', '')}")
    return result


def _measure_peer(name: str, peer: str, plan: Plan, into: list[Result]) -> None:
    measured = MEASURES[name](peer, plan)
    if measured is not None:
        into.append(measured)


def _summary(values: list[float], **more: object) -> Result:
    return {"value": statistics.median(values), "runs": values, "bad": 0, **more}


@contextmanager
def _running(peer: str, kind: str, plan: Plan) -> Iterator[Server]:
    server = start(peer, kind, {plan.server_core})
    try:
        yield server
    finally:
        server.stop()


def _start_time(kind: str) -> Callable[[str, Plan], Result | None]:
    def measure(peer: str, plan: Plan) -> Result:
        times = []
        with _running(peer, kind, plan):
            pass  # the first start writes bytecode, and reads files that later ones find in memory
        for _ in range(plan.runs):
            with _running(peer, kind, plan) as server:
                times.append(server.first_answer_ms)
        return _summary(times)

    return measure


def _up_time(peer: str, plan: Plan) -> Result:
    """Time from nothing to the first SEND_OK through a NameServer's route, on both cores."""
    _up_once(peer, plan)  # as above
    return _summary([_up_once(peer, plan) for _ in range(plan.runs)], note="both cores")


def _up_once(peer: str, plan: Plan) -> float:
    started_s = time.monotonic()
    servers: list[Server] = []
    try:
        if peer == "java":
            names = start("java", "nameserver", plan.both_cores)
            servers.append(names)
            settings = f"namesrvAddr=127.0.0.1:{names.port}\n"
            broker = start("java", "broker", plan.both_cores, settings=settings)
            servers.append(broker)
            name_server_port = names.port
        else:
            broker = start("ours", "up", plan.both_cores)
            servers.append(broker)
            name_server_port = broker.ports["nameserver"]
        wait_for(lambda: ask_route(name_server_port, "first"), codes=(0,))
        wait_for(lambda: ask_send(broker.port, "first"), codes=(0,))
        return (time.monotonic() - started_s) * 1000
    finally:
        for server in servers:
            server.stop()


def _nameserver_memory(topic_brokers: int) -> Callable[[str, Plan], Result | None]:
    def measure(peer: str, plan: Plan) -> Result:
        with _running(peer, "nameserver", plan) as server:
            if topic_brokers == 0:
                return _memory_of(server)
            brokers = plan.brokers or 100
            measured = run_load(
                mode="route",
                port=server.port,
                server_pid=server.pid,
                cpu=plan.load_core,
                connections=50,
                brokers=brokers,
                topics=plan.topics or 1000,
                topic_brokers=min(topic_brokers, brokers),
                topic="bench_topic",
                warmup=0,
                seconds=plan.seconds,
            )
        return _summary([measured["rss_kb"] * KIB / MB], anonymous_mb=measured["anonymous_kb"] * KIB / MB)

    return measure


def _memory_of(server: Server) -> Result:
    memory = server.memory()
    return _summary(
        [memory.without_store / MB],
        rss_mb=memory.rss / MB,
        anonymous_mb=memory.anonymous / MB,
        note=f"RSS {memory.rss / MB:,.1f} MB, anonymous {memory.anonymous / MB:,.1f} MB",
    )


def _broker_memory(*, loaded: bool) -> Callable[[str, Plan], Result | None]:
    def measure(peer: str, plan: Plan) -> Result:
        with _running(peer, "broker", plan) as server:
            if loaded:
                ask_topic(server.port, FILLED.topic)
                fill(server, FILLED, plan)
            return _memory_of(server)

    return measure


def _timers(peer: str, plan: Plan) -> Result:
    """Time from the first send of messages with a short delay until the last of them can be read."""
    rates = []
    with _running(peer, "broker", plan) as server:
        for run in range(plan.runs):
            count, topic = min(TIMERS, plan.sample_messages_max), f"bench-timers-{run}"
            ask_topic(server.port, topic)
            started_s = time.monotonic()
            run_load(
                mode="send",
                port=server.port,
                cpu=plan.load_core,
                topic=topic,
                connections=16,
                body_size=100,
                delay_ms=TIMER_DELAY_MS,
                requests=count,
            )
            while (found := ask_count(server.port, topic)) < count:
                if time.monotonic() - started_s > TIMERS_WITHIN_S:
                    raise BenchmarkError(f"{found} of {count} timer messages were delivered")
                time.sleep(LOOK_EVERY_S)
            rates.append(count / (time.monotonic() - started_s))
    return _summary(rates, note=f"delay {TIMER_DELAY_MS} ms included")


def _restart_2gb(peer: str, plan: Plan) -> Result:
    with _running(peer, "broker", plan) as server:
        ask_topic(server.port, LARGE.topic)
        fill(server, LARGE, plan)
        return _summary([server.restart_killed({plan.server_core}) for _ in range(plan.runs)])


@contextmanager
def _many_topics(peer: str, plan: Plan) -> Iterator[tuple[Server, str]]:
    """A broker with one message in each queue of many topics, as many as Java can hold here, and how many that are.

    A MappedFile of Java's keeps its descriptor: without one for each queue its broker does not start again.
    """
    spread = min(TOPICS, plan.topics or TOPICS, (allow_open_files() - OTHER_FILES) // 8)
    with _running(peer, "broker", plan) as server:
        server.pin(plan.both_cores)
        for number in range(spread):
            ask_topic(server.port, f"bench-many_{number:04}")
        run_load(
            mode="send",
            port=server.port,
            cpu=plan.load_core,
            topic="bench-many",
            spread=spread,
            connections=16,
            body_size=100,
            requests=spread * 8,
        )
        server.pin({plan.server_core})
        yield server, f"{spread:,} topics"


def _restart_5000(peer: str, plan: Plan) -> Result:
    with _many_topics(peer, plan) as (server, note):
        return _summary([server.restart_killed({plan.server_core}) for _ in range(plan.runs)], note=note)


def _memory_5000(peer: str, plan: Plan) -> Result:
    with _many_topics(peer, plan) as (server, note):
        measured = _memory_of(server)
        return measured | {"note": f"{note}, {measured['note']}"}


def _spark_read(peer: str, plan: Plan) -> Result | None:
    """Run the Spark benchmark, which prints a JSON object with `rows_per_second`; Java has no such connector."""
    if peer == "java" or not SPARK_SCRIPT.exists():
        return None
    measured = _script("benchmarks.spark_read")
    others = measured["others_cpu"]
    return _summary([measured["rows_per_second"]], note="both cores", others_cpu=others, detail=measured)


def measure_spark(rows: Sequence[SparkRow], plan: Plan, say: Say) -> Iterator[tuple[str, Result]]:
    """Run Spark next to Kafka's connector, which that script starts itself; yield each case as soon as it is done.

    Raises:
        BenchmarkError: at the end, when a case or the script has failed.
    """
    if not rows or "ours" not in plan.peers:
        return
    words = ["--rows", str(min(SPARK_ROWS_COUNT, plan.sample_messages_max)), "--runs", str(plan.runs)]
    words += ["--attempts", str(plan.attempts_max), *(word for row in rows for word in ("--case", row.case))]
    words += [] if "java" in plan.peers else ["--without-kafka"]
    command = [sys.executable, "-m", "benchmarks.spark_kafka", "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        try:
            for line in script.stdout:
                if line.startswith('{"row"'):
                    measured = json.loads(line)
                    yield measured["row"], measured["result"]
        except BaseException:
            script.send_signal(signal.SIGINT)  # it stops its servers itself
            raise
    if script.returncode:
        raise BenchmarkError("spark_kafka failed: see above")


def _poison(peer: str, plan: Plan) -> Result | None:
    """Run the benchmark of failing handlers, whose clients are ours alone: one ratio, the worst of its cases."""
    if peer == "java":
        return None
    measured = _script(
        "benchmarks.poison", "--messages", str(min(POISON_MESSAGES, plan.sample_messages_max)), "--runs", str(plan.runs)
    )
    ratios = ", ".join(f"{case} {found['ratio']:.2f}" for case, found in measured["cases"].items())
    return _summary([measured["ratio"]], note=ratios, detail=measured)


def _of_script(run: Callable[[Plan], dict[str, Any]], name: str) -> Callable[[str, Plan], Result | None]:
    """One of the figures of a script of ours alone; the rows that share the script share its run."""

    def measure(peer: str, plan: Plan) -> Result | None:
        if peer == "java":
            return None
        measured = run(plan)
        return _summary([measured[name]], detail=measured)

    return measure


@cache
def _waiting_sends(plan: Plan) -> dict[str, Any]:
    return _script("benchmarks.waiting_sends", "--sends", str(min(SENDS, plan.sample_messages_max)))


@cache
def _million_timers(plan: Plan) -> dict[str, Any]:
    count = min(MILLION, plan.sample_messages_max)
    lead_s = max(MILLION_LEAD_S[0], MILLION_LEAD_S[1] * count // MILLION)
    return _script("crash.million_timers", "--count", str(count), "--lead-s", str(lead_s), "--no-kill")


@cache
def _operators(_plan: Plan) -> dict[str, Any]:
    return _script("benchmarks.operators")


def _cluster_list(peer: str, plan: Plan) -> Result:
    """Time of one `mqadmin clusterList`, process start included, against the same cluster of ours."""
    server = start("ours", "up", plan.both_cores)
    try:
        if peer == "java":
            command = [*java_command(), "-cp", f"{JARS}/*", "org.apache.rocketmq.tools.command.MQAdminStartup"]
        else:
            command = [sys.executable, "-m", "orbitmq", "mqadmin"]
        command += ["clusterList", "-n", f"127.0.0.1:{server.ports['nameserver']}"]
        times = [_time_of(command) for _ in range(1 + plan.runs * (1 if peer == "java" else 5))]
    finally:
        server.stop()
    return _summary(times[1:])  # the first one reads its files from the disk


def _time_of(command: Sequence[str]) -> float:
    started_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or "DefaultCluster" not in done.stdout:
        raise BenchmarkError(f"{' '.join(command)} failed: {done.stderr or done.stdout}")
    return 1_000 * (time.monotonic() - started_s)


@cache
def _wheel(_plan: Plan) -> dict[str, Any]:
    """Build the wheel, and install it with pip into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        built, cache_folder = Path(folder, "dist"), Path(folder, "cache")
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
        subprocess.run(hatchling, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = built.glob("*.whl")
        empty = Path(folder, "empty")
        venv.create(empty, with_pip=True)
        (packages,) = empty.glob("lib/python3*/site-packages")
        before = _size_of(packages)
        pip = [
            str(empty / "bin/python"),
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "--cache-dir",
            str(cache_folder),
        ]
        started_s = time.monotonic()
        subprocess.run([*pip, "install", str(wheel)], check=True)
        install_s = time.monotonic() - started_s
        downloads = Path(folder, "downloads")
        subprocess.run([*pip, "download", "--dest", str(downloads), str(wheel)], check=True)
        return {
            "wheel_mb": wheel.stat().st_size / MB,
            "install_s": install_s,
            "download_mb": _size_of(downloads) / MB,
            "disk_mb": (_size_of(packages) - before) / MB,
        }


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _script(module: str, *words: str) -> dict[str, Any]:
    """Run a program in a process of its own; return the JSON object on its last line."""
    command = [sys.executable, "-m", module, "--json", *words]
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path})
    if done.returncode:
        raise BenchmarkError(f"{module} failed: {(done.stderr or done.stdout)[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def _of_group(place: int) -> Callable[[str, Plan], Result | None]:
    def measure(peer: str, plan: Plan) -> Result | None:
        found = [measured for _ in range(plan.runs) if (measured := measure_group(peer, plan)) is not None]
        return _summary([measured[place] for measured in found]) if found else None

    return measure


MEASURES: dict[str, Callable[[str, Plan], Result | None]] = {
    "start-nameserver": _start_time("nameserver"),
    "start-broker": _start_time("broker"),
    "start-up": _up_time,
    "memory-nameserver-idle": _nameserver_memory(0),
    "memory-nameserver-k8": _nameserver_memory(8),
    "memory-nameserver-k100": _nameserver_memory(100),
    "memory-broker-idle": _broker_memory(loaded=False),
    "memory-broker-loaded": _broker_memory(loaded=True),
    "timers": _timers,
    "restart-2gb": _restart_2gb,
    "restart-5000": _restart_5000,
    "memory-broker-5000": _memory_5000,
    "poison": _poison,
    "sends-together-failed": _of_script(_waiting_sends, "failed"),
    "sends-together-memory": _of_script(_waiting_sends, "grown_mb"),
    "send-after-return": _of_script(_waiting_sends, "late_s_max"),
    "timers-million-memory": _of_script(_million_timers, "memory_mb"),
    "timers-million-start": _of_script(_million_timers, "start_s"),
    "timers-million-late": _of_script(_million_timers, "late_s"),
    "replicated-sends": measure_sends,
    "catch-up": measure_catch_up,
    "group-start": _of_group(0),
    "group-memory": _of_group(1),
    "dashboard-pages": _of_script(_operators, "page_ms"),
    "dashboard-memory": _of_script(_operators, "dashboard_mb"),
    "doctor": _of_script(_operators, "doctor_s"),
    "assistants-tool": _of_script(_operators, "tool_s"),
    "dashboard-tail": _of_script(_operators, "tail_share"),
    "dashboard-up": _of_script(_operators, "up_s"),
    "dashboard-up-memory": _of_script(_operators, "up_mb"),
    "mqadmin-cluster-list": _cluster_list,
    "wheel-size": _of_script(_wheel, "wheel_mb"),
    "wheel-install": _of_script(_wheel, "install_s"),
    "wheel-download": _of_script(_wheel, "download_mb"),
    "wheel-on-disk": _of_script(_wheel, "disk_mb"),
    "spark-read": _spark_read,
}
