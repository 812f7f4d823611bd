"""One world from one seed: its loop, its network, its machines, and everything random or timed in the code under test."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any
from unittest import mock

from crash.faults import QUICK_DISK
from orbitmq.net.time_slices import TimeSlices
from simulation.loop import PROCESS, SimLoop, Stuck
from simulation.machines import Machine, SimFlusher, SimThread
from simulation.network import Network

BEGIN_S = 1_700_000_000
_DISKS = (
    "orbitmq.store.store.LocalDisk",
    "orbitmq.broker.delivery.delay_service.LocalDisk",
    "orbitmq.broker.persistence.LocalDisk",
    "orbitmq.broker.timers.opening.LocalDisk",
)


class World:
    """Made by `open_world`.

    Args:
        keeps_trace: all that happens is kept as text, next to the digest.
    """

    def __init__(self, seed: int, directory: Path, *, keeps_trace: bool) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop = SimLoop()
        self.machines: list[Machine] = []
        self.trace_lines: list[str] | None = [] if keeps_trace else None
        self._digest = hashlib.blake2b(digest_size=16)
        self._directory = directory
        self.network = Network(self.loop, Random(self.random.random()), self.trace)
        self.loop.network = self.network
        self.sync_s_max = 0.002
        work = Random(self.random.random())
        self.loop.work_s = lambda: 0.000_05 + work.random() * self.sync_s_max

    @property
    def digest(self) -> str:
        """What has happened, in a few characters: equal for equal lives."""
        return self._digest.hexdigest()

    def trace(self, text: str) -> None:
        line = f"{self.loop.time():.6f} {text}"
        self._digest.update(line.encode())
        if self.trace_lines is not None:
            self.trace_lines.append(line)

    def machine(self, name: str) -> Machine:
        directory = self._directory / name
        directory.mkdir()
        address = f"10.0.0.{len(self.machines) + 1}"
        drift = 1 + (self.random.random() - 0.5) * 0.000_2
        machine = Machine(self.loop, self.network, name, address, directory, Random(self.random.random()), drift)
        self.machines.append(machine)
        return machine

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Play a scenario to its end."""
        try:
            self.loop.run_until_complete(asyncio.ensure_future(scenario(), loop=self.loop))
        except (AssertionError, Stuck) as error:
            for lines in (self.trace_lines or (), self.loop.complaints):
                error.add_note("\n".join(lines))
            raise

    async def until(self, holds: Callable[[], object], limit_s: float, what: str) -> None:
        """Let time go by until something holds.

        Raises:
            AssertionError: it does not within the time.
        """
        end = self.loop.time() + limit_s
        while not holds():
            assert self.loop.time() < end, f"not within {limit_s:.0f} s: {what}"
            await asyncio.sleep(0.05)

    def close(self) -> None:
        for machine in self.machines:
            machine.bury()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


class _Clock:
    """Stands where the module `time` would: the wall clock and the monotonic one of the machine that runs now."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        return BEGIN_S * 1_000_000_000 + self.monotonic_ns()

    def time(self) -> float:
        return self.time_ns() / 1e9

    def monotonic_ns(self) -> int:
        process = PROCESS.get()
        rate = 1.0 if process is None else process.machine.clock_rate
        return int(self._loop.time() * rate * 1e9)

    def monotonic(self) -> float:
        return self.monotonic_ns() / 1e9

    perf_counter = monotonic


@contextmanager
def open_world(seed: int, *, keeps_trace: bool = False) -> Iterator[World]:
    """Make a world; while it is open, time, chance and threads are its own in the whole process."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=QUICK_DISK)))
        world = World(seed, directory, keeps_trace=keeps_trace)
        stack.callback(world.close)
        chance = Random(world.random.random())
        begin = Random.seed

        def seed_of(self: Random, a: Any = None, version: int = 2) -> None:
            begin(self, chance.getrandbits(64) if a is None else a, version)

        clock = _Clock(world.loop)
        for name, stand_in in {
            "orbitmq.clock.time": clock,
            "orbitmq.process.stats.time": clock,
            "random.Random.seed": seed_of,
            "os.urandom": chance.randbytes,
            "random._urandom": chance.randbytes,
            "orbitmq.store.sync.syncing.Flusher": SimFlusher,
            "orbitmq.store.index.index.Flusher": SimFlusher,
            "orbitmq.store.disk_usage.Thread": SimThread,
            **dict.fromkeys(_DISKS, _disk_of_the_running),
            **dict.fromkeys(_names_of(perf_counter), _no_time),
            "orbitmq.net.connection.endpoint.TimeSlices": partial(
                TimeSlices, _no_time
            ),  # its default was bound when it was defined
        }.items():
            stack.enter_context(mock.patch(name, stand_in))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        asyncio.set_event_loop(None)
        yield world


def _names_of(function: object) -> list[str]:
    """Return every name by which a module of ours calls a function of another's."""
    ours = (module for name, module in list(sys.modules.items()) if name.startswith("orbitmq."))
    return [f"{module.__name__}.{name}" for module in ours for name, value in vars(module).items() if value is function]


def _no_time() -> float:
    """Stand where `perf_counter` would, by which work is cut into steps of some milliseconds: here it takes no time."""
    return 0.0


def _disk_of_the_running() -> Any:
    process = PROCESS.get()
    assert process is not None
    return process.machine.disk
