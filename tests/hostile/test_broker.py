"""Hostile clients of a broker, in small: what they may cost is counted, in bytes and in turns, whatever the machine.

`make proof ARGS="--only hostile-broker"` is the long form: an honest producer and consumer next to each of them, timed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from children import environment
from hostile.broker_attacks import ATTACKS, MIB, batch_frame, pull_frame, send_frame
from orbitmq.address import parse_address
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.limits import limit_refusals
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import FrameDecoder
from waiting import until


class Client:
    """A connection to a broker that reads when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, count: int) -> list[Command]:
        found: list[Command] = []
        while len(found) < count:
            data = await self._reader.read(MIB)
            assert data, "closed instead of answering"
            found += map(decode_command, self._decoder.feed(data))
        return found

    async def ask(self, frame: bytes) -> Command:
        await self.send(frame)
        (answer,) = await self.receive(1)
        return answer

    def leave(self) -> None:
        self._writer.transport.abort()


class Harness:
    """A broker, and the clients that came."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clients: list[Client] = []

    async def come(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection(*parse_address(self.broker.address), limit=1)))
        return self.clients[-1]

    @property
    def refused(self) -> dict[str, int]:
        found = limit_refusals(self.broker.service, self.broker.running.server.counters)
        return {name: count for name, count in found.items() if count}


@asynccontextmanager
async def attacked(path: Path, **settings: Any) -> AsyncIterator[Harness]:
    config = BrokerConfig(
        broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=path,
        mapped_file_size_commit_log=64 * MIB, **settings,
    )  # fmt: skip
    broker = Broker(config)
    await broker.start()
    harness = Harness(broker)
    try:
        yield harness
    finally:
        for client in harness.clients:
            client.leave()
        await broker.stop()


async def test_half_frames_of_many_connections_stay_within_their_budget(tmp_path: Path):
    async with attacked(tmp_path, partial_frames_max=4 * MIB) as harness:
        half = (16 * MIB - 100).to_bytes(4, "big") + (100).to_bytes(4, "big") + bytes(MIB)
        partial = harness.broker.running.server._endpoint.partial_frames
        for _ in range(10):
            await (await harness.come()).send(half)
            assert partial.size <= 4 * MIB
        await until(lambda: harness.refused.get("partialFramesMax", 0) >= 6)
        assert (await (await harness.come()).ask(send_frame("honest"))).code == 0


async def test_answers_for_deaf_pullers_stay_within_their_budget_and_an_honest_one_is_served(tmp_path: Path):
    async with attacked(tmp_path, waiting_answers_max=8 * MIB, write_buffer_max=0) as harness:
        honest = await harness.come()
        for _ in range(8):
            await honest.ask(send_frame("full", bytes(MIB)))
        for _ in range(12):
            await (await harness.come()).send(pull_frame("full", 0) * 20)
        waiting = harness.broker.running.server._endpoint.waiting_answers
        pulls = harness.broker.service.delivery.pulls
        await until(lambda: waiting.size > 4 * MIB or pulls.held_count)
        for number in range(20):
            assert (await honest.ask(send_frame("honest", b"%d" % number))).code == 0
            assert len((await honest.ask(pull_frame("honest", number))).body) > 0
            assert waiting.size <= 8 * MIB


async def test_a_crowd_of_held_pulls_is_answered_while_others_are_served_in_between(tmp_path: Path):
    async with attacked(tmp_path) as harness:
        crowd, honest = await harness.come(), await harness.come()
        for topic in ("crowd", "honest"):
            await honest.ask(send_frame(topic))
        count = 5_000
        await crowd.send(pull_frame("crowd", 1, suspend_ms=30_000) * count)
        pulls = harness.broker.service.delivery.pulls
        await until(lambda: pulls.held_count == count)
        await honest.ask(send_frame("crowd"))
        assert (await honest.ask(send_frame("honest"))).code == 0
        assert len((await honest.ask(pull_frame("honest", 1))).body) > 0
        assert pulls.held_count > 0, "the crowd has not been answered in one piece"
        assert len(await crowd.receive(count)) == count


async def test_pulls_that_found_nothing_are_held_up_to_the_limit(tmp_path: Path):
    async with attacked(tmp_path, parked_pulls_max=100) as harness:
        client = await harness.come()
        await client.ask(send_frame("t"))
        await client.ask(pull_frame("t", 0))
        await client.send(pull_frame("t", 1, suspend_ms=30_000) * 80)
        assert [answer.code for answer in await client.receive(5)] == [19] * 5
        assert harness.broker.service.delivery.pulls.held_count == 75
        assert harness.refused == {"parkedPullsMax": 5}


async def test_what_one_client_pipelines_is_served_in_turns(tmp_path: Path):
    async with attacked(tmp_path) as harness:
        greedy, honest = await harness.come(), await harness.come()
        await honest.ask(send_frame("t", bytes(100_000)))
        await greedy.send(pull_frame("t", 0) * 500)
        sent = harness.broker.service.monitoring.stats
        await until(lambda: sent.found_count > 0)
        assert (await honest.ask(send_frame("honest"))).code == 0
        assert sent.found_count < 500, "the others' requests wait until their client reads"


async def test_a_batch_of_as_many_messages_as_a_frame_holds_is_stored_while_others_are_served(tmp_path: Path):
    async with attacked(tmp_path) as harness:
        greedy, honest = await harness.come(), await harness.come()
        for client in (greedy, honest):
            assert (await client.ask(send_frame("honest"))).code == 0
        await greedy.send(batch_frame("batches", MIB // 8))
        stats = harness.broker.service.monitoring.stats
        served = 0
        while stats.put_count < MIB // 8 // 22:
            assert (await honest.ask(send_frame("honest"))).code == 0
            served += 1
        assert served > 2, "at once it would be one, or none"
        (answer,) = await greedy.receive(1)
        assert answer.code == 0


@pytest.mark.parametrize(
    ("setting", "frame_of", "code"),
    [
        ("topicsMax", lambda number: send_frame(f"topic-{number}"), 17),
        ("groupsMax", lambda number: pull_frame("t", 0, group=f"group-{number}"), 26),
    ],
)
async def test_new_names_are_made_up_to_the_limit(
    setting: str, frame_of: Callable[[int], bytes], code: int, tmp_path: Path
):
    async with attacked(tmp_path, topics_max=100, groups_max=100) as harness:
        client = await harness.come()
        await client.ask(send_frame("t"))
        codes = [(await client.ask(frame_of(number))).code for number in range(110)]
        assert set(codes) == {0, code}
        assert harness.refused == {setting: codes.count(code)}


async def test_connections_beyond_the_limit_are_refused_and_those_before_are_served(tmp_path: Path):
    async with attacked(tmp_path, connections_max=3) as harness:
        honest = await harness.come()
        assert (await honest.ask(send_frame("honest"))).code == 0
        for _ in range(10):
            await harness.come()
        await until(lambda: harness.refused == {"connectionsMax": 8})
        assert (await honest.ask(send_frame("honest"))).code == 0


@pytest.mark.proof
def test_the_long_form_measures_and_says_whether_it_reached():
    rows = ("half-frames", "deaf-pullers")
    command = [sys.executable, "-m", "hostile.broker_figures", *rows, "--share", "0.02"]
    told = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert told.returncode in (0, 1), told.stderr
    for row in rows:
        assert f"| {row} | " in told.stdout
    assert set(rows) <= set(ATTACKS)
