"""Measurements of a NameServer of ours by size: many topics, many brokers, many idle connections.

    python -m benchmarks.scale [--quick]

Prints registration and query percentiles, memory and CPU of the server, which runs pinned to one core, and keeps them as
JSON. The load is a Python client on the other cores; its own latency is part of the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.headers import GetRouteInfo, RegisterBroker

REGISTER_EVERY_S = 30
RESULTS = Path(__file__).parent / "results" / "latest-scale.json"
PART_TOPICS = 10_000
GIANT_TURNS = 12


class Server:
    """A NameServer process on core 0."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        words = ["-m", "orbitmq", "nameserver", "--host", "127.0.0.1", "--port", "0", "--data-dir", self._folder.name]
        self._process = subprocess.Popen(
            [sys.executable, *words, "-o", "json", "--log-level", "error"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address: str = json.loads(self._process.stdout.readline())["nameserver"]
        self._about = psutil.Process(self._process.pid)
        if len(os.sched_getaffinity(0)) > 1:
            self._about.cpu_affinity([0])
            os.sched_setaffinity(0, os.sched_getaffinity(0) - {0})

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
        return float(round(self._about.memory_info().rss / 2**20, 1))

    @property
    def cpu_s(self) -> float:
        """CPU time so far."""
        times = self._about.cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


class Timings:
    """Latencies in milliseconds."""

    def __init__(self) -> None:
        self._found: list[float] = []

    async def time(self, pool: ConnectionPool, address: str, header: object, body: bytes = b"") -> None:
        """Make one request and note how long it took."""
        began = time.perf_counter()
        expect(await pool.request(address, header, body, timeout_ms=60_000), address)
        self._found.append((time.perf_counter() - began) * 1000)

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self._found)

    def summary(self) -> dict[str, float]:
        """Return count, median, p99 and maximum."""
        found = sorted(self._found)
        return {
            "count": len(found),
            "p50_ms": round(found[len(found) // 2], 3),
            "p99_ms": round(found[int(len(found) * 0.99)], 3),
            "max_ms": round(found[-1], 3),
        }


async def many_topics(topic_count: int) -> dict[str, Any]:
    """Two brokers with all topics each, in parts as our broker sends them; queries while one registers again."""
    server = Server()
    pool, registrations, queries = ConnectionPool(), Timings(), Timings()
    names = [f"topic-{number:06}" for number in range(topic_count)]
    try:
        for counter in (1, 100):  # the second round: everything under a new version
            for broker in ("a", "b"):
                for part in range(0, topic_count, PART_TOPICS):
                    topics = {name: TopicConfig(topic=name) for name in names[part : part + PART_TOPICS]}
                    body = encode_registration(DataVersion(0, 1, counter + part // PART_TOPICS), topics)
                    await registrations.time(pool, server.address, _header(broker, 0), body)
                    await queries.time(pool, server.address, GetRouteInfo(topic=random.choice(names[: part + 1])))
        for name in random.sample(names, min(20_000, topic_count)):
            await queries.time(pool, server.address, GetRouteInfo(topic=name))
        return {
            "registration (10,000 topics each)": registrations.summary(),
            "query": queries.summary(),
            "memory_mb": server.memory_mb,
            "cpu_s": round(server.cpu_s, 2),
        }
    finally:
        await pool.close()
        server.stop()


async def giants(topic_count: int) -> dict[str, Any]:
    """Brokers that register all their topics in one frame, each time others; clients that query meanwhile."""
    server = Server()
    pool, client, registrations, queries = ConnectionPool(), ConnectionPool(), Timings(), Timings()
    names = [f"topic-{number:06}" for number in range(topic_count)]
    bodies = [
        encode_registration(DataVersion(0, 1, perm), {name: TopicConfig(topic=name, perm=perm) for name in names})
        for perm in (6, 4)
    ]
    small = encode_registration(DataVersion(0, 1, 1), {name: TopicConfig(topic=name) for name in ("t", "u")})
    try:
        expect(await pool.request(server.address, _header("small", 0), small), server.address)
        before = server.cpu_s
        for turn in range(GIANT_TURNS):
            header = _header(f"giant-{turn % 2}", 0)
            work = asyncio.ensure_future(registrations.time(pool, server.address, header, bodies[turn // 2 % 2]))
            while not work.done():
                await queries.time(client, server.address, GetRouteInfo(topic="t"))
            await work
        return {
            f"registration ({topic_count:,} topics, {len(bodies[0]):,} bytes)": registrations.summary(),
            "query meanwhile": queries.summary(),
            "memory_mb": server.memory_mb,
            "cpu_ms_per_registration": round((server.cpu_s - before) * 1000 / GIANT_TURNS),
        }
    finally:
        await client.close()
        await pool.close()
        server.stop()


async def many_brokers(broker_count: int, rounds: int) -> dict[str, Any]:
    """Brokers with 100 topics each that register every 30 s, spread evenly, and clients that query meanwhile."""
    server = Server()
    registrations, queries, client = Timings(), Timings(), ConnectionPool()
    names = [f"topic-{number:03}" for number in range(100)]
    bodies = [
        encode_registration(DataVersion(0, 1, n), {name: TopicConfig(topic=name) for name in names}) for n in (1, 2)
    ]
    stop = asyncio.Event()

    async def broker(number: int) -> None:
        pool = ConnectionPool()
        for turn in range(rounds):
            began = time.perf_counter()
            if turn == 0:
                await asyncio.sleep(REGISTER_EVERY_S * number / broker_count)
            body = bodies[(number + turn) % 10 == 0]  # one in ten has changed
            await registrations.time(pool, server.address, _header(f"broker-{number:04}", 0), body)
            if turn + 1 < rounds:
                await asyncio.sleep(max(0.0, REGISTER_EVERY_S - (time.perf_counter() - began) * (turn > 0)))
        await stop.wait()
        await pool.close()

    async def ask() -> None:
        await asyncio.sleep(REGISTER_EVERY_S * 0.5)
        while not stop.is_set():
            await queries.time(client, server.address, GetRouteInfo(topic=random.choice(names)))
            await asyncio.sleep(0.01)

    try:
        tasks = [asyncio.create_task(broker(number)) for number in range(broker_count)]
        asking = asyncio.create_task(ask())
        while registrations.count < broker_count * rounds:
            await asyncio.sleep(0.5)
        found = {
            "registration (100 topics)": registrations.summary(),
            "query (route of all brokers)": queries.summary(),
            "memory_mb": server.memory_mb,
            "cpu_share": round(server.cpu_s / (REGISTER_EVERY_S * rounds), 3),
        }
        stop.set()
        await asyncio.gather(*tasks, asking)
        return found
    finally:
        await client.close()
        server.stop()


async def idle_connections(count: int) -> dict[str, Any]:
    """Connections that do nothing, and one that asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server()
    before = server.memory_mb
    host, port = server.address.split(":")
    pool, connects, queries = ConnectionPool(), [], Timings()
    writers = []
    body = encode_registration(DataVersion(0, 1, 1), {name: TopicConfig(topic=name) for name in ("t", "u")})
    try:
        for _ in range(count):
            began = time.perf_counter()
            _, writer = await asyncio.open_connection(host, int(port))
            connects.append((time.perf_counter() - began) * 1000)
            writers.append(writer)
        expect(await pool.request(server.address, _header("a", 0), body), server.address)
        for _ in range(2_000):
            await queries.time(pool, server.address, GetRouteInfo(topic="t"))
        connects.sort()
        return {
            "connections": count,
            "memory_added_mb": round(server.memory_mb - before, 1),
            "connect_p99_ms": round(connects[int(len(connects) * 0.99)], 3),
            "query": queries.summary(),
        }
    finally:
        for writer in writers:
            writer.transport.abort()
        await pool.close()
        server.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _header(broker: str, broker_id: int) -> RegisterBroker:
    return RegisterBroker(
        broker_name=broker,
        broker_addr=f"{broker}:10911",
        cluster_name="scale",
        ha_server_addr=f"{broker}:10912",
        broker_id=broker_id,
    )


def main() -> None:
    """Run the loads, print and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything, nothing is kept")
    quick = parser.parse_args().quick
    found: dict[str, Any] = {}
    loads: dict[str, Callable[[], Coroutine[Any, Any, dict[str, Any]]]] = {
        "topics on 2 brokers": lambda: many_topics(1_000 if quick else 100_000),
        "brokers with all topics in one frame": lambda: giants(1_000 if quick else 80_000),
        "idle connections": lambda: idle_connections(100 if quick else 10_000),
        "brokers registering every 30 s": lambda: many_brokers(10 if quick else 1_000, 1 if quick else 3),
    }
    for name, load in loads.items():
        print(f"{name} …", flush=True)
        found[name] = run(load())
        print(json.dumps(found[name], indent=2), flush=True)
    if not quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
