"""Claims about a running NameServer: scans, lost connections, notices, and its end.

A NameServer also shows itself where it asks others: when it tells brokers of each other, and in shadow mode.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConnectionFailed, NoNameServer, RemoteRefused
from orbitmq.nameserver import app
from orbitmq.nameserver.app import NameServer, limits_of, make_server_security
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.fast_path import NameServerFastPath
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.net.limits import Limits
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.tls import ServerTls, TlsMode, client_context
from orbitmq.net.server import Server
from orbitmq.process.pause_aware_clock import LATE_MAX_MS
from orbitmq.testing import FakeClock
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import (
    AddWritePerm,
    BrokerHeartbeat,
    DeleteKvConfig,
    DeleteTopicInNameServer,
    GetAllTopics,
    GetClusterInfo,
    GetHealth,
    GetKvConfig,
    GetKvListByNamespace,
    GetNameServerConfig,
    GetRouteDifference,
    GetRouteHistory,
    GetRouteInfo,
    NotifyMinBrokerIdChange,
    PutKvConfig,
    QueryDataVersion,
    RegisterTopicInNameServer,
    UnregisterBroker,
    UpdateNameServerConfig,
    WipeWritePerm,
)
from orbitmq.wire.signature import Credentials, is_signed_by
from unit.nameserver.support import BROKER, Asker, address_of, asking, route_of
from unit.net.accounts import ADMIN, FORGER, READER, STRANGER, write_accounts
from unit.net.certificates import Authority
from unit.net.support import peer_of
from waiting import until

pytestmark = pytest.mark.real


async def test_a_silent_broker_is_taken_out_by_the_scan_and_its_line_is_cut(asker: Asker):
    silent, steady = ConnectionPool(), ConnectionPool()
    await asker.register("a", pool=silent, heartbeat_timeout_millis=30_000)
    await asker.register("b", pool=steady)
    asker.clock.advance(30_001)
    asker.server.scan()
    assert [found.broker_name for found in (await route_of(asker)).brokers] == ["b"]
    await until(lambda: silent.addresses == ())
    assert steady.addresses == (asker.server.address,)
    await silent.close()
    await steady.close()


@pytest.mark.parametrize("names", ["ab", "ba"], ids=["shared first", "shared last"])
async def test_no_line_is_left_to_silent_brokers_whichever_lease_is_looked_at_first(asker: Asker, names: str):
    first, second = ConnectionPool(), ConnectionPool()
    for name in names:
        await asker.register(name, pool=first)
        if name == "a":
            await asker.register(name, pool=second)
    asker.clock.advance(120_001)
    asker.server.scan()
    await until(lambda: (first.addresses, second.addresses) == ((), ()))
    await first.close()
    await second.close()


async def test_the_scan_runs_by_itself(tmp_path: Path):
    async with asking(tmp_path, scan_not_active_broker_interval=10) as asker:
        await asker.register()
        asker.clock.advance(120_001)
        await until(lambda: not asker.server.service.tables.broker_count, pause_s=0.001)


async def test_a_broker_whose_connection_ends_leaves_immediately(asker: Asker):
    broker = ConnectionPool()
    await asker.register(pool=broker)
    assert await route_of(asker) is not None
    await broker.close()
    await until(lambda: not asker.server.service.tables.broker_count)
    assert await route_of(asker) is None


async def test_a_reconnected_broker_survives_the_end_of_its_old_connection_11043(asker: Asker):
    old, new = ConnectionPool(), ConnectionPool()
    await asker.register(pool=old)
    await asker.register(pool=new)
    late = await asker.ask(UnregisterBroker(**BROKER), pool=old)
    assert late.code == 0
    await old.close()
    await until(lambda: len(asker.server.server.connections) == 2)
    assert await route_of(asker) is not None
    await new.close()


async def test_members_are_told_of_a_new_smallest_id_where_that_is_wanted(tmp_path: Path):
    told: list[NotifyMinBrokerIdChange] = []
    handlers: Handlers[None] = Handlers()

    @handlers.on(NotifyMinBrokerIdChange)
    def note(service: None, call: Call[NotifyMinBrokerIdChange]) -> Reply:
        told.append(call.header)
        return Reply()

    member = Server(handlers, None, name="member")
    await member.start("127.0.0.1", 0)
    async with asking(tmp_path, notify_min_broker_id_changed=True) as asker:
        await asker.register("a", broker_id=2, broker_addr=member.address, enable_acting_master=True)
        await asker.register("a", broker_id=1, enable_acting_master=True)
        await until(lambda: len(told) == 1)
        leaver = {**BROKER, "broker_addr": address_of("a", 1), "broker_id": 1}
        await asker.ask(UnregisterBroker(**leaver))
        await until(lambda: len(told) == 2)
    await member.close()
    assert told[0] == NotifyMinBrokerIdChange(
        min_broker_id=1, min_broker_addr="a-1:10911", ha_broker_addr="ha-a-1:10911"
    )
    assert told[1] == NotifyMinBrokerIdChange(
        min_broker_id=2, min_broker_addr=member.address, offline_broker_addr="a-1:10911"
    )


async def test_a_member_that_cannot_be_told_does_no_harm(tmp_path: Path):
    async with asking(tmp_path, notify_min_broker_id_changed=True) as asker:
        for address in ("127.0.0.1:1", "no-port"):
            await asker.register("a", broker_id=2, broker_addr=address)
            await asker.register("a", broker_id=1, broker_addr="a-1:1")
            await asker.ask(UnregisterBroker(**{**BROKER, "broker_id": 1, "broker_addr": "a-1:1"}))
        await until(lambda: not asker.server._tasks)
        assert (await asker.ask(GetClusterInfo())).code == 0


async def test_an_unknown_code_and_a_missing_field(tmp_path: Path):
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        await peer.send(encode_command(Command(99999, 1)))
        assert (await peer.receive()).remark == " request type 99999 not supported"
        await peer.send(encode_command(Command(103, 2, ext_fields={"brokerName": "a"})))
        assert (await peer.receive()).code == 1


async def test_a_stopped_name_server_answers_no_request(asker: Asker):
    await asker.register()
    await asker.server.stop()
    with pytest.raises(ConnectionFailed):
        await asker.ask(GetRouteInfo(topic="T1"))


handlers: Handlers[asyncio.Queue[Command]] = Handlers()


@handlers.on(NotifyMinBrokerIdChange)
def take(notices: asyncio.Queue[Command], call: Call[NotifyMinBrokerIdChange]) -> Reply:
    notices.put_nowait(call.command)
    return Reply()


def own_file(folder: Path) -> str:
    path = folder / "own.properties"
    path.touch(0o600)
    path.write_text(
        f"accessKey={ADMIN.access_key}\nsecretKey={ADMIN.secret_key}\ntlsEnable=true\ntlsClientTrustCertPath=trust.pem\n"
    )
    return str(path)


async def test_brokers_are_told_of_each_other_over_tls_with_a_signature(tmp_path: Path):
    tls = ServerTls(TlsMode.ENFORCING, Authority(tmp_path).issue("broker"))
    notices: asyncio.Queue[Command] = asyncio.Queue()
    broker = Server(handlers, notices, name="broker", tls=tls)
    await broker.start("127.0.0.1", 0)
    try:
        settings = {"notify_min_broker_id_changed": True, "security_file": own_file(tmp_path)}
        async with asking(tmp_path, **settings) as asker:
            await asker.register("b", broker_id=2, broker_addr=broker.address)
            await asker.register("b", broker_id=1)
            notice = await notices.get()
    finally:
        await broker.close()
    assert is_signed_by(notice.ext_fields or {}, notice.body, ADMIN.secret_key)


async def test_shadow_mode_compares_with_a_name_server_that_enforces_tls(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    guard = {
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
    }
    (tmp_path / "other").mkdir()
    async with asking(tmp_path / "other", **guard) as other:
        for security_file, is_up in (("", False), (own_file(tmp_path), True)):
            settings = {"shadow_address": other.server.address, "security_file": security_file}
            async with asking(tmp_path, **settings) as asker:
                assert asker.server.shadow is not None
                assert (await asker.server.shadow.compare()).is_up is is_up


def test_the_settings_are_the_limits_of_the_port():
    config = NameServerConfig(
        server_channel_max_idle_time_seconds=7,
        frame_deadline_seconds=8,
        write_buffer_max=9,
        connections_max=10,
        connections_per_address_max=11,
        requests_per_second_max=12,
        server_socket_backlog=13,
        partial_frames_max=14,
    )
    assert limits_of(config) == Limits(
        idle_ms=7_000,
        frame_ms=8_000,
        write_buffer_max=9,
        connections_max=10,
        connections_per_address_max=11,
        requests_per_second_max=12,
        backlog=13,
        partial_frames_max=14,
    )


@each_case(
    (50_000, 0, 50_000), (0, 0, 0), (50_000, 20_000, 19_488), (100, 20_000, 100), (0, 20_000, 19_488), (50, 64, 32)
)
def test_no_more_connections_are_taken_than_there_are_descriptors_for(wanted: int, descriptors: int, taken: int):
    assert limits_of(NameServerConfig(connections_max=wanted), descriptors).connections_max == taken


class Member:
    """A broker that is told of its group's smallest id."""

    def __init__(self) -> None:
        self.told: list[int] = []
        handlers: Handlers[None] = Handlers()

        @handlers.on(NotifyMinBrokerIdChange)
        def note(service: None, call: Call[NotifyMinBrokerIdChange]) -> Reply:
            self.told.append(call.header.min_broker_id)
            return Reply()

        self.server = Server(handlers, None, name="member")


