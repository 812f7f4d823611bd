"""The operators' tools over a cluster of 1,000 topics and 2,500 groups, ours alone: pages, memory, doctor, tools, live tail.

python -m benchmarks.operators --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpx
import psutil

from benchmarks.replication import resident
from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants.tools import TOOLS, Toolbox
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import UpdateConsumerOffset

TOPICS, GROUPS, QUEUES = 1_000, 2_500, 8
LOOKS = 20
"""Requests of each page."""
TAIL_RATE, TAIL_S, BATCH = 5_000, 6, 50
PAGES = (
    "/", "/topics", "/topics?q=topic-09&page=2", "/topics/topic-0001", "/groups", "/groups?q=group-24", "/groups/group-0001",
    "/messages?topic=topic-0001&begin=2020-01-01", "/dead-letters", "/waiting", "/clients", "/brokers/broker-a", "/name-servers",
    "/users", "/doctor",
)  # fmt: skip
ARGUMENTS: dict[str, dict[str, Any]] = {
    "topic": {"topic": "topic-0001"}, "route": {"topic": "topic-0001"}, "group": {"group": "group-0001"},
    "message": {"topic": "topic-0001", "message_id": "none"}, "messages_by_key": {"topic": "topic-0001", "key": "k"},
    "messages_by_time": {"topic": "topic-0001", "begin": 0}, "journey": {"message_id": "none"}, "dead_letters": {"group": "group-0001"},
}  # fmt: skip
MB = 1_000_000


@contextmanager
def program(*words: object) -> Iterator[tuple[psutil.Process, dict[str, Any], float]]:
    """Run a command of ours that serves; yield its process, its ready line, and how long that took in seconds."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "orbitmq", *map(str, words), "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield psutil.Process(process.pid), ready, time.monotonic() - began_s
        finally:
            process.terminate()


async def fill(name_servers: str) -> None:
    """Make topics with a message each, and groups with an offset in every queue of one."""
    async with AdminClient(name_servers, timeout_ms=30_000) as admin:
        for number in range(TOPICS):
            name = f"topic-{number:04}"
            await admin.create_topic(TopicConfig(topic=name, read_queue_count=QUEUES, write_queue_count=QUEUES))
        for number in range(GROUPS):
            await admin.create_group(GroupConfig(group=f"group-{number:04}"))
        (address,) = (await admin.masters()).values()
    async with Producer("bench", name_servers) as producer:
        for number in range(TOPICS):
            await producer.send(Message(f"topic-{number:04}", b"a message", keys=["k"]))
    pool = ConnectionPool()
    for number in range(GROUPS):
        for queue_id in range(QUEUES):
            header = UpdateConsumerOffset(
                consumer_group=f"group-{number:04}",
                topic=f"topic-{number % TOPICS:04}",
                queue_id=queue_id,
                commit_offset=0,
            )
            expect(await pool.request(address, header), address)
    await pool.close()


async def look(url: str) -> dict[str, float]:
    """Return the p95 of each page's time, in ms, over one connection."""
    found = {}
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for page in PAGES:
            times = []
            for _ in range(LOOKS):
                began_s = time.perf_counter()
                answer = await client.get(page)
                times.append(1_000 * (time.perf_counter() - began_s))
                answer.raise_for_status()
            found[page] = statistics.quantiles(times, n=20)[-1]
    return found


async def ask_tools(name_servers: str) -> tuple[dict[str, float], dict[str, int]]:
    """Return the longest time of each reading tool in seconds, and its answer's bytes."""
    clients = ClusterClients(name_servers)
    toolbox = Toolbox(clients, None)
    seconds: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name, tool in TOOLS.items():
        if not tool.changes:
            for _ in range(5):
                began_s = time.perf_counter()
                result = await toolbox.call(name, ARGUMENTS.get(name, {}), "bench")
                seconds[name] = max(seconds.get(name, 0), time.perf_counter() - began_s)
            sizes[name] = len(result.text.encode())
    await clients.close()
    return seconds, sizes


async def send_steadily(producer: Producer) -> float:
    """Send `TAIL_RATE` messages a second for `TAIL_S`; return the rate that was reached."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    sent = 0
    while (passed_s := loop.time() - began_s) < TAIL_S:
        if sent > passed_s * TAIL_RATE:
            await asyncio.sleep(0.001)
            continue
        await producer.send_batch([Message("tailed", b"x" * 200) for _ in range(BATCH)])
        sent += BATCH
    return sent / (loop.time() - began_s)


async def measure_tail(name_servers: str, url: str) -> tuple[float, float, float]:
    """Return the rate without and with a live tail, and the slowest page meanwhile in ms."""
    async with AdminClient(name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="tailed", read_queue_count=QUEUES, write_queue_count=QUEUES))

    async def read(client: httpx.AsyncClient) -> AsyncIterator[str]:
        async with client.stream("GET", "/topics/tailed/tail") as answer:
            async for line in answer.aiter_lines():
                yield line

    async def drain(client: httpx.AsyncClient) -> None:
        async with aclosing(read(client)) as lines:  # type: ignore[type-var]
            async for _ in lines:
                pass

    slowest_ms = 0.0
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, Producer("bench", name_servers) as producer:
        alone = await send_steadily(producer)
        tail = asyncio.create_task(drain(client))
        sending = asyncio.create_task(send_steadily(producer))
        while not sending.done():
            began_s = time.perf_counter()
            (await client.get("/topics/tailed")).raise_for_status()
            slowest_ms = max(slowest_ms, 1_000 * (time.perf_counter() - began_s))
        watched = await sending
        tail.cancel()
        await asyncio.gather(tail, return_exceptions=True)
    return alone, watched, slowest_ms


async def measure() -> dict[str, Any]:
    """Return all figures."""
    ports = ("--nameserver-port", 0, "--broker-port", 0)
    with tempfile.TemporaryDirectory() as folder:
        with program("up", *ports, "--data-dir", f"{folder}/small", "--dashboard", "--dashboard-port", 0) as (
            one,
            _,
            up_s,
        ):
            await asyncio.sleep(2)
            up_mb = sum(resident(process) for process in (one, *one.children())) / MB
        with program("up", *ports, "--data-dir", f"{folder}/large") as (_, ready, _):
            name_servers = ready["nameserver"]
            await fill(name_servers)
            with program("dashboard", "--port", 0, "-n", name_servers) as (dashboard, shown, _):
                pages = await look(shown["dashboard"])
                alone, watched, slowest_ms = await measure_tail(name_servers, shown["dashboard"])
                dashboard_mb = resident(dashboard) / MB
            began_s = time.monotonic()
            words = (sys.executable, "-m", "orbitmq", "doctor", "-n", name_servers)
            null = subprocess.DEVNULL
            await (await asyncio.create_subprocess_exec(*words, stdout=null, stderr=null)).wait()
            doctor_s = time.monotonic() - began_s
            seconds, sizes = await ask_tools(name_servers)
    return {
        "page_ms": max(pages.values()),
        "pages": {page: round(ms, 1) for page, ms in pages.items()},
        "dashboard_mb": dashboard_mb,
        "doctor_s": doctor_s,
        "tool_s": max(seconds.values()),
        "tools": {name: round(value, 3) for name, value in seconds.items()},
        "tool_kib": max(sizes.values()) / 1024,
        "tail_share": watched / alone,
        "tail_rate": watched,
        "tail_page_ms": slowest_ms,
        "up_s": up_s,
        "up_mb": up_mb,
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.parse_args()
    print(json.dumps(run(measure())))


if __name__ == "__main__":
    main()
