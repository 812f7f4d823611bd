"""The ways of requests through a server, as the page on the architecture shows them, recorded from running servers."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration.registrar import encode_parts
from orbitmq.clock import now_ms
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.headers import PopMessage, PullMessage, RegisterBroker, SendMessageV2

ROOT = Path(__file__).parents[2]
SOURCE = str(ROOT / "src" / "orbitmq") + "/"
PAGE = ROOT / "docs" / "explain" / "architecture.md"
LOOPBACK = "127.0.0.1"


def ways_on_the_page() -> dict[str, list[str]]:
    """Return the modules of each way, in the page's order, by the way's name."""
    text = PAGE.read_text(encoding="utf-8").split("## The ways of four requests")[1].split("\n## ")[0]
    blocks = re.findall(r"^### (.+?)\n.*?```\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    return {name: [line.split()[0] for line in block.splitlines() if line.strip()] for name, block in blocks}


WAYS = ways_on_the_page()


class Way:
    """Records the modules that a read of one peer's bytes enters, each once, until the call returns."""

    def __init__(self) -> None:
        self.peer = ""
        self.modules: list[str] = []
        self._is_reading = False

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if (
            event in ("call", "return")
            and code.co_name == "data_received"
            and code.co_filename == SOURCE + "net/connection/connection.py"
        ):
            self._is_reading = event == "call" and frame.f_locals["self"].remote == self.peer
        if event == "call" and self._is_reading and code.co_filename.startswith(SOURCE):
            module = code.co_filename.removeprefix(SOURCE).removesuffix(".py").replace("/", ".")
            if module not in self.modules:
                self.modules.append(module)


async def way_of(address: str, before: object, header: object, body: bytes) -> list[str]:
    """Ask one request twice and another one; return the modules that it enters: the first two fill what is remembered."""
    way, connected, go = Way(), threading.Event(), threading.Event()

    def ask() -> None:
        with BlockingConnection(address) as connection:
            for _ in range(2):
                assert connection.request(before, body).code == 0
            way.peer = "{}:{}".format(*connection._socket.getsockname()[:2])
            connected.set()
            assert go.wait(20)
            assert connection.request(header, body).code == 0

    asked = asyncio.create_task(asyncio.to_thread(ask))
    await asyncio.to_thread(connected.wait, 20)
    sys.setprofile(way.note)
    try:
        go.set()
        await asked
    finally:
        sys.setprofile(None)
    return way.modules


@asynccontextmanager
async def servers(path: Path) -> AsyncIterator[tuple[NameServer, Broker]]:
    name_server = NameServer(NameServerConfig(bind_address=LOOPBACK, listen_port=0, kv_config_path=path / "kv.json"))
    await name_server.start()
    broker = Broker(
        BrokerConfig(
            namesrv_addr=name_server.address,
            bind_address=LOOPBACK,
            broker_ip1=LOOPBACK,
            listen_port=0,
            store_path_root_dir=path / "store",
        ),
        # The first message of a millisecond goes a longer way than those behind it.
        clock=count(now_ms()).__next__,
    )
    await broker.start()
    try:
        broker.service.tables.topics.update(TopicConfig(topic="t"), 0)
        await broker.running.others.registrar.wait_registered()
        yield name_server, broker
    finally:
        await broker.stop()
        await name_server.stop()


PLACE: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
SEND = SendMessageV2(
    producer_group="p",
    topic="t",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_at_ms=1_700_000_000_000,
    flag=0,
    properties="UNIQ_KEY\x017F000001\x02",
)
PULL = PullMessage(
    **PLACE,
    queue_offset=0,
    count_max=32,
    sys_flag=4,
    commit_offset=0,
    suspend_timeout_ms=0,
    subscription="*",
    sub_version=0,
)
POP = PopMessage(**PLACE, count_max=1, invisible_ms=60_000, poll_ms=0, init_mode=0)


def registration(name: str) -> RegisterBroker:
    return RegisterBroker(
        broker_name=name,
        broker_addr=f"{LOOPBACK}:1",
        cluster_name="c",
        ha_server_addr=f"{LOOPBACK}:2",
        broker_id=0,
    )


@pytest.mark.parametrize(
    ("name", "header"), [("A plain send", SEND), ("A pull", PULL), ("A pop", POP)], ids=["send", "pull", "pop"]
)
async def test_a_request_to_a_broker_goes_the_way_that_the_page_shows(
    name: str, header: object, tmp_path: Path
) -> None:
    async with servers(tmp_path) as (_name_server, broker):
        for _ in range(2):
            await way_of(broker.address, SEND, SEND, b"hello")
        assert await way_of(broker.address, header, header, b"hello" if header is SEND else b"") == WAYS[name]


async def test_the_registration_of_a_new_broker_goes_the_way_that_the_page_shows(tmp_path: Path) -> None:
    async with servers(tmp_path) as (name_server, broker):
        table = broker.service.tables.topics.table
        (body,) = encode_parts(table.version, table.masked(6))
        way = await way_of(name_server.address, registration("one"), registration("two"), body)
        assert way == WAYS["The registration of a new broker"]