@pytest.mark.parametrize("is_acting", [False, True])
async def test_a_group_without_acting_master_is_not_told_of_a_member_that_left(is_acting: bool, tmp_path: Path):
    member = Member()
    await member.server.start("127.0.0.1", 0)
    async with asking(tmp_path, notify_min_broker_id_changed=True) as asker:
        options = {"enable_acting_master": is_acting}
        await asker.register("a", broker_id=3, broker_addr=member.server.address, **options)
        await asker.register("a", broker_id=2, **options)
        await until(lambda: member.told)
        await asker.ask(UnregisterBroker(**{**BROKER, "broker_addr": address_of("a", 2), "broker_id": 2}))
        if is_acting:
            await until(lambda: member.told == [2, 3])
        await asker.register("a", broker_id=1, **options)
        await until(lambda: member.told[-1] == 1)
    await member.server.close()
    assert member.told == ([2, 3, 1] if is_acting else [2, 1])


async def test_no_member_is_told_until_that_is_wanted(tmp_path: Path):
    member = Member()
    await member.server.start("127.0.0.1", 0)
    async with asking(tmp_path) as asker:
        await asker.register("a", broker_id=3, broker_addr=member.server.address)
        await asker.register("a", broker_id=2)
        await asker.ask(UpdateNameServerConfig(), b"notifyMinBrokerIdChanged=true")
        await asker.register("a", broker_id=1)
        await until(lambda: member.told)
    # The connections are gone with the NameServer: a client is notified through one of its own.
    await until(lambda: not member.server.connections)
    await member.server.close()
    assert member.told == [1]


