"""Claims about the roles that requests need, and what stands at a broker's port."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.handlers import HANDLERS
from orbitmq.broker.housekeeping import SWEEP_MS
from orbitmq.broker.monitoring.runtime_info import WARNINGS
from orbitmq.broker.security import role_for
from orbitmq.errors import ConfigError, ConnectionFailed
from orbitmq.net.security.accounts import AccountRole
from orbitmq.net.security.tls import TlsFiles, client_context
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.header import request_type
from orbitmq.wire.headers import CreateTopic, GetBrokerRuntimeInfo, GetMaxOffset
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.signature import Credentials
from unit.broker.conftest import Harness, pull_header, send_header
from unit.net.accounts import ADMIN, FORGER, READER, STRANGER, WRITER, write_accounts
from unit.net.certificates import Authority
from waiting import until

WRITING = {10, 37, 310, 320, 324, 325, 370}
ADMINISTRATION = {
    17, 18, 25, 200, 207, 215, 220, 222, 225, 306, 309, 314, 316, 323, 329, 353, 354, 355, 401, 513, 905, 906, 908, 1008,
    2001, 2002, 2004, 200056, *range(3001, 3011),
}  # fmt: skip
CREATE = CreateTopic(
    topic="made", default_topic="x", read_queue_nums=1, write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG"
)


def test_every_request_has_its_role():
    needs = {code: role_for(code) for code in HANDLERS.codes}
    assert {code for code, role in needs.items() if role is AccountRole.ADMIN} == ADMINISTRATION & needs.keys()
    assert {code for code, role in needs.items() if role is AccountRole.WRITER} == WRITING & needs.keys()


def test_an_unforeseen_request_is_administration():
    assert role_for(4711) is AccountRole.ADMIN


def any_header(code: int) -> object:
    """Build a header with something in every field that is needed: a request that gets as far as its role."""
    kind: Any = request_type(code)
    needed = [field for field in fields(kind) if field.default is MISSING]
    return kind(**{field.name: "nothing" if field.type == "str" else 0 for field in needed})


async def test_the_table_of_codes_and_roles_holds(serve: Any, tmp_path: Path):
    may = {ADMIN: 3, WRITER: 2, READER: 1, FORGER: 0, STRANGER: 0, None: 0}

    # What is forbidden to all is refused with the same code.
    async with serve(acl_enable=True, acl_file=write_accounts(tmp_path), recall_message_enable=True) as harness:
        for credentials, rank in may.items():
            pool = harness.connect(credentials=credentials)
            for code in HANDLERS.codes:
                answer = await pool.request(harness.broker.address, any_header(code), b"body", code=code)
                is_refused = answer.code == 16 and "needs a signature with the role" in str(answer.remark)
                assert is_refused is (rank < role_for(code)), (credentials, code, answer)


async def test_an_unsigned_send_is_not_stored_however_it_is_served(serve: Any, tmp_path: Path):
    """The fast path looks at no signature: it must be out of the way."""

    async with serve(acl_enable=True, acl_file=write_accounts(tmp_path)) as harness:
        admin, writer = harness.connect(credentials=ADMIN), harness.connect(credentials=WRITER)
        assert (await admin.request(harness.broker.address, CREATE)).code == 0
        for _ in range(3):
            assert (await harness.send("made")).code == 16
            assert (await writer.request(harness.broker.address, send_header("made"), b"signed")).code == 0
        end = await admin.request(harness.broker.address, GetMaxOffset(topic="made", queue_id=0))
        assert end.ext_fields == {"offset": "3"}


async def test_without_access_control_a_signed_send_is_a_send(harness: Harness):
    pool = harness.connect(credentials=STRANGER)
    assert (await pool.request(harness.broker.address, send_header("TBW102"), b"signed")).code == 0


async def test_an_enforcing_broker_serves_whom_it_speaks_tls_with(serve: Any, tmp_path: Path):
    files = Authority(tmp_path).issue("broker")
    body = os.urandom(1_000_000)

    async with serve(**tls_settings("enforcing", files)) as harness:
        pool = harness.connect(tls=client_context(files))
        for _ in range(3):  # the first one makes the topic, the others may take the fast path
            assert (await pool.request(harness.broker.address, send_header("orders"), body)).code == 0
        pulled = await pool.request(harness.broker.address, pull_header("orders"))
        assert [record.body for record in iter_records(pulled.body)] == [body] * 3
        with pytest.raises(ConnectionFailed):
            await harness.send("orders")
        assert harness.broker.running.server.counters.closed_by_us["no TLS"] == 1


async def test_a_permissive_broker_serves_both_kinds(serve: Any, tmp_path: Path):
    files = Authority(tmp_path).issue("broker")

    async with serve(**tls_settings("permissive", files)) as harness:
        pool = harness.connect(tls=client_context(files))
        assert (await pool.request(harness.broker.address, send_header("orders"), b"x")).code == 0
        assert (await harness.send("orders")).code == 0
        assert harness.broker.running.server.counters.connections_encrypted == 1


async def test_a_held_pull_is_answered_over_tls(serve: Any, tmp_path: Path):
    files = Authority(tmp_path).issue("broker")

    async with serve(**tls_settings("enforcing", files)) as harness:
        waiting, sending = harness.connect(tls=client_context(files)), harness.connect(tls=client_context(files))
        assert (await sending.request(harness.broker.address, send_header("orders"), b"first")).code == 0
        header = pull_header("orders", queue_offset=1, sys_flag=6, suspend_timeout_ms=20_000)
        pull = asyncio.ensure_future(waiting.request(harness.broker.address, header, timeout_ms=30_000))
        await until(lambda: harness.broker.service.delivery.pulls.held_count == 1)
        assert (await sending.request(harness.broker.address, send_header("orders"), b"second")).code == 0
        assert [record.body for record in iter_records((await pull).body)] == [b"second"]


async def test_housekeeping_takes_changed_accounts_and_certificates(serve: Any, tmp_path: Path):
    authority = Authority(tmp_path)
    files = authority.issue("broker")
    accounts = write_accounts(tmp_path)
    renewed = Credentials(ADMIN.access_key, "renewed-secret")

    async with serve(acl_enable=True, acl_file=accounts, **tls_settings("enforcing", files)) as harness:
        old, new = (harness.connect(credentials=who, tls=client_context(files)) for who in (ADMIN, renewed))
        assert (await old.request(harness.broker.address, GetBrokerRuntimeInfo())).code == 0
        write_accounts(tmp_path, admin=renewed)
        authority.issue("renewed", file="broker")
        for path in filter(None, (accounts, files.certificate, files.key)):
            os.utime(path, ns=(10**18, 10**18))
        await harness.broker.running.housekeeping.do_due(SWEEP_MS)
        assert (await old.request(harness.broker.address, GetBrokerRuntimeInfo())).code == 16
        assert (await new.request(harness.broker.address, GetBrokerRuntimeInfo())).code == 0
        host, _, port = harness.broker.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=client_context(files))
        assert dict(entry[0] for entry in writer.get_extra_info("peercert")["subject"])["commonName"] == "renewed"
        writer.close()
        await writer.wait_closed()


async def test_an_open_door_is_said_at_start_and_to_who_asks(serve: Any, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        async with serve(bind_address="0.0.0.0", broker_ip1="127.0.0.1") as harness:
            values = decode_kv_table((await harness.ask(GetBrokerRuntimeInfo())).body)
            assert "aclEnable" in values[WARNINGS]
    assert "every client that reaches the port may read, send and delete messages" in caplog.text


async def test_nothing_is_said_of_a_closed_one(serve: Any, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        async with serve() as harness:
            assert WARNINGS not in decode_kv_table((await harness.ask(GetBrokerRuntimeInfo())).body)
    assert caplog.text == ""


@each_case(
    ({"tlsServerMode": "enforcin"}, "disabled or permissive or enforcing"),
    ({"tlsServerMode": "enforcing", "tlsServerKeyPath": "k"}, "the other one of the pair"),
    ({"aclEnable": "true", "aclFile": "/nowhere"}, "aclFile"),
    ({"securityFile": "/nowhere"}, "securityFile"),
)
def test_a_door_that_cannot_be_closed_keeps_the_broker_from_starting(settings: dict[str, str], named: str):
    with pytest.raises(ConfigError, match=named):
        Broker(BrokerConfig.from_mapping(settings))


def tls_settings(mode: str, files: TlsFiles) -> dict[str, str]:
    paths = {"tls_server_cert_path": str(files.certificate), "tls_server_key_path": str(files.key)}
    return {"tls_server_mode": mode, **paths}
