"""TLS under strain: certificates that change a thousand times at run time, and never a word in plain text."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
from pathlib import Path

import psutil
import pytest

from orbitmq.errors import ConnectionFailed
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.tls import TlsFiles, client_context
from orbitmq.wire.headers import GetClusterInfo
from unit.nameserver.support import Asker, asking
from unit.net.certificates import Authority

RELOADS = int(os.environ.get("ORBITMQ_TLS_RELOADS", "1000"))
CONNECTED_EVERY = 20
WARM_UP = 100
MEMORY_GROWTH_MAX = 5 * 1024 * 1024


@pytest.mark.proof
async def test_a_thousand_new_certificates_cost_no_memory_and_never_let_plain_text_in_s14(tmp_path: Path):
    authority = Authority(tmp_path)
    names = ("even", "odd")
    pairs = [tuple(_bytes(path) for path in _pair(authority.issue(name))) for name in names]
    files = authority.issue("server")
    settings = {
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
        "tls_server_trust_cert_path": str(files.trust),
    }
    process, context, before = psutil.Process(), client_context(files), 0
    async with asking(tmp_path, **settings) as asker:
        old = ConnectionPool(tls=context)
        for number in range(WARM_UP + RELOADS):
            if number == WARM_UP:
                before = _resident(process)
            for path, content in zip(_pair(files), pairs[number % 2], strict=True):
                path.write_bytes(content)
                os.utime(path, ns=(number, number))
            asker.server._server_security.reload_if_changed()
            if number % CONNECTED_EVERY < 2:
                assert await _certificate(asker, context) == names[number % 2]
                await _is_refused_in_plain_text(asker)
            assert (await asker.ask(GetClusterInfo(), pool=old)).code == 0
        grown = _resident(process) - before
        counters = asker.server.server.counters
        assert counters.closed_by_us["no TLS"] == counters.connections_opened - counters.connections_encrypted
        await old.close()
    assert grown < MEMORY_GROWTH_MAX, f"{grown / 2**20:.1f} MB after {RELOADS} reloads"


def _pair(files: TlsFiles) -> tuple[Path, Path]:
    assert files.certificate is not None
    assert files.key is not None
    return files.certificate, files.key


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def _resident(process: psutil.Process) -> int:
    gc.collect()
    return int(process.memory_info().rss)


async def _certificate(asker: Asker, context: ssl.SSLContext) -> str:
    """Return whose certificate a new connection is shown."""
    host, _, port = asker.server.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    subject = dict(entry[0] for entry in writer.get_extra_info("peercert")["subject"])
    writer.close()
    await writer.wait_closed()
    return str(subject["commonName"])


async def _is_refused_in_plain_text(asker: Asker) -> None:
    plain = ConnectionPool()
    try:
        await asker.ask(GetClusterInfo(), pool=plain)
    except ConnectionFailed:
        return
    finally:
        await plain.close()
    raise AssertionError("a request in plain text was answered")
