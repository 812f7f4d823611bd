"""Claims about who may ask for what. Every code by everybody is in `hostile/requests.py`."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConnectionFailed, NoNameServer, RemoteRefused
from orbitmq.nameserver.acl import make_server_security
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.tls import client_context
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
    PutKvConfig,
    QueryDataVersion,
    RegisterTopicInNameServer,
    UnregisterBroker,
    UpdateNameServerConfig,
    WipeWritePerm,
)
from orbitmq.wire.signature import Credentials

from ..net.accounts import ADMIN, FORGER, READER, STRANGER, write_accounts
from ..net.certificates import Authority
from ..net.support import peer_of
from .support import asking

pytestmark = pytest.mark.real


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
async def test_a_repeated_registration_is_looked_at_anew_where_signatures_are_checked(acl_enable: bool, tmp_path: Path):
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
