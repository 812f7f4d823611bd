"""Hostile peers of a NameServer: honest ones go on being served.

`make proof ARGS="--only hostile/"` is the long form. Slow senders and peers that never read are, in small, in `unit/net/test_server.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest

from children import environment
from hostile.attacks import BOMBS, LIES, connections_of, golden_requests
from hostile.dearest import measure
from hostile.requests import enter_names, replay_attacks, walk_matrix
from orbitmq.errors import FrameError
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.routing.validation import illegal_topics
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.headers import GetClusterInfo, GetRouteInfo
from unit.nameserver.support import Asker, asking, registration
from unit.net.support import peer_of
from waiting import until

FRAMES = 10_000
SEED = int(os.environ.get("ORBITMQ_SEED", "20261121"))
MEMORY_GROWTH_MAX = 50 * 1024 * 1024
HONEST_TOPIC = "honest-topic-that-nobody-else-names"


async def attack(asker: Asker, data: bytes) -> None:
    """Send bytes, read whatever comes back until the server closes, and leave."""
    host, _, port = asker.server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        writer.write_eof()  # or the server would wait for the rest of a frame that lies about its length
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass
    finally:
        writer.close()


async def honestly(asker: Asker, work: Callable[[], Awaitable[None]]) -> None:
    """Do something while an honest client asks for its route again and again, and always gets it."""
    await asker.register("honest", HONEST_TOPIC, "another")
    task = asyncio.ensure_future(work())
    while not task.done():
        answer = await asker.ask(GetRouteInfo(topic=HONEST_TOPIC))
        assert answer.code == 0, answer
        assert b'"honest"' in answer.body
    await task


async def test_injured_frames_do_no_harm_s1(tmp_path: Path):
    frames, random = golden_requests(), Random(SEED)
    process = psutil.Process()
    async with asking(tmp_path) as asker:
        before = process.memory_info().rss

        async def work() -> None:
            for sent in connections_of(frames, FRAMES, random):
                await attack(asker, sent)

        await honestly(asker, work)
        counters = asker.server.server.counters
        assert counters.failed_requests == 0, f"an error of ours, ORBITMQ_SEED={SEED}"
        assert process.memory_info().rss - before < MEMORY_GROWTH_MAX
        assert counters.closed_by_us["bad frame"] > 0
        await until(lambda: len(asker.server.server.connections) <= 1)


async def test_a_thousand_idle_connections_cost_little_s4(tmp_path: Path):
    count, process = 1_000, psutil.Process()
    async with asking(tmp_path, server_channel_max_idle_time_seconds=1) as asker:
        host, _, port = asker.server.address.rpartition(":")
        before = process.memory_info().rss
        sockets = [socket.create_connection((host, int(port))) for _ in range(count)]
        try:
            await until(lambda: len(asker.server.server.connections) == count)
            grown = process.memory_info().rss - before
            assert (await asker.ask(GetClusterInfo())).code == 0
            await until(lambda: len(asker.server.server.connections) <= 1, pause_s=0.01)
            assert asker.server.server.counters.closed_by_us["idle"] >= count
        finally:
            for one in sockets:
                one.close()
        assert grown / count < 20_000, f"{grown / count:.0f} bytes per connection"


async def test_a_flood_of_connections_from_one_address_s5(tmp_path: Path):
    async with asking(tmp_path, connections_per_address_max=20) as asker:

        async def work() -> None:
            host, _, port = asker.server.address.rpartition(":")
            counters = asker.server.server.counters
            for _ in range(20):
                met = counters.connections_opened + counters.connections_refused
                opened = await asyncio.gather(
                    *(asyncio.open_connection(host, int(port)) for _ in range(50)), return_exceptions=True
                )
                made = [one for one in opened if not isinstance(one, BaseException)]
                while counters.connections_opened + counters.connections_refused < met + len(made):
                    await asyncio.sleep(0)
                for _, writer in made:
                    writer.close()

        await honestly(asker, work)
        assert asker.server.server.counters.connections_refused >= 20 * 30


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("is_compressed", [False, True])
async def test_a_json_bomb_is_refused_and_registers_nothing_s8(bomb: str, is_compressed: bool, tmp_path: Path):
    async with asking(tmp_path) as asker:
        body = zlib.compress(BOMBS[bomb]) if is_compressed else BOMBS[bomb]
        header, _ = registration("evil", compressed=is_compressed, body_crc32=0)
        answer = await asker.ask(header, body)
        topics = asker.server.service.tables.topics()
        assert answer.code == 1 or topics == (), answer
        assert not illegal_topics(topics)
        assert asker.server.server.counters.failed_requests == 0
        assert (await asker.ask(GetClusterInfo())).code == 0


async def test_a_name_that_means_something_elsewhere_enters_nowhere_s16(tmp_path: Path):
    assert (await enter_names(tmp_path)).wrong == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("registration", [False, True])
async def test_every_code_is_answered_to_whom_the_documentation_says_s11(registration: bool, tmp_path: Path):
    assert (await walk_matrix(tmp_path, covers_registration=registration)).wrong == []


async def test_requests_of_known_attacks_are_refused_and_change_no_file_s10(tmp_path: Path):
    assert (await replay_attacks(tmp_path)).wrong == []


@pytest.mark.parametrize("lie", LIES)
async def test_a_length_that_lies_ends_the_connection_and_allocates_nothing_s2(lie: str, tmp_path: Path):
    tracemalloc.start()
    with suppress(FrameError):
        for frame in FrameDecoder().feed(LIES[lie]):
            decode_command(frame)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert allocated < 64 * 1024
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        await peer.send(LIES[lie])
        await peer.is_cut_off()
        assert asker.server.server.counters.closed_by_us == {"bad frame": 1}


@pytest.mark.proof
def test_the_long_form_measures_and_says_whether_it_reached(tmp_path: Path):
    rows = ("injured-inputs", "injured-frames", "lying-lengths", "connection-flood", "model-histories")
    written = tmp_path / "rows.json"
    options = ("--share", "0.0005", "--seed", str(SEED), "--json", str(written))
    command = [sys.executable, "-m", "hostile.figures", *rows, *options]
    told = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert told.returncode in (0, 1), told.stderr
    for row in rows:
        assert f"| {row} | " in told.stdout
    assert json.loads(written.read_text()).keys() == set(rows)


def test_the_dearest_request_of_each_code_is_known_and_answered():
    costs = measure(topics=100, brokers=10, tries=1)
    assert {cost.code for cost in costs} == set(handlers.codes)
    assert all(cost.body_size <= handlers.body_sizes[cost.code] for cost in costs)
