"""One broker with many more queues than descriptors: every queue is written, read back, and there after each way to end.

The long form: `PYTHONPATH=src:tests python -m crash.cold`, some minutes and a gigabyte of disk.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic

from crash.broker_process import BrokerProcess, Wire, wire_to
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics.table import TopicTable, plain_topic

_BATCH_SIZE = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """How many queues there are, and how few descriptors."""

    topics: int = 20_000
    queues: int = 8
    descriptors: int = 4096
    flush: str = "ASYNC_FLUSH"

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield every queue: its topic and its id."""
        return ((f"topic-{number:05}", queue_id) for number in range(self.topics) for queue_id in range(self.queues))


@dataclass(slots=True)
class Figures:
    """What was measured."""

    seconds: dict[str, float] = field(default_factory=dict)
    """By step."""
    descriptors_max: int = 0
    maps_max: int = 0
    memory_max: int = 0
    """Bytes, resident."""

    def look(self, pid: int) -> None:
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        self.descriptors_max = max(self.descriptors_max, len(os.listdir(process / "fd")))
        self.maps_max = max(self.maps_max, (process / "maps").read_text().count("\n"))
        self.memory_max = max(self.memory_max, int(status["VmHWM"].split()[0]) * 1024)

    @asynccontextmanager
    async def step(self, name: str) -> AsyncIterator[None]:
        """Measure how long something takes."""
        began = monotonic()
        yield
        self.seconds[name] = monotonic() - began


async def prove(home: Path, shape: Shape) -> Figures:
    """Write to every queue, stop in order, write again, kill -9; read everything after each step."""
    figures = Figures()
    table = TopicTable([plain_topic(f"topic-{number:05}", shape.queues) for number in range(shape.topics)])
    ConfigFiles(home / "store" / "config").save_topics(table)
    broker = BrokerProcess(home, {"flushDiskType": shape.flush}, shape.descriptors)
    with broker:
        async with wire_to(broker) as wire:
            async with figures.step("first messages"):
                await _send(wire, shape, b"first")
            async with figures.step("read back"):
                await _check(wire, shape, [b"first"])
            figures.look(broker.pid)
        async with figures.step("orderly stop"):
            assert broker.stop() == 0
        async with figures.step("start after an orderly stop"):
            broker.start()
        async with wire_to(broker) as wire:
            await _check(wire, shape, [b"first"])
            await _send(wire, shape, b"second")
            figures.look(broker.pid)
        broker.kill()
        async with figures.step("start after kill -9"):
            broker.start()
        async with wire_to(broker) as wire:
            await _check(wire, shape, [b"first", b"second"])
            await _send(wire, shape, b"third")
        figures.look(broker.pid)
        assert broker.stop() == 0
        async with figures.step("start after everything"):
            broker.start()
        async with wire_to(broker) as wire:
            await _check(wire, shape, [b"first", b"second", b"third"])
        figures.look(broker.pid)
    return figures


async def _send(wire: Wire, shape: Shape, text: bytes) -> None:
    async def one(topic: str, queue_id: int) -> None:
        assert await wire.send(topic, b"%s %s %d" % (text, topic.encode(), queue_id), queue_id) == 0

    await _for_all(shape, one)


async def _check(wire: Wire, shape: Shape, texts: list[bytes]) -> None:
    async def one(topic: str, queue_id: int) -> None:
        expected = [b"%s %s %d" % (text, topic.encode(), queue_id) for text in texts]
        assert await wire.read(topic, queue_id) == expected

    await _for_all(shape, one)


async def _for_all(shape: Shape, act: Callable[[str, int], Awaitable[None]]) -> None:
    queues = iter(shape)
    while batch := list(islice(queues, _BATCH_SIZE)):
        await asyncio.gather(*[act(topic, queue_id) for topic, queue_id in batch])


def main() -> None:
    """Run the long form and print what was measured."""
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        shape = Shape(flush=flush)
        home = Path(tempfile.mkdtemp(prefix="orbitmq-cold-"))
        try:
            figures = asyncio.run(prove(home, shape))
        finally:
            shutil.rmtree(home)
        load = os.getloadavg()[0]
        print(f"{flush}: {shape.topics} topics x {shape.queues} queues, ulimit -n {shape.descriptors}, load {load:.1f}")
        for name, seconds in figures.seconds.items():
            print(f"  {name:30} {seconds:8.1f} s")
        print(
            f"  descriptors {figures.descriptors_max}, maps {figures.maps_max}, memory {figures.memory_max >> 20} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
