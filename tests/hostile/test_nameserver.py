"""Hostile peers over live sockets (S1, S4, S5, S8, S16): the NameServer goes on serving honest ones. `make hostile` is the long form."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import psutil
import pytest

from fuzz.mutation import mutate
from orbitmq.nameserver.names import illegal_names
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import Frame, FrameDecoder
from orbitmq.wire.headers import DeleteTopicInNameServer, GetClusterInfo, GetRouteInfo, RegisterTopicInNameServer
from unit.nameserver.support import Asker, asking, registration
from unit.net.support import until

FRAMES = int(os.environ.get("ORBITMQ_HOSTILE_FRAMES", "10000"))
SEED = int(os.environ.get("ORBITMQ_SEED", "20261121"))
FRAMES_PER_CONNECTION = 25
MEMORY_GROWTH_MAX = 50 * 1024 * 1024
HONEST_TOPIC = "honest-topic-that-nobody-else-names"

_GOLDEN = Path(__file__).parents[1] / "golden"
# A forged 318 may switch things off, which is what it is for without access control.
_CODES = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 319, 322, 327, 901, 904)


def golden_requests() -> list[Frame]:
    """What Java peers sent, as far as a NameServer takes it."""
    found: list[Frame] = []
    for path in sorted(_GOLDEN.glob("*request*.bin")):
        frames = FrameDecoder().feed(path.read_bytes())
        found += [frame for frame in frames if decode_command(frame).code in _CODES]
    assert len(found) >= 10, "the captures of Java peers are there"
    return found


def injured(frames: list[Frame], random: Random) -> bytes:
    """Injure a request: mostly inside its header or body, so that it gets past the frame's own checks."""
    frame = random.choice(frames)
    header, body = frame.header, frame.body
    kind = random.random()
    if kind < 0.45:
        header = mutate(header, [other.header for other in frames], random)
    elif kind < 0.8:
        body = mutate(body or b"{}", [other.body for other in frames], random)
    mark = frame.serialize_type << 24 | len(header) & 0xFFFFFF
    whole = struct.pack(">II", 4 + len(header) + len(body), mark) + header + body
    return mutate(whole, [whole], random) if kind >= 0.8 else whole


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
            for _ in range(max(1, FRAMES // FRAMES_PER_CONNECTION)):
                await attack(asker, b"".join(injured(frames, random) for _ in range(FRAMES_PER_CONNECTION)))

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
            await until(lambda: len(asker.server.server.connections) <= 1, lambda: asyncio.sleep(0.01))
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


DEEP = 100_000
BOMBS = {
    "deep list": b"[" * DEEP,
    "deep closed list": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP,
    "deep object keys": b"{{" * DEEP,
    "a million keys": b"{" + b",".join(b'"k%d":0' % number for number in range(1_000_000)) + b"}",
    "duplicate keys": b"{" + b",".join([b'"topicConfigSerializeWrapper":{}'] * 100_000) + b"}",
    "huge integer": b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":' + b"9" * 100_000 + b"}}}",
    "huge bare key": b"{" + b"1" * 100_000 + b":0}",
    "many bare keys": b"{" + b",".join(b"%d:0" % number for number in range(100_000)) + b"}",
    "not a number": b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":NaN}}}',
    "bad UTF-8": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\xff\xfe":{}}}}',
    "lone surrogate": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\\ud800":{},"b":{}}}}',
    "unclosed text": b'{"a":"' + b"x" * 1_000_000,
    "backslashes": b'{"a":"' + b"\\" * 1_000_001,
    "wrong kinds": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":[],"U":{}}}}',
    "queues that are no numbers": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":true},"U":{}}}}',
    "filter servers that are no texts": b'{"filterServerList":[1,{}]}',
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("is_compressed", [False, True])
async def test_a_json_bomb_is_refused_and_registers_nothing_s8(bomb: str, is_compressed: bool, tmp_path: Path):
    async with asking(tmp_path) as asker:
        body = zlib.compress(BOMBS[bomb]) if is_compressed else BOMBS[bomb]
        header, _ = registration("evil", compressed=is_compressed, body_crc32=0)
        answer = await asker.ask(header, body)
        topics = asker.server.registry.table.topics()
        assert answer.code == 1 or topics == (), answer
        assert not illegal_names(topics)
        assert asker.server.server.counters.failed_requests == 0
        assert (await asker.ask(GetClusterInfo())).code == 0


PAYLOADS = [
    "../../etc/passwd",
    "/etc/passwd",
    "..\\..\\boot.ini",
    "$(reboot)",
    "`reboot`",
    "; reboot",
    "| reboot",
    "a\nb",
    "a\r\nSet-Cookie: x",
    "a\x00b",
    "\x1b[31m",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE topics; --",
    "{{7*7}}",
    "${jndi:ldap://x/y}",
    "名",
    "‮",
    " ",
    "",
    "x" * 256,
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
async def test_a_name_that_means_something_elsewhere_enters_nowhere_s16(payload: str, tmp_path: Path):
    async with asking(tmp_path) as asker:
        header, body = registration(payload, "T1", "T2")
        assert (await asker.ask(header, body)).code == 1
        for field in ("cluster_name", "broker_addr"):
            header, body = registration("a", "T1", "T2", **{field: payload})
            assert (await asker.ask(header, body)).code == 1
        assert (await asker.register("a", "T1", "T2", payload)).code == 0
        assert (await asker.ask(RegisterTopicInNameServer(topic=payload), b"{}")).code == 1
        await asker.ask(DeleteTopicInNameServer(topic=payload))
        assert set(asker.server.registry.table.topics()) == {"T1", "T2"}
    assert list(tmp_path.iterdir()) == []
