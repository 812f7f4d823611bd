"""Figures of hostile bytes: injured ones, lengths that lie, documents that explode, and the model."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
import tempfile
import time
import tracemalloc
import zlib
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from fuzz.campaign import fuzz
from fuzz.targets import TARGETS
from hostile.attacks import BOMBS, LIES
from hostile.figure import Figure, Size, percentile, say
from hostile.honest import Honest
from hostile.victim import Victim
from orbitmq.errors import FrameError
from orbitmq.net.loop import run
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import encode_header
from unit.nameserver.routing.route_history import play
from unit.nameserver.support import asking, registration

MEMORY_GROWTH_MAX_MB = 50
ALLOCATED_MAX = 64 * 1024
FRAMES_PER_ROUND = 10_000
QUIET_S = 0.5


def injured_inputs(size: Size) -> Figure:
    """Give every decoder its share of ten million injured inputs."""
    count = math.ceil(size.of(10_000_000) / len(TARGETS))
    outcomes = [fuzz(name, count, size.seed) for name in TARGETS]
    grown = sum(outcome.memory_added_mb for outcome in outcomes)
    slowest = max(outcome.slowest_ms for outcome in outcomes)
    return Figure(
        asked=f"10,000,000 injured inputs to {len(TARGETS)} decoders: values or errors of ours, memory +50 MB at most",
        measured=f"{sum(outcome.input_count for outcome in outcomes):,} inputs, no failure, +{grown:.0f} MB, "
        f"slowest {slowest:.0f} ms of CPU",
        reached=grown <= MEMORY_GROWTH_MAX_MB,
    )


def injured_frames(size: Size) -> Figure:
    """Send a million injured frames over sockets, in turns with quiet times, while honest clients ask."""
    count = size.of(1_000_000)
    quiet, attacked, took_s, memory, errors = _attack(count, size.seed, goes_first=False)
    failures = quiet.failures + attacked.failures
    return Figure(
        asked="1,000,000 injured frames over sockets: no error of ours, memory +50 MB at most, good clients answered",
        measured=f"{count:,} frames at {count / took_s:,.0f}/s, {errors} errors, +{memory:.1f} MB; "
        f"{failures} of {quiet.count + attacked.count:,} honest questions failed; {_latencies(quiet, attacked)[0]}",
        reached=not errors and not failures and memory <= MEMORY_GROWTH_MAX_MB,
    )


def latency_under_attack(size: Size) -> Figure:
    """The same, shorter; the server and the honest clients go before other processes, where the system lets them.

    So what is measured is how long the server takes, not how long it waits for a core.
    """
    count = size.of(100_000)
    quiet, attacked, took_s, _, errors = _attack(count, size.seed, goes_first=True)
    text, ratio = _latencies(quiet, attacked)
    return Figure(
        asked="good clients' p99 during the attack < 2 x their p99 without it",
        measured=f"{count:,} frames at {count / took_s:,.0f}/s; {text}",
        reached=ratio < 2 and not errors and not quiet.failures and not attacked.failures,
    )


def _latencies(quiet: Honest, attacked: Honest) -> tuple[str, float]:
    medians, p99s = ([percentile(who.answers_ms, share) for who in (quiet, attacked)] for share in (0.5, 0.99))
    ratio = p99s[1] / p99s[0]
    text = f"median {medians[0]:.2f} → {medians[1]:.2f} ms, p99 {p99s[0]:.2f} → {p99s[1]:.2f} ms (x {ratio:.1f})"
    return text, ratio


def _attack(count: int, seed: int, *, goes_first: bool) -> tuple[Honest, Honest, float, float, int]:
    """Return who asked without and with attack, the attack's seconds, MB that the server grew by, and its errors."""
    with Victim() as victim, _going_first(victim.process_id) if goes_first else nullcontext():
        command = [sys.executable, "-m", "hostile.attacker", "frames", victim.host, str(victim.port), str(count)]
        quiet, attacked, took_s, memory = run(_in_turns(victim, [*command, str(seed)], count))
        errors = victim.metrics()["failed_requests_total"] + victim.log.count("Traceback")
    return quiet, attacked, took_s, memory, int(errors)


@contextmanager
def _going_first(process_id: int) -> Iterator[None]:
    """Give a process and ourselves, but not whom we start, the cores before all others; not every user may (Linux, root)."""
    try:
        os.sched_setscheduler(process_id, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, PermissionError):
        say("other processes are as important as the server here")
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


async def _in_turns(victim: Victim, command: list[str], count: int) -> tuple[Honest, Honest, float, float]:
    """Attack and rest by turns; return who asked in the rests and in the attacks, the attacks' time, and the memory."""
    quiet, attacked = Honest(victim), Honest(victim)
    await quiet.register()
    await quiet.ask_while(_for(3.0))
    quiet.answers_ms.clear()
    memory, took_s, done, told = victim.memory_mb, 0.0, 0, time.monotonic()
    attacker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    try:
        while done < count:
            done += min(FRAMES_PER_ROUND, count - done)
            await quiet.register()  # a broker that is silent for 120 s is not an honest one
            attacker.stdin.write(b"%d\n" % FRAMES_PER_ROUND)
            await _hear(attacker.stdout, b"ready")
            await quiet.ask_while(_for(QUIET_S))
            attacker.stdin.write(b"go\n")
            began, over = time.monotonic(), asyncio.ensure_future(_hear(attacker.stdout, b"done"))
            await attacked.ask_while(partial(_runs, over))
            await over
            took_s += time.monotonic() - began
            if time.monotonic() - told > 10:
                told = time.monotonic()
                say(f"{done:,} of {count:,} frames, {attacked.count:,} honest questions meanwhile")
    finally:
        if attacker.returncode is None:
            attacker.stdin.close()
        await attacker.wait()
        await quiet.close()
    return quiet, attacked, took_s, victim.memory_mb - memory


