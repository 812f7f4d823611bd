"""Figures of hostile peers: slow ones, idle ones, floods, and those that never read."""

from __future__ import annotations

import asyncio
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hostile.figure import Figure, Size, percentile, say
from hostile.honest import Honest
from hostile.victim import Victim
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import GetRouteInfo
from unit.nameserver.support import registration

FRAME_MS = 30_000
IDLE_MS = 120_000
STALL_MS = 60_000
TICKS_PER_LIMIT = 8


def slow_senders(size: Size) -> Figure:
    """A thousand connections send a byte per second of a frame that never gets whole."""
    count = size.of(1_000)
    frame_s = max(1, size.of(FRAME_MS // 1000))
    with Victim(frameDeadlineSeconds=frame_s) as victim:
        ages_s, honest = run(_drip(victim, count, frame_s))
        ended = victim.metrics().get('connections_ended_total{reason="frame deadline"}', 0)
    return Figure(
        asked="1,000 connections at 1 byte/s: each dropped within 30 s, service unaffected",
        measured=f"{len(ages_s):,} dropped, {ended:.0f} for the frame deadline, after {min(ages_s):.1f} to "
        f"{max(ages_s):.1f} s; {honest.failures} of {honest.count:,} honest questions failed, "
        f"p99 {percentile(honest.answers_ms, 0.99):.1f} ms",
        reached=len(ages_s) == ended == count and round(max(ages_s), 1) <= frame_s and not honest.failures,
    )


async def _drip(victim: Victim, count: int, frame_s: int) -> tuple[list[float], Honest]:
    """Return after how many seconds each connection was dropped, and who asked meanwhile."""
    frame = encode_command(Command(105, 1, ext_fields={"topic": "t"}))
    ages_s: list[float] = []

    async def drip(number: int) -> None:
        await asyncio.sleep(frame_s * number / count / 6)
        reader, writer = await asyncio.open_connection(victim.host, victim.port)
        began = time.monotonic()
        dropped = asyncio.create_task(reader.read())
        for byte in frame:
            writer.write(bytes((byte,)))
            done, _ = await asyncio.wait([dropped], timeout=1)
            if done:
                break
        with suppress(ConnectionError):
            await dropped
        ages_s.append(time.monotonic() - began)
        writer.transport.abort()

    honest = Honest(victim)
    await honest.register()
    dripping = asyncio.gather(*(drip(number) for number in range(count)))
    await honest.ask_while(lambda: not dripping.done(), clients=2, pause_s=0.02)
    await dripping
    await honest.close()
    return ages_s, honest


def idle_connections(size: Size) -> Figure:
    """Ten thousand connections that do nothing, until the server closes them."""
    count, idle_s = size.of(10_000), size.of(IDLE_MS // 1000, 2)
    with _many_files(), Victim(serverChannelMaxIdleTimeSeconds=idle_s) as victim:
        before = victim.memory_mb
        peers, connects_ms = [], []
        for _ in range(count):
            began = time.perf_counter()
            peers.append(socket.create_connection((victim.host, victim.port)))
            connects_ms.append((time.perf_counter() - began) * 1000)
        opened = time.monotonic()
        victim.metrics()  # an answer: the server has taken in all that came before
        grown = victim.memory_mb - before
        answers = run(_reconnect(victim, size.of(300)))
        first_s, last_s = _wait_for_ends(peers, opened)
        ended = victim.metrics()['connections_ended_total{reason="idle"}']
    p99 = percentile(connects_ms + answers.answers_ms, 0.99)
    return Figure(
        asked="10,000 idle connections: 20 MB at most, a new one served with p99 < 50 ms, all closed at 120 s",
        measured=f"{count:,} connections: +{grown:.1f} MB; new ones p99 {p99:.2f} ms; {ended:,.0f} closed "
        f"{first_s:.0f} to {last_s:.0f} s after the last was opened",
        reached=grown <= 20
        and p99 < 50
        and not answers.failures
        and ended >= count
        and first_s >= idle_s * (1 - 1 / TICKS_PER_LIMIT) - 10
        and last_s <= idle_s + 1,
    )


async def _reconnect(victim: Victim, count: int) -> Honest:
    honest = Honest(victim)
    await honest.register()
    await honest.reconnect_while(lambda: honest.count < count, pause_s=0.001)
    await honest.close()
    return honest


def _wait_for_ends(peers: list[socket.socket], opened: float) -> tuple[float, float]:
    """Return when the first and the last of them were closed by the server, in seconds since `opened`."""
    selector, ends = selectors.DefaultSelector(), []
    for peer in peers:
        selector.register(peer, selectors.EVENT_READ)
    while len(ends) < len(peers):
        for key, _ in selector.select(timeout=10):
            selector.unregister(key.fileobj)
            ends.append(time.monotonic() - opened)
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        say(f"{len(ends):,} of {len(peers):,} closed after {time.monotonic() - opened:.0f} s")
    selector.close()
    return min(ends), max(ends)


@contextmanager
def _many_files() -> Iterator[None]:
    """Let this process and those that it starts open as many files as they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connection_flood(size: Size) -> Figure:
    """Five thousand connections per second for ten seconds, with a limit per address."""
    rate = 5_000
    count = size.of(rate * 10)
    with _many_files(), Victim(connectionsPerAddressMax=100) as victim:
        run(_reconnect(victim, 50))
        before = victim.metrics()
        opened, took_s, honest, newcomers = run(_flood(victim, count, rate))
        found = victim.metrics()
    lags = _counts_by_bound(found)
    for bound, count_before in _counts_by_bound(before).items():
        lags[bound] -= count_before
    enough = next(bound for bound, value in lags.items() if value >= 0.99 * lags["+Inf"])
    asked = honest.count + newcomers.count
    succeeded = 100 * (1 - (honest.failures + newcomers.failures) / asked)
    met = found["connections_opened_total"] + found["connections_refused_total"]
    return Figure(
        asked="5,000 new connections/s for 10 s, limit per address: loop lag p99 < 100 ms, honest success >= 99 %",
        measured=f"{opened:,} at {opened / took_s:,.0f}/s, {met:,.0f} met the server, "
        f"{found['connections_refused_total']:,.0f} refused; lag p99 within {float(enough) * 1000:.0f} ms; "
        f"{succeeded:.2f} % of {asked:,} honest questions answered, {newcomers.count} of them on new connections, "
        f"p99 {percentile(honest.answers_ms + newcomers.answers_ms, 0.99):.1f} ms",
        reached=float(enough) <= 0.1 and succeeded >= 99 and (size.share < 1 or opened / took_s >= 0.95 * rate),
    )


def _counts_by_bound(metrics: dict[str, float]) -> dict[str, float]:
    """Return how many measurements of the event loop's lag were within each bound (seconds, as text)."""
    prefix = 'event_loop_lag_seconds_bucket{le="'
    return {name[len(prefix) : -2]: value for name, value in metrics.items() if name.startswith(prefix)}


async def _flood(victim: Victim, count: int, rate: int) -> tuple[int, float, Honest, Honest]:
    honest, newcomers = Honest(victim), Honest(victim)
    await honest.register()
    command = [sys.executable, "-m", "hostile.attacker", "flood", victim.host, str(victim.port), str(count), str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        await asyncio.gather(
            honest.ask_while(lambda: attacker.poll() is None, clients=2, pause_s=0.01),
            newcomers.reconnect_while(lambda: attacker.poll() is None),
        )
        assert attacker.stdout is not None
        opened, took_s = attacker.stdout.read().split()
    assert attacker.returncode == 0, "the attack itself failed"
    await honest.close()
    return int(opened), float(took_s), honest, newcomers


def deaf_readers(size: Size) -> Figure:
    """Peers that ask and ask and never read an answer."""
    count, topics = size.of(16), 300
    with Victim() as victim:
        run(_register(victim.address, topics))
        run(_reconnect(victim, 50))
        before = victim.memory_mb
        question = encode_command(Command(206, 1))
        peers = [socket.create_connection((victim.host, victim.port)) for _ in range(count)]
        _ask_until_blocked(peers, question * 64)
        began, seen = time.monotonic(), list[tuple[float, float]]()
        ended = 0.0
        while ended < count and time.monotonic() - began < 2 * STALL_MS / 1000:
            time.sleep(1)
            seen.append((time.monotonic() - began, victim.memory_mb - before))
            ended = victim.metrics().get('connections_ended_total{reason="write stall"}', 0)
            if len(seen) % 10 == 0:
                say(f"{seen[-1][0]:.0f} s, +{seen[-1][1]:.1f} MB, {ended:.0f} of {count} closed")
        for peer in peers:
            peer.close()
    waiting = [memory for at_s, memory in seen[:-2] if at_s > 2] or [seen[0][1]]
    most, drift = max(memory for _, memory in seen), max(waiting) - waiting[0]
    return Figure(
        asked="readers that never read: 1 MiB is buffered for each, then nothing more is read; closed; memory flat",
        measured=f"{count} readers: +{most / count:.2f} MB each, {drift:+.2f} MB while they waited; "
        f"{ended:.0f} closed after {seen[-1][0]:.0f} s",
        reached=most / count <= 2 and drift <= 1 and ended == count,
    )


async def _register(address: str, topic_count: int) -> None:
    pool = ConnectionPool()
    header, body = registration("a", *(f"topic-with-a-longer-name-{number:05}" for number in range(topic_count)))
    expect(await pool.request(address, header, body), address)
    expect(await pool.request(address, GetRouteInfo(topic="topic-with-a-longer-name-00000")), address)
    await pool.close()


def _ask_until_blocked(peers: list[socket.socket], questions: bytes) -> None:
    """Send until the server has read nothing more from any client for a second."""
    rests = dict.fromkeys(peers, b"")
    for peer in peers:
        peer.setblocking(False)
    last = time.monotonic()
    while time.monotonic() - last < 1:
        for peer, rest in rests.items():
            with suppress(BlockingIOError):
                rest = rest or questions
                rests[peer] = rest[peer.send(rest) :]
                last = time.monotonic()
        time.sleep(0.001)
