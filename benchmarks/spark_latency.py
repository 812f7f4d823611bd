"""Latency of running streams: from a message's acknowledgement until its row is in the sink.

    python -m benchmarks.spark_latency ADDRESS TOPIC RATE COUNT      # the sender of ours, a process of its own

A plain producer sends at a fixed rate: ours with `send_soon`, Kafka's with the Java client (`benchmarks/kafka/Sender.java`), each
with its defaults. It notes when each message is acknowledged, and prints that at its end. The stream has no trigger,
so a micro-batch begins as soon as the one before is done; rows have arrived when `foreachBatch` has them in the driver.
Both use the machine's clock.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.kafka.server import java_command
from benchmarks.load import BenchmarkError
from orbitmq import Message, Producer

BODY_SIZE = 128
TICK_S = 0.001
WARM_UP_S = 8  # of messages that do not count: the query and the sender start meanwhile
ARRIVAL_TIMEOUT_S = 60
KAFKA_SENDER = str(Path(__file__).parent / "kafka" / "Sender.java")


@dataclass(frozen=True)
class Feed:
    """One system as it is measured.

    `read` makes a stream of a new topic, from the topic's beginning, with one column, the body; `sender` is a command line
    that takes topic, rate and count.
    """

    read: Callable[[str], Any]
    sender: Sequence[str]


def our_sender(name_server: str) -> list[str]:
    """Return the command line of our sender, without topic, rate and count."""
    return [sys.executable, "-m", "benchmarks.spark_latency", name_server]


def kafka_sender(address: str) -> list[str]:
    """Return the command line of Kafka's sender, without topic, rate and count."""
    return [*java_command(), KAFKA_SENDER, address]


def measure_latency(feed: Feed, topic: str, rate: int, count: int) -> list[float]:
    """Send `count` messages to a new topic; return the milliseconds from each one's acknowledgement to its row.

    Those that warm up are sent before, and do not count.
    """
    arrived: dict[int, float] = {}

    def note(batch: Any, _number: int) -> None:
        bodies: pa.Table = batch.toArrow()
        now = time.time()
        for body in bodies.column(0).to_pylist():
            arrived.setdefault(int(body), now)

    warm_up = WARM_UP_S * rate
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = feed.read(topic).writeStream.foreachBatch(note).option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            acknowledged = acknowledgements(feed.sender, topic, rate, warm_up + count)
            _await_arrivals(query, arrived, len(acknowledged))
        finally:
            query.stop()
    return [(arrived[number] - at) * 1000 for number, at in acknowledged.items() if number >= warm_up]


def acknowledgements(sender: Sequence[str], topic: str, rate: int, count: int) -> dict[int, float]:
    """Run a sender; return the time of each message's acknowledgement, in seconds since 1970."""
    printed = subprocess.run([*sender, topic, str(rate), str(count)], stdout=subprocess.PIPE, text=True, check=True)
    times = [int(line) for line in printed.stdout.splitlines() if line.isdigit()]
    acknowledged = {number: time_us / 1e6 for number, time_us in enumerate(times) if time_us}
    if len(acknowledged) != count:
        raise BenchmarkError(f"{len(acknowledged):,} of {count:,} messages acknowledged")
    return acknowledged


def _await_arrivals(query: Any, arrived: dict[int, float], count: int) -> None:
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while len(arrived) < count:
        if not query.isActive or time.monotonic() > deadline:
            raise BenchmarkError(f"{len(arrived):,} of {count:,} rows arrived: {query.exception()}")
        time.sleep(0.1)


async def send(name_server: str, topic: str, rate: int, count: int) -> list[int]:
    """Send messages at a rate; return the time of each one's acknowledgement, in microseconds since 1970, 0 if it failed."""
    acknowledged = [0] * count

    def note(number: int, sent: asyncio.Future[Any]) -> None:
        if sent.exception() is None:
            acknowledged[number] = time.time_ns() // 1000

    async with Producer("bench-latency", name_server) as producer:
        began, number = time.monotonic(), 0
        while number < count:
            if number >= (time.monotonic() - began) * rate:
                await asyncio.sleep(TICK_S)
                continue
            body = str(number).zfill(BODY_SIZE).encode()
            sent = await producer.send_soon(Message(topic, body))
            sent.add_done_callback(partial(note, number))
            number += 1
        await producer.flush()
    return acknowledged


def main() -> None:
    """Send, and print when each message was acknowledged."""
    name_server, topic, rate, count = sys.argv[1:]
    print(*asyncio.run(send(name_server, topic, int(rate), int(count))), sep="\n")


if __name__ == "__main__":
    main()