async def _hear(stream: asyncio.StreamReader, word: bytes) -> None:
    heard = (await stream.readline()).strip()
    if heard != word:
        raise RuntimeError(f"the attack itself failed: {heard!r} instead of {word!r}")


def _runs(task: asyncio.Future[None]) -> bool:
    return not task.done()


def _for(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def lying_lengths(size: Size) -> Figure:
    """Declare lengths that are not lengths, and see what is allocated for them, and when the connection ends."""
    allocated = 0
    for data in LIES.values():
        tracemalloc.start()
        with suppress(FrameError):
            for frame in FrameDecoder().feed(data):
                decode_command(frame)
        allocated = max(allocated, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    closed_ms: list[float] = []
    with Victim() as victim:
        for _ in range(size.of(200)):
            for data in LIES.values():
                with socket.create_connection((victim.host, victim.port)) as peer:
                    began = time.perf_counter()
                    peer.sendall(data)
                    peer.settimeout(5)
                    with suppress(ConnectionError):
                        assert peer.recv(1) == b""
                    closed_ms.append((time.perf_counter() - began) * 1000)
        ended = victim.metrics()['connections_ended_total{reason="bad frame"}']
    p99 = percentile(closed_ms, 0.99)
    return Figure(
        asked="lengths that lie: refused before 64 KB are allocated, connection closed within 10 ms",
        measured=f"{len(LIES)} lies: {allocated / 1024:.0f} KB at most; {len(closed_ms):,} connections closed, "
        f"p99 {p99:.2f} ms, the slowest {max(closed_ms):.1f} ms",
        reached=allocated <= ALLOCATED_MAX and p99 <= 10 and ended == len(closed_ms),
    )


def json_bombs(size: Size) -> Figure:
    """Throw each bomb as a registration's body, plain and compressed; the figure is what a turn of the loop takes."""
    with tempfile.TemporaryDirectory() as folder:
        held_ms, entered, errors = run(_throw(Path(folder), size.of(5)))
    slowest = max(held_ms, key=lambda name: held_ms[name])
    over = sorted(name for name, held in held_ms.items() if held > 20)
    return Figure(
        asked="JSON bombs: refused or without effect, nobody else waits for more than 20 ms",
        measured=f"{len(held_ms)} bombs, {len(entered)} entered, {errors} errors; slowest {slowest!r}: "
        f"{held_ms[slowest]:.1f} ms of CPU in one turn of the event loop" + (f"; over 20 ms: {over}" if over else ""),
        reached=not entered and not errors and not over,
    )


async def _throw(folder: Path, turns: int) -> tuple[dict[str, float], list[str], int]:
    """Return by bomb the longest turn of the loop in ms of CPU (the least of some tries), which entered, and our errors."""
    held_ms, entered = dict[str, float](), list[str]()
    longest = [0.0]

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest[0], last = max(longest[0], now - last), now

    async with asking(folder) as asker:
        watching = asyncio.ensure_future(watch())
        for is_compressed in (False, True):
            for name, bomb in BOMBS.items():
                body = zlib.compress(bomb) if is_compressed else bomb
                tries = []
                for number in range(turns):  # each from another broker, or it would be known already
                    header, _ = registration(f"evil-{number}", compressed=is_compressed, body_crc32=0)
                    frame = encode_command(Command(103, 1, ext_fields=encode_header(header), body=body))
                    await asyncio.sleep(0)
                    longest[0] = 0.0
                    await asyncio.to_thread(_ask, asker.server.address, frame)
                    tries.append(longest[0] * 1000)
                held_ms[name + (", compressed" if is_compressed else "")] = min(tries)
                if asker.server.service.tables.topics():
                    entered.append(name)
        watching.cancel()
        return held_ms, entered, asker.server.server.counters.failed_requests


def _ask(address: str, frame: bytes) -> None:
    """Send a request and wait for its answer, on a thread: its CPU time is not the loop's."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(frame)
        assert peer.recv(65536)


def model_histories(size: Size) -> Figure:
    """Live a million steps, in histories of different lengths, on the route table and on its sequential model."""
    asked, done, number, told = size.of(1_000_000), 0, 0, time.monotonic()
    while done < asked:
        steps = (20, 60, 60, 200)[number % 4]
        play(f"{size.seed}-{number}", steps)
        done, number = done + steps, number + 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"{done:,} of {asked:,} steps")
    return Figure(
        asked="1,000,000 random steps of the route table as in a sequential model",
        measured=f"{done:,} steps in {number:,} histories, 0 mismatches",
        reached=True,
    )
