"""A master and its slave, Java's and ours: sends that wait for the slave, and how fast an empty slave catches up.

Both brokers of a pair run on one core while sends are measured, the load on the other; for the catch-up each has a core.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.load import BenchmarkError, run_load
from benchmarks.measure import Plan, Result, fill
from benchmarks.probe import RUNTIME_INFO, ask, ask_send, ask_topic, wait_for
from benchmarks.rows import Fill
from benchmarks.servers import Server, free_port, start

TOPIC = "bench-replicated"
CATCH_UP = Fill("bench-catch-up", messages=500_000, load={"body_size": 1024})
WITHIN_S = 120.0
LOOK_EVERY_S = 0.005
MB = 1_000_000
SEND = {"mode": "send", "body_size": 1024, "connections": 64, "depth": 1}


def log_end(port: int) -> int:
    """Return where a broker's CommitLog ends, in bytes; 0 while it does not say."""
    answer = ask(port, RUNTIME_INFO, {})
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"]) if answer.header["code"] == 0 else 0


@contextmanager
def _master(peer: str, plan: Plan, role: str) -> Iterator[Server]:
    # Java's master waits for a slave from inSyncReplicas=2 on.
    settings = f"brokerRole={role}\nhaListenPort={free_port()}\ninSyncReplicas=2\n"
    if role == "SYNC_MASTER":
        settings += "slaveTimeout=60000\n"  # the first send comes before there is a slave
    server = start(peer, "broker", {plan.server_core}, settings=settings, must_send=False)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _slave(master: Server, cores: set[int]) -> Iterator[Server]:
    assert master.companion is not None
    settings = (
        f"namesrvAddr=127.0.0.1:{master.companion.port}\nbrokerRole=SLAVE\nbrokerId=1\nhaListenPort={free_port()}\n"
    )
    server = start(master.name, "broker", cores, settings=settings, must_send=False)
    try:
        yield server
    finally:
        server.stop()


def _until(is_so: object, what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{what} did not come within {WITHIN_S:g} s")
        time.sleep(LOOK_EVERY_S)


def measure_sends(peer: str, plan: Plan) -> Result:
    """Sends that are answered when the slave has them, per second."""
    rates, latencies, bad = [], [], 0
    with _master(peer, plan, "SYNC_MASTER") as master, _slave(master, {plan.server_core}) as slave:
        ask_topic(master.port, TOPIC)
        wait_for(lambda: ask_send(master.port, TOPIC), codes=(0,), timeout_s=WITHIN_S)
        if peer == "java":
            _warm([master, slave], plan)
        for _ in range(plan.runs):
            run = run_load(
                **SEND,
                topic=TOPIC,
                port=master.port,
                server_pid=master.pid,
                cpu=plan.load_core,
                warmup=plan.warmup_s,
                seconds=plan.seconds,
            )
            rates.append(run["per_second"])
            latencies.append(run["p99_us"])
            bad += run["bad"]
        _until(lambda: log_end(slave.port) == log_end(master.port), "the slave's last message")
    value = sorted(rates)[len(rates) // 2]
    return {
        "value": value,
        "runs": rates,
        "bad": bad,
        "note": f"p99 {sorted(latencies)[len(latencies) // 2] / 1000:.2f} ms",
    }


def _warm(pair: list[Server], plan: Plan) -> None:
    """Let the JVMs compile, on both cores."""
    for server in pair:
        server.pin(plan.both_cores)
    run_load(
        **SEND, topic=TOPIC, port=pair[0].port, server_pid=pair[0].pid, cpu=plan.load_core, warmup=0,
        seconds=plan.warm_java_s,
    )  # fmt: skip
    for server in pair:
        server.pin({plan.server_core})


def measure_catch_up(peer: str, plan: Plan) -> Result:
    """Megabytes of the log that an empty slave takes per second, from its first byte to its master's end."""
    rates = []
    with _master(peer, plan, "ASYNC_MASTER") as master:
        ask_topic(master.port, CATCH_UP.topic)
        fill(master, CATCH_UP, plan)
        end = log_end(master.port)
        for _ in range(plan.runs):
            with _slave(master, {plan.load_core}) as slave:
                _until(lambda slave=slave: log_end(slave.port) > 0, "the slave's first message")
                began_s, first = time.monotonic(), log_end(slave.port)
                _until(lambda slave=slave: log_end(slave.port) >= end, "the slave's last message")
                rates.append((end - first) / (time.monotonic() - began_s) / MB)
    return {"value": sorted(rates)[len(rates) // 2], "runs": rates, "bad": 0, "note": f"{end / MB:,.0f} MB"}


def measure_group(peer: str, plan: Plan) -> tuple[float, float] | None:
    """Return the seconds from `orbitmq up --brokers 3` to the first SEND_OK, and the memory (MB) of all its processes."""
    if peer != "ours":
        return None
    with tempfile.TemporaryDirectory() as folder:
        words = (
            "up",
            "--brokers",
            "3",
            "--nameserver-port",
            "0",
            "--broker-port",
            "0",
            "-o",
            "json",
            "--data-dir",
            folder,
        )
        began_s = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "orbitmq", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            ports = [int(address.rpartition(":")[2]) for name, address in ready.items() if name.startswith("broker-a-")]
            while not any(ask_send(port, "first").header["code"] == 0 for port in ports):
                time.sleep(LOOK_EVERY_S)
            took_s = time.monotonic() - began_s
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            return took_s, sum(map(resident, family)) / MB
        finally:
            process.terminate()
            process.wait()


def resident(process: psutil.Process) -> int:
    """Return a process's share of resident memory in bytes, without mapped files of the store."""
    size, in_store = 0, False
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            in_store = any(part in line for part in ("/commitlog/", "/consumequeue/", "/index/"))
        elif first == "Pss:" and not in_store:
            size += int(rest[0]) * 1024
    return size
