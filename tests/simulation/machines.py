"""Machines with an address, a clock of their own, a disk, and processes that are started, killed and stopped."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from random import Random
from typing import Any
from weakref import WeakSet

from orbitmq.store.sync.flusher import Done, Task
from orbitmq.testing.fake_disk import FakeDisk
from simulation.loop import PROCESS, SimLoop
from simulation.network import Network

Program = Callable[["Process"], Awaitable[None]]


class Process:
    """A program on a machine, between a start and an end."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.is_dead = False
        self.is_stopped = False
        self.held: list[Any] = []
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.remains: list[asyncio.Task[Any]] = []
        """Tasks that it left: nothing may end them, for then their last blocks would run."""
        self.program: asyncio.Task[None] | None = None
        self.what: Any = None
        """What the program is, for those who look on."""

    def __str__(self) -> str:
        return f"{self.machine.name}#{self.number}"


class Machine:
    """A machine. Its name is that of what runs there.

    Args:
        directory: for the few files that are not part of its store.
        clock_rate: how fast its clock goes.
    """

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        name: str,
        address: str,
        directory: Path,
        random: Random,
        clock_rate: float,
    ) -> None:
        self.name = name
        self.address = address
        self.directory = directory
        self.disk = FakeDisk()
        self.has_power = True
        self.clock_rate = clock_rate
        self.process: Process | None = None
        self.graveyard: list[Process] = []
        self._loop = loop
        self._network = network
        self._random = random
        self._starts = 0
        network.machines[address] = self

    def __str__(self) -> str:
        return self.name

    def start(self, program: Program) -> Process:
        """Begin to run a program; the machine has no other one."""
        assert self.process is None
        self._starts += 1
        process = self.process = Process(self, self._starts)
        context = copy_context()
        context.run(PROCESS.set, process)
        self._network.trace(f"{process} starts")
        context.run(self._begin, program, process)
        return process

    def kill(self) -> None:
        """End the process as `kill -9` does: what it has given to the kernel stays."""
        if self.process is not None:
            self._end(self.process, is_silent=False)
            self.disk = self.disk.after_kill(self._random)

    def cut_power(self) -> None:
        """End everything without a word: what was not synced is torn or gone."""
        if self.process is not None:
            self._end(self.process, is_silent=True)
        self.disk = self.disk.after_power_cut(self._random)

    def stop(self) -> None:
        """SIGSTOP."""
        if self.process is not None:
            self._network.trace(f"{self.process} is stopped")
            self.process.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        process = self.process
        if process is not None and process.is_stopped:
            self._network.trace(f"{process} goes on")
            process.is_stopped = False
            held, process.held = process.held, []
            for guarded, arguments in held:
                if not guarded.handle.cancelled():
                    # Its own handle has run; a cancelled one is looked for again when this one does.
                    asyncio.BaseEventLoop.call_soon(self._loop, guarded, *arguments, context=guarded.handle._context)

    def bury(self) -> None:
        """Let go of all processes that were killed."""
        if self.process is not None:
            self._end(self.process, is_silent=True)
        for process in self.graveyard:
            for task in process.remains:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                with suppress(BaseException):  # blocks that end with it may wait, and never run to their end
                    coroutine.close()
            process.remains.clear()

    def _begin(self, program: Program, process: Process) -> None:
        task = process.program = self._loop.create_task(program(process))  # type: ignore[arg-type]
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._loop.complaints.append(f"{self.name} has ended: {error!r}")
        if error is not None:
            self._loop.complaints += traceback.format_exception(error)

    def _end(self, process: Process, *, is_silent: bool) -> None:
        process.is_dead = True
        process.remains = list(process.tasks)
        self.process = None
        self.graveyard.append(process)
        self._network.end_of(process, is_silent=is_silent)


class SimFlusher:
    """Stands where `orbitmq.store.sync.flusher.Flusher` would: one task after another, each after its while."""

    def __init__(self, loop: Any, name: str = "") -> None:
        self._loop: SimLoop = loop
        self._tasks: list[tuple[Task, Done]] = []
        self._is_armed = False

    def submit(self, task: Task, done: Done) -> None:
        self._tasks.append((task, done))
        self._arm()

    def stop(self) -> None:
        while self._tasks:
            self._work()

    def _arm(self) -> None:
        if self._tasks and not self._is_armed:
            self._is_armed = True
            self._loop.call_later(self._loop.work_s(), self._turn)

    def _turn(self) -> None:
        self._is_armed = False
        if self._tasks:
            self._work()
        self._arm()

    def _work(self) -> None:
        task, done = self._tasks.pop(0)
        error: Exception | None = None
        try:
            task()
        except Exception as caught:
            error = caught
        done(error)


class SimThread:
    """Stands where `threading.Thread` would, for threads without a waiter."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._target = target

    def start(self) -> None:
        loop: Any = asyncio.get_running_loop()
        loop.call_later(loop.work_s(), self._target)
