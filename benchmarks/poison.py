"""Good messages consumed while one in forty always fails, compared with a topic that holds only good ones.

    python -m benchmarks.poison [--json] [--messages N] [--runs N] [--case CASE]

Our clients and our broker alone; the broker has a core of its own where there are two. Each case reads both topics in
turn, each time as a new group, and measures from the first message to the last good one: `single` handles messages one
by one, `keys` those of each of 1,000 keys in order, `batches` takes batches and settles their messages one by one. Each
run checks that every good message was handled once, and `keys` that each key's came in order. `--json` prints one object
on the last line of standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from examples.quickstart.embedded import embedded_cluster
from orbitmq import Batch, ConsumeFrom, Message, PushConsumer, StoredMessage
from orbitmq.blocking import Producer
from orbitmq.net.loop import run

KEYS = 1_000
ONE_BAD_IN = 40
BODY = b"x" * 100
GOOD, BAD = "good", "bad"
TOPICS = {"without": "poison-without", "with": "poison-with"}
CASES = ("single", "keys", "batches")


class Poison(Exception):
    """What a handler says of a bad message."""


class Handlers:
    """A group's handlers: they fail on bad messages, count the good ones, and see when the last one is done.

    Args:
        count: of good messages.
    """

    def __init__(self, count: int) -> None:
        self.last = asyncio.Event()
        self.began_s = self.ended_s = 0.0
        self.failures = 0
        self._seen = bytearray(count)
        self._left = count
        self._numbers: dict[str | None, int] = {}
        self.disorder = 0

    async def message(self, message: StoredMessage) -> None:
        """Handle one message."""
        if message.tag == BAD:
            self.failures += 1
            raise Poison(message.message_id)
        self._count(message)

    async def batch(self, batch: Batch) -> None:
        """Handle one batch, message by message."""
        for message in batch:
            try:
                await self.message(message)
            except Poison:
                batch.retry(message)
            else:
                batch.ack(message)

    def check(self, case: str) -> None:
        """Say what is wrong with what was handled, and end."""
        if set(self._seen) != {1}:
            sys.exit(f"poison: {case}: good messages were handled {set(self._seen)} times")
        if case == "keys" and self.disorder:
            sys.exit(f"poison: {self.disorder} messages came out of their key's order")

    def _count(self, message: StoredMessage) -> None:
        number = int(message.keys[0])
        if not self.began_s:
            self.began_s = time.perf_counter()
        self._seen[number] += 1
        self.disorder += self._numbers.get(message.sharding_key, -1) > number
        self._numbers[message.sharding_key] = number
        self._left -= 1
        if not self._left:
            self.ended_s = time.perf_counter()
            self.last.set()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every good message was handled once."""
    options = _parse(arguments)
    cores = sorted(os.sched_getaffinity(0))
    # Failures are logged as a program's are, in full.
    with tempfile.TemporaryDirectory(prefix="orbitmq-poison-") as directory, open(os.devnull, "w") as log:
        logging.basicConfig(stream=log, level=logging.INFO)
        os.sched_setaffinity(0, {cores[0]})  # the broker's, which it inherits
        with embedded_cluster(Path(directory)) as name_servers:
            os.sched_setaffinity(0, {cores[-1]})
            for name in TOPICS:
                _fill(name_servers, name, options.messages)
            measured = {case: _measure(case, name_servers, options) for case in options.case or CASES}
    if options.json:
        ratios = {case: found["ratio"] for case, found in measured.items()}
        print(json.dumps({"ratio": max(ratios.values()), "messages": options.messages, "cases": measured}))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.poison", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--messages", type=int, default=100_000, help="good ones in each topic")
    parser.add_argument("--runs", type=int, default=5, help="of each case and topic, in turn; medians count")
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    return parser.parse_args(arguments)


def _fill(name_servers: str, name: str, count: int) -> None:
    with Producer("benchmarks", name_servers) as producer:
        producer.send_all(
            _messages(TOPICS[name], count, has_bad=name == "with"), key=lambda message: message.sharding_key
        )


def _messages(topic: str, count: int, *, has_bad: bool) -> Iterator[Message]:
    for number in range(count):
        key = str(number % KEYS)
        yield Message(topic, BODY, tag=GOOD, keys=[str(number)], sharding_key=key)
        if has_bad and number % (ONE_BAD_IN - 1) == 0:
            yield Message(topic, BODY, tag=BAD, keys=[str(number)], sharding_key=key)


def _measure(case: str, name_servers: str, options: argparse.Namespace) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {name: [] for name in TOPICS}
    for number in range(options.runs + 1):
        for name, runs in seconds.items():
            group = f"{case}-{name}-{number}"
            runs.append(run(_consume(case, name_servers, TOPICS[name], group, options.messages)))
    medians = {name: statistics.median(runs[1:]) for name, runs in seconds.items()}  # the first ones warm up
    ratio = medians["with"] / medians["without"]
    rates = ", ".join(f"{name} {options.messages / median:,.0f}/s" for name, median in medians.items())
    print(f"{case:8} {ratio:.2f} x  ({rates})", file=sys.stderr if options.json else sys.stdout, flush=True)
    return {"ratio": ratio, "seconds": medians, "runs": {name: runs[1:] for name, runs in seconds.items()}}


async def _consume(case: str, name_servers: str, topic: str, group: str, count: int) -> float:
    handlers = Handlers(count)
    settings: dict[str, Any] = (
        {"handler": handlers.batch} if case == "batches" else {"message_handler": handlers.message}
    )
    if case == "single":
        settings["key"] = _no_key
    consumer = PushConsumer(group, name_servers, consume_from=ConsumeFrom.FIRST, **settings)
    consumer.subscribe(topic)
    async with consumer:
        await handlers.last.wait()
    handlers.check(case)
    return handlers.ended_s - handlers.began_s


def _no_key(_message: StoredMessage) -> None:
    return None


if __name__ == "__main__":
    sys.exit(main())
