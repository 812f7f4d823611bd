"""Sends that wait: 40,000 together to a healthy broker, and one that waits for a broker that is away.

    python -m benchmarks.waiting_sends [--json] [--sends N] [--away SECONDS]

prints how many of the concurrent sends failed and by how much they made the process grow, then when a waiting send returned
after its broker, which was killed, or stopped as an operator does it, was back. `--json` prints one object on the last line
of standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from orbitmq import Message, Producer
from orbitmq.errors import OrbitError
from orbitmq.process.stats import memory_used
from orbitmq.testing import LocalCluster

SENDS = 40_000
AWAY_S = 6.0
TIMEOUT_MS = 25_000
TOPIC = "orders"
BROKER = "broker-a"
MB = 1_000_000


class Concurrent(NamedTuple):
    """What became of concurrent sends: `grown` is in bytes."""

    sent: int
    failed: int
    seconds: float
    grown: int


async def send_together(producer: Producer, count: int) -> Concurrent:
    """Call `send` so many times together, and wait for all of them."""
    await producer.send(Message(TOPIC, b"first"))
    peak = before = memory_used()

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, memory_used())
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    found = await asyncio.gather(
        *(producer.send(Message(TOPIC, b"x" * 100)) for _ in range(count)), return_exceptions=True
    )
    seconds = time.perf_counter() - began
    watching.cancel()
    for error in found:
        if isinstance(error, BaseException) and not isinstance(error, OrbitError):
            raise error
    errors = [error for error in found if isinstance(error, OrbitError)]
    if errors:
        print(errors[0], file=sys.stderr)
    return Concurrent(count - len(errors), len(errors), seconds, max(peak, memory_used()) - before)


async def send_to_the_absent(
    cluster: LocalCluster, leave: Callable[[str], Awaitable[None]], away_s: float, timeout_ms: int = TIMEOUT_MS
) -> float:
    """Let a broker leave for some time during sends; return how long after its return the send did, in seconds."""
    async with Producer("waiting", cluster.name_servers, send_timeout_ms=timeout_ms) as producer:
        await producer.send(Message(TOPIC, b"before"))
        await leave(BROKER)
        sending = asyncio.create_task(producer.send(Message(TOPIC, b"meanwhile")))
        await asyncio.sleep(away_s)
        await cluster.start_broker(BROKER)
        back = time.perf_counter()
        await sending
        return time.perf_counter() - back


async def main() -> None:
    """Measure both, and print them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_argument("--sends", type=int, default=SENDS)
    options.add_argument("--away", type=float, default=AWAY_S)
    given = options.parse_args()
    to = sys.stderr if given.json else sys.stdout
    late_s = {}
    async with LocalCluster(processes=True) as cluster:
        async with Producer("concurrent", cluster.name_servers) as producer:
            found = await send_together(producer, given.sends)
        print(
            f"concurrent sends      {given.sends}: {found.failed} failed, {found.sent} sent in {found.seconds:.1f} s, "
            f"memory +{found.grown / MB:.0f} MB",
            file=to,
        )
        for name, leave in (("killed", cluster.kill_broker), ("stopped", cluster.stop_broker)):
            late_s[name] = await send_to_the_absent(cluster, leave, given.away)
            print(
                f"broker {name:<15}away {given.away} s: the waiting send returned {late_s[name]:.2f} s after it was back",
                file=to,
            )
    if given.json:
        measured = {
            "sends": given.sends,
            "failed": found.failed,
            "seconds": found.seconds,
            "grown_mb": found.grown / MB,
        }
        print(json.dumps(measured | {"late_s": late_s, "late_s_max": max(late_s.values())}))


if __name__ == "__main__":
    asyncio.run(main())