async def test_a_line_that_another_broker_still_speaks_through_is_not_cut(asker: Asker):
    await asker.register("a", heartbeat_timeout_millis=30_000)
    await asker.register("b")
    asker.clock.advance(30_001)
    asker.server.scan()
    assert await route_of(asker) is not None
    assert asker.server.server.counters.connections_opened == 1


class Timers:
    """The timers of the running loop that were set since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._set: list[asyncio.TimerHandle] = []
        for name in ("call_later", "call_at"):
            monkeypatch.setattr(self._loop, name, self._noting(getattr(self._loop, name)))

    def _noting(self, call: Callable[..., asyncio.TimerHandle]) -> Callable[..., asyncio.TimerHandle]:
        def noting(*args: Any, **options: Any) -> asyncio.TimerHandle:
            self._set.append(call(*args, **options))
            return self._set[-1]

        return noting

    def left(self) -> list[asyncio.TimerHandle]:
        """Return those that will run."""
        return [timer for timer in self._set if not timer.cancelled() and timer.when() > self._loop.time()]


async def test_a_stopped_name_server_leaves_no_timer_task_or_port_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    others = asyncio.all_tasks()
    timers = Timers(monkeypatch)
    settings = {"shadow_address": "127.0.0.1:1", "metrics_port": 0, "cluster_test": True}
    async with asking(tmp_path, **settings) as asker:
        server = asker.server
        assert server.shadow is not None
        await until(lambda: server.shadow.last.error)
        assert timers.left()
        host, port = str(server.metrics_address).split(":")
        await server.stop()
        await asker.pool.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        assert timers.left() == []
        await until(lambda: asyncio.all_tasks() == others)


async def test_a_step_of_a_stop_that_fails_keeps_no_port_open(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    async def full() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(asker.server.service, "save", full)
    host, port = asker.server.address.split(":")
    with pytest.raises(OSError, match="disk full"):
        await asker.server.stop()
    monkeypatch.undo()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))


async def test_a_name_server_that_stops_does_not_say_that_its_brokers_left(asker: Asker):
    await asker.register()
    await asker.server.stop()
    assert asker.server.service.tables.broker_count == 1


async def test_leases_count_the_time_during_which_the_loop_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    machine = FakeClock(0)
    monkeypatch.setattr(app, "monotonic_ms", machine)
    monkeypatch.setattr(app, "TICK_MS", 1)
    server = NameServer(NameServerConfig(bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"))
    await server.start()
    machine.advance(LATE_MAX_MS)
    await until(lambda: server.service.lease_clock() == LATE_MAX_MS)
    await server.stop()


async def test_a_signature_covers_fields_and_body(tmp_path: Path):
    async with asking(tmp_path, acl_enable=True, acl_file=write_accounts(tmp_path)) as asker:
        admin, reader = ConnectionPool(credentials=ADMIN), ConnectionPool(credentials=READER)
        header = PutKvConfig(namespace="n", key="k", value="v")
        assert (await asker.ask(header, pool=admin)).code == 0
        assert (await asker.ask(header)).code == 16
        refused = await asker.ask(header, pool=reader)
        assert (refused.code, refused.remark) == (16, "request 100 needs a signature with the role admin")
        assert (await asker.ask(WipeWritePerm(broker_name="a"), pool=reader)).code == 16
        assert (await asker.ask(DeleteTopicInNameServer(topic="t"), pool=admin)).code == 0

        from orbitmq.wire.signature import sign

        signed = sign({"namespace": "n", "key": "k", "value": "v"}, b"", ADMIN)
        async with peer_of(asker.server.server) as peer:
            for fields, body in (({**signed, "value": "evil"}, b""), ({**signed, "extra": "x"}, b""), (signed, b"x")):
                await peer.send(encode_command(Command(100, 1, ext_fields=fields, body=body)))
                assert (await peer.receive()).code == 16
            await peer.send(encode_command(Command(100, 1, ext_fields=signed)))
            assert (await peer.receive()).code == 0
        await admin.close()
        await reader.close()


async def test_changed_accounts_count_without_a_restart(tmp_path: Path):
    path = write_accounts(tmp_path)
    async with asking(tmp_path, acl_enable=True, acl_file=path) as asker:
        renewed = Credentials("admin-key", "renewed-secret")
        old, new = ConnectionPool(credentials=ADMIN), ConnectionPool(credentials=renewed)
        assert (await asker.ask(GetNameServerConfig(), pool=old)).code == 0
        write_accounts(tmp_path, admin=renewed)
        os.utime(path, ns=(10**18, 10**18))
        asker.server._server_security.reload_if_changed()
        assert (await asker.ask(GetNameServerConfig(), pool=old)).code == 16
        assert (await asker.ask(GetNameServerConfig(), pool=new)).code == 0
        path.write_text("broken")
        asker.server._server_security.reload_if_changed()
        assert (await asker.ask(GetNameServerConfig(), pool=new)).code == 0
        await old.close()
        await new.close()


async def test_secrets_are_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        async with asking(tmp_path, acl_enable=True, acl_file=write_accounts(tmp_path)) as asker:
            for credentials in (None, FORGER, STRANGER, READER):
                pool = ConnectionPool(credentials=credentials)
                await asker.ask(PutKvConfig(namespace="n", key="k", value="v"), pool=pool)
                await pool.close()
    assert "refused request 100" in caplog.text
    assert "secret" not in caplog.text


def test_unsigned_registration_is_said(tmp_path: Path):
    settings = {"acl_enable": True, "acl_file": write_accounts(tmp_path)}
    assert make_server_security(NameServerConfig(acl_registration=True, **settings)).warnings == ()
    (warning,) = make_server_security(NameServerConfig(**settings)).warnings
    assert "aclRegistration" in warning


@pytest.mark.parametrize("acl_enable", [False, True])
async def test_a_repeated_registration_is_looked_at_again_where_signatures_are_checked(
    acl_enable: bool, tmp_path: Path
):
    async with asking(tmp_path, acl_enable=acl_enable, acl_file=write_accounts(tmp_path)) as asker:
        await asker.register("a")
        await asker.register("a")
        assert len(asker.server.service.registration_fast_path) == (0 if acl_enable else 1)


async def test_who_signs_and_speaks_tls_may_administer(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    settings = {
        "acl_enable": True,
        "acl_file": write_accounts(tmp_path),
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
    }
    async with asking(tmp_path, **settings) as asker:
        address, context = asker.server.address, client_context(files)
        async with AdminClient(address, credentials=ADMIN, tls=context) as admin:
            assert await admin.topic_list() == ()
        async with AdminClient(address, credentials=READER) as plain:
            with pytest.raises((ConnectionFailed, NoNameServer, RemoteRefused)):
                await plain.topic_list()


BY_BROKERS = [
    *(
        header_type(broker_name="a", broker_addr="a:1", cluster_name="c", broker_id=0)
        for header_type in (UnregisterBroker, QueryDataVersion)
    ),
    BrokerHeartbeat(broker_name="a", broker_addr="a:1", cluster_name="c"),
    RegisterTopicInNameServer(topic="t"),
]
BY_READERS = [
    GetNameServerConfig(),
    GetKvConfig(namespace="n", key="k"),
    GetKvListByNamespace(namespace="n"),
    GetHealth(),
    GetRouteHistory(),
    GetRouteDifference(at_ms=0),
]
BY_ADMINISTRATORS = [
    PutKvConfig(namespace="n", key="k", value="v"),
    DeleteKvConfig(namespace="n", key="k"),
    WipeWritePerm(broker_name="a"),
    AddWritePerm(broker_name="a"),
    DeleteTopicInNameServer(topic="t"),
    UpdateNameServerConfig(),
]
NOT_SIGNED = 16


@pytest.mark.parametrize("acl_registration", [False, True])
async def test_brokers_need_a_signature_where_that_is_wanted(acl_registration: bool, tmp_path: Path):
    settings = {"acl_enable": True, "acl_registration": acl_registration, "acl_file": write_accounts(tmp_path)}
    async with asking(tmp_path, **settings) as asker:
        for header in BY_BROKERS:
            assert ((await asker.ask(header)).code == NOT_SIGNED) is acl_registration, header
        assert ((await asker.register()).code == NOT_SIGNED) is acl_registration


async def test_each_request_needs_its_role(tmp_path: Path):
    async with asking(tmp_path, acl_enable=True, acl_file=write_accounts(tmp_path)) as asker:
        pools = {role: ConnectionPool(credentials=role) for role in (None, READER, ADMIN)}
        for headers, allowed in (
            ([GetAllTopics(), GetRouteInfo(topic="t"), GetClusterInfo()], {None, READER, ADMIN}),
            (BY_READERS, {READER, ADMIN}),
            (BY_ADMINISTRATORS, {ADMIN}),
        ):
            for header in headers:
                found = {
                    role for role, pool in pools.items() if (await asker.ask(header, pool=pool)).code != NOT_SIGNED
                }
                assert found == allowed, header
        for pool in pools.values():
            await pool.close()


class Part:
    """A part of the fast path that knows requests of one kind."""

    def __init__(self, known: bytes) -> None:
        self.known = known
        self.learnt: list[tuple[Any, ...]] = []

    def answer(self, data: bytes, answers: list[bytes], connection: Any) -> int:
        if not data.startswith(self.known):
            return 0
        answers.append(b"answer to " + self.known)
        return len(self.known)

    def learn(self, *told: Any) -> None:
        self.learnt.append(told)


@each_case(
    (b"query", 5, [b"answer to query"]),
    (b"register", 8, [b"answer to register"]),
    (b"query register", 5, [b"answer to query"]),
    (b"unknown", 0, []),
)
def test_what_either_part_knows_is_answered(data: bytes, size: int, answers: list[bytes]):
    routes, registrations = Part(b"query"), Part(b"register")
    path: Any = NameServerFastPath(routes, registrations)  # type: ignore[arg-type]
    said: list[bytes] = []
    assert path.answer(data, said, None) == size
    assert said == answers


def test_both_parts_learn_from_every_answer():
    routes, registrations = Part(b"query"), Part(b"register")
    path: Any = NameServerFastPath(routes, registrations)  # type: ignore[arg-type]
    path.learn("frame", "command", "reply")
    assert routes.learnt == registrations.learnt == [("frame", "command", "reply")]


def test_without_registrations_only_queries_are_answered_and_learnt():
    routes = Part(b"query")
    path: Any = NameServerFastPath(routes, None)  # type: ignore[arg-type]
    assert path.answer(b"register", [], None) == 0
    assert path.answer(b"query", [], None) == 5
    path.learn("frame", "command", "reply")
    assert len(routes.learnt) == 1
