"""Our own administrator's client, signed and over TLS, against a NameServer that asks for both."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConnectionFailed, NoNameServer, RemoteRefused
from orbitmq.net.security.tls import client_context

from ..net.accounts import ADMIN, READER, write_accounts
from ..net.certificates import Authority
from .support import asking


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
