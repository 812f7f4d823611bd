"""Registrations with a broker's NameServers, which may change while it runs."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration import other_servers
from orbitmq.broker.registration.registrar import Identity, Registrar, encode_parts
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver import NameServer, NameServerConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.bodies.registration import decode_registration
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    GetRouteInfo,
    PutKvConfig,
    RegisterBroker,
    UnregisterBroker,
    UpdateBrokerConfig,
)
from waiting import until

pytestmark = pytest.mark.real

IDENTITY = Identity("c", "a", 0, "127.0.0.1:10911", "127.0.0.1:10912")


def small_broker(directory: Path, name_servers: str) -> BrokerConfig:
    return BrokerConfig(
        broker_name="a",
        bind_address="127.0.0.1",
        listen_port=0,
        namesrv_addr=name_servers,
        store_path_root_dir=directory,
        mapped_file_size_commit_log=4 * 1024 * 1024,
    )


class FakeNameServer:
    """Counts what it is told; may refuse, or never answer."""

    handlers: Handlers[FakeNameServer] = Handlers()

    def __init__(self, *, refuses: bool = False, is_mute: bool = False) -> None:
        self.refuses = refuses
        self.is_mute = is_mute
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue()
        self.registrations: list[RegisterBroker] = []
        self.left: list[str] = []
        self.heartbeats: asyncio.Queue[BrokerHeartbeat] = asyncio.Queue()
        self.refuses_heartbeats = False
        self.address = ""
        self._server: Server[FakeNameServer] | None = None

    async def start(self, port: int = 0) -> None:
        self._server = Server(self.handlers, self, name="fake")
        self.address = f"127.0.0.1:{await self._server.start('127.0.0.1', port)}"

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.close()

    @property
    def connection_count(self) -> int:
        assert self._server is not None
        return len(self._server.connections)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@FakeNameServer.handlers.on(GetRouteInfo)
def _route(server: FakeNameServer, call: Call[GetRouteInfo]) -> Reply:
    if server.refuses or call.header.topic != "known":
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    queues = [QueueData(broker_name="a", read_queue_count=2, write_queue_count=1, perm=6)]
    return Reply(body=encode_route(TopicRoute(queues=tuple(queues), brokers=())))


@FakeNameServer.handlers.on(RegisterBroker)
def _register(server: FakeNameServer, call: Call[RegisterBroker]) -> Reply | Later:
    server.bodies.put_nowait(call.command.body)
    server.registrations.append(call.header)
    if server.is_mute:
        return LATER
    if server.refuses:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "register broker failed")
    return Reply()


@FakeNameServer.handlers.on(BrokerHeartbeat)
def _heartbeat(server: FakeNameServer, call: Call[BrokerHeartbeat]) -> Reply:
    server.heartbeats.put_nowait(call.header)
    if server.refuses_heartbeats:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "no")
    return Reply()


@FakeNameServer.handlers.on(UnregisterBroker)
def _unregister(server: FakeNameServer, call: Call[UnregisterBroker]) -> Reply:
    server.left.append(call.header.broker_addr)
    return Reply()


class Table:
    """Stands for the topic table: its encoded form counts the changes."""

    def __init__(self) -> None:
        self.count = 0

    def encode(self) -> list[bytes]:
        return [b"%d" % self.count]


@asynccontextmanager
async def registrar(*servers: FakeNameServer, table: Table, **settings: Any) -> AsyncIterator[Registrar]:
    found = Registrar(IDENTITY, table.encode, **settings)
    found.set_name_servers(server.address for server in servers)
    try:
        yield found
    finally:
        await found.leave()
        for server in servers:
            await server.stop()


async def started(**settings: bool) -> FakeNameServer:
    server = FakeNameServer(**settings)
    await server.start()
    return server


Scenario = Callable[[], Coroutine[Any, Any, None]]


def scenario(test: Scenario) -> Callable[[], None]:
    def runs() -> None:
        run(asyncio.wait_for(test(), 30))

    runs.__name__ = test.__name__
    return runs


@scenario
async def test_a_broker_registers_everywhere_and_leaves_everywhere() -> None:
    first, second = await started(), await started()
    async with registrar(first, second, table=Table()) as found:
        await found.wait_registered(timeout_ms=600_000)  # who is told waits for no time to be over
        assert first.bodies.get_nowait() == b"0"
        assert second.bodies.get_nowait() == b"0"
    assert first.left == second.left == ["127.0.0.1:10911"]


@scenario
async def test_it_is_known_which_name_servers_know_the_broker_and_which_do_not_answer() -> None:
    good, bad, mute = await started(), await started(refuses=True), await started(is_mute=True)
    async with registrar(good, bad, mute, table=Table(), timeout_ms=60_000) as found:
        assert not found.told
        assert not found.unreachable, "nobody has been asked yet"
        await until(lambda: found.told and found.unreachable and mute.registrations)
        assert (found.told, found.unreachable) == ((good.address,), (bad.address,))


@scenario
async def test_a_route_is_that_of_the_first_name_server_that_knows_it() -> None:
    ignorant, good = await started(refuses=True), await started()
    async with registrar(ignorant, good, table=Table()) as found:
        assert await found.find_queues("known") == [MessageQueue("known", "a", 0), MessageQueue("known", "a", 1)]
        assert await found.find_queues("unknown") is None
        await good.stop()
        assert await found.find_queues("known") is None


@scenario
async def test_a_change_is_announced_immediately_and_the_caller_hears_when_it_is_known() -> None:
    server, table = await started(), Table()
    async with registrar(server, table=table) as found:
        await found.wait_registered()
        await server.bodies.get()
        table.count = 1
        told = asyncio.Event()
        found.announce(told.set)
        await told.wait()
        assert server.bodies.get_nowait() == b"1"


@scenario
async def test_a_mute_or_refusing_name_server_delays_no_other() -> None:
    mute, refusing, good = await started(is_mute=True), await started(refuses=True), await started()
    async with registrar(mute, refusing, good, table=Table()):
        assert await good.bodies.get() == b"0"
        assert await refusing.bodies.get() == b"0"
        assert await refusing.bodies.get() == b"0"  # and it is asked again


async def test_the_log_has_the_last_cause_of_failed_registrations_and_each_one_once(caplog: Any) -> None:
    server = await started(refuses=True)
    port = server.port
    await server.stop()
    async with registrar(server, table=Table()) as found:
        await until(lambda: found.unreachable)
        await server.start(port)
        for _ in range(2):
            await server.bodies.get()
        lines = [line for line in caplog.messages if "cannot register" in line]
        assert ["register broker failed" in line for line in lines] == [False, True]


@scenario
async def test_a_name_server_that_comes_back_is_told_again() -> None:
    server = await started()
    async with registrar(server, table=Table()) as found:
        await found.wait_registered()
        await server.bodies.get()
        port = server.port
        await server.stop()
        await server.start(port)
        assert await server.bodies.get() == b"0"


@scenario
async def test_the_list_may_change_while_the_broker_runs_2042() -> None:
    old, new = await started(), await started()
    async with registrar(old, table=Table()) as found:
        await old.bodies.get()
        found.set_name_servers([new.address])
        assert await new.bodies.get() == b"0"
        assert found.name_servers == (new.address,)
        found.announce()
        assert await new.bodies.get() == b"0"
        assert old.bodies.empty()
    assert old.left == []
    await new.stop()


@scenario
async def test_the_period_renews_the_registration() -> None:
    server = await started()
    async with registrar(server, table=Table(), period_ms=20):
        for _ in range(3):
            await server.bodies.get()
        assert server.heartbeats.empty()


@scenario
async def test_no_request_waits_when_there_is_no_name_server() -> None:
    async with registrar(table=Table()) as found:
        called = asyncio.Event()
        found.announce(called.set)
        await called.wait()
        await found.wait_registered()


async def test_the_wait_for_a_mute_name_server_ends() -> None:
    mute = await started(is_mute=True)
    async with registrar(mute, table=Table()) as found:
        await found.wait_registered(timeout_ms=10)


@scenario
async def test_heartbeats_renew_the_lease_between_two_registrations() -> None:
    server = await started()
    async with registrar(server, table=Table(), heartbeat_ms=10, lease_ms=300):
        for _ in range(3):
            beat = await server.heartbeats.get()
        assert (beat.broker_addr, beat.broker_name, beat.heartbeat_timeout_mills) == ("127.0.0.1:10911", "a", 300)
        assert server.bodies.qsize() == 1


@scenario
async def test_a_refused_heartbeat_registers_again() -> None:
    server = await started()
    server.refuses_heartbeats = True
    async with registrar(server, table=Table(), heartbeat_ms=10):
        await server.bodies.get()
        await server.bodies.get()


def test_rocketmq_5296_more_topics_than_a_frame_carries_are_registered_in_parts() -> None:
    topics = {f"t{number}": TopicConfig(topic=f"t{number}") for number in range(25)}
    parts = [decode_registration(body) for body in encode_parts(DataVersion(0, 5, 7), topics, part_size=10)]
    assert [len(part.topics) for part in parts] == [10, 10, 5]
    assert sorted(topic for part in parts for topic in part.topics) == sorted(topics)
    assert [part.data_version for part in parts] == [DataVersion(0, 5, counter) for counter in (7, 8, 9)]


def test_a_table_without_topics_is_one_part() -> None:
    (part,) = [decode_registration(body) for body in encode_parts(DataVersion(), {})]
    assert part.topics == {}


@scenario
async def test_a_registration_names_the_broker_and_the_checksum_of_its_topics() -> None:
    server = await started()
    async with registrar(server, table=Table(), heartbeat_ms=60_000, lease_ms=300) as found:
        await found.wait_registered()
        header = server.registrations[0]
        assert (
            Identity(
                header.cluster_name, header.broker_name, header.broker_id, header.broker_addr, header.ha_server_addr
            )
            == IDENTITY
        )
        assert header.body_crc32 == zlib.crc32(b"0") & 0x7FFFFFFF
        assert header.heartbeat_timeout_millis == 300


@scenario
async def test_a_name_server_that_left_the_list_is_left_alone_for_good() -> None:
    old, new = await started(), await started()
    async with registrar(old, table=Table(), period_ms=20) as found:
        await old.bodies.get()
        found.set_name_servers([new.address])
        await until(lambda: old.connection_count == 0)
        while not old.bodies.empty():
            old.bodies.get_nowait()
        for _ in range(5):
            await new.bodies.get()
        assert old.bodies.empty()
    await new.stop()


@scenario
async def test_the_same_list_again_changes_nothing() -> None:
    server = await started()
    async with registrar(server, table=Table()) as found:
        await found.wait_registered()
        found.set_name_servers([server.address])
        told = asyncio.Event()
        found.announce(told.set)
        await told.wait()
        assert server.bodies.qsize() == 2


@asynccontextmanager
async def name_server(host: str, port: int = 0) -> AsyncIterator[NameServer]:
    server = NameServer(NameServerConfig(bind_address=host, listen_port=port))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def test_a_broker_follows_the_name_of_its_name_server_2042(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    meaning, failures = "127.0.0.1", 0
    real = asyncio.get_running_loop().getaddrinfo

    async def getaddrinfo(host: str, port: int, **kwargs: Any) -> list[Any]:
        nonlocal failures
        if host == "ns.example" and not meaning:
            failures += 1
            raise OSError("the name service is down")
        return await real(meaning if host == "ns.example" else host, port, **kwargs)

    monkeypatch.setattr(other_servers, "LOOK_UP_MS", 10)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    async with name_server("127.0.0.1") as first:
        port = int(first.address.partition(":")[2])
        async with name_server("127.0.0.2", port) as second:
            broker = Broker(small_broker(tmp_path, f"ns.example:{port}"))
            await broker.start()
            try:
                assert first.service.tables.broker_count == 1
                meaning = ""
                await until(lambda: failures > 1)
                assert broker.running.others.registrar.name_servers == (f"127.0.0.1:{port}",)
                meaning = "127.0.0.2"
                await until(lambda: second.service.tables.broker_count == 1)
                assert broker.running.others.registrar.name_servers == (f"127.0.0.2:{port}",)
            finally:
                await broker.stop()


async def test_topics_of_the_name_servers_order_table_become_ordered_and_others_keep_what_they_are(
    tmp_path: Path,
) -> None:
    pool = ConnectionPool(name="test")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pool.close)
        first = await stack.enter_async_context(name_server("127.0.0.1"))
        for topic in ("orders", "elsewhere"):
            entry = PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key=topic, value="a:4")
            assert (await pool.request(first.address, entry)).code == ResponseCode.SUCCESS
        broker = Broker(small_broker(tmp_path, first.address))
        await broker.start()
        try:
            topics = broker.service.tables.topics
            for topic in ("orders", "logs"):
                topics.update(TopicConfig(topic=topic), 1)
            await until(lambda: topics.table.all["orders"].order)
            assert not topics.table.all["logs"].order
            assert "elsewhere" not in topics.table.all
        finally:
            await broker.stop()
    assert json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]["orders"]["order"]


async def test_a_request_gives_a_running_broker_another_list_of_name_servers_which_its_next_start_has_too(
    tmp_path: Path,
) -> None:
    async with name_server("127.0.0.1") as first, name_server("127.0.0.1") as second:
        config = small_broker(tmp_path, first.address)
        broker, pool = Broker(config), ConnectionPool(name="test")
        await broker.start()
        try:
            body = f"namesrvAddr={first.address};{second.address}".encode()
            assert (await pool.request(broker.address, UpdateBrokerConfig(), body)).code == ResponseCode.SUCCESS
            assert second.service.tables.broker_count == 1  # before the answer
            body = f"namesrvAddr={second.address}".encode()
            assert (await pool.request(broker.address, UpdateBrokerConfig(), body)).code == ResponseCode.SUCCESS
            assert broker.running.others.registrar.name_servers == (second.address,)
        finally:
            await pool.close()
            await broker.stop()
        assert Broker(config).config.namesrv_addr == second.address
