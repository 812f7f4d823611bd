"""A NameServer shows itself where it asks others: in shadow mode, and when it tells brokers of each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq.nameserver.routing.events import MinIdNotice
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.net.security.tls import ServerTls, TlsMode
from orbitmq.net.server import Server
from orbitmq.wire.command import Command
from orbitmq.wire.headers import NotifyMinBrokerIdChange
from orbitmq.wire.signature import is_signed_by

from ..net.accounts import ADMIN
from ..net.certificates import Authority
from .support import asking

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
            asker.server._notify(
                MinIdNotice("b", 1, "b:10911", None, None, (broker.address,), needs_acting_master=True)
            )
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
