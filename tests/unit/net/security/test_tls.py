"""Claims about TLS: the three modes on one port, client certificates, and certificates that change at run time."""

from __future__ import annotations

import asyncio
import os
import ssl
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from cases import each_case
from orbitmq.errors import ConfigError, ConnectionFailed, FrameError
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.tls import ServerTls, TlsFiles, TlsMode, client_context
from orbitmq.wire.headers import GetRouteInfo

from ..certificates import Authority
from ..support import peer_of, request_frame, serving

pytestmark = pytest.mark.real


async def echo(address: str, context: ssl.SSLContext | None, topic: str = "t") -> bytes:
    pool = ConnectionPool(tls=context)
    try:
        return (await pool.request(address, GetRouteInfo(topic=topic))).body
    finally:
        await pool.close()


def touch_later(*paths: Path | None) -> None:
    for path in paths:
        assert path is not None
        seen = path.stat().st_mtime_ns
        os.utime(path, ns=(seen + 10**9, seen + 10**9))


async def test_permissive_serves_both_kinds_on_one_port(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.PERMISSIVE, files)) as server:
        assert await echo(server.address, client_context(files)) == b"t"
        assert await echo(server.address, client_context(TlsFiles(), verifies=False)) == b"t"
        assert await echo(server.address, None) == b"t"


async def test_enforcing_cuts_off_who_does_not_begin_a_handshake(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.ENFORCING, files)) as server, peer_of(server) as peer:
        await peer.send(request_frame("secret"))
        assert await peer.is_cut_off()
        assert (server.counters.closed_by_us["no TLS"], server.service.seen) == (1, [])
        assert await echo(server.address, client_context(files)) == b"t"


async def test_disabled_cuts_off_who_begins_a_handshake(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.DISABLED, files)) as server:
        with pytest.raises(ConnectionFailed):
            await echo(server.address, client_context(files))
        assert server.counters.closed_by_us["TLS"] == 1


async def test_a_client_without_a_certificate_is_refused_where_one_is_needed(tmp_path: Path):
    authority = Authority(tmp_path)
    files = authority.issue("server")
    tls = ServerTls(TlsMode.ENFORCING, files, needs_client_certificate=True)
    async with serving(tls=tls) as server:
        with pytest.raises(ConnectionFailed):
            await echo(server.address, client_context(TlsFiles(trust=files.trust)))
        assert server.service.seen == []
        assert await echo(server.address, client_context(authority.issue("client"))) == b"t"


async def test_a_new_certificate_serves_new_connections_and_old_ones_go_on(tmp_path: Path):
    authority = Authority(tmp_path)
    files = authority.issue("server")
    tls = ServerTls(TlsMode.ENFORCING, files)
    async with serving(tls=tls) as server:
        old = ConnectionPool(tls=client_context(files))
        await old.request(server.address, GetRouteInfo(topic="before"))
        assert not tls.reload_if_changed()
        authority.issue("renewed", file="server")
        touch_later(files.certificate, files.key)
        assert tls.reload_if_changed()
        assert (await old.request(server.address, GetRouteInfo(topic="after"))).body == b"after"

        host, _, port = server.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=client_context(files))
        subject = dict(entry[0] for entry in writer.get_extra_info("peercert")["subject"])
        assert subject["commonName"] == "renewed"
        writer.close()
        await writer.wait_closed()
        assert server.counters.connections_opened == 2
        await old.close()


async def test_a_client_trusts_a_certificate_that_was_renewed_in_place(tmp_path: Path):
    ours = Authority(tmp_path).self_signed()
    context = client_context(TlsFiles(trust=ours.trust))
    for _ in range(2):
        async with serving(tls=ServerTls(TlsMode.ENFORCING, ours)) as server:
            assert await echo(server.address, context) == b"t"
            with await asyncio.to_thread(BlockingConnection, server.address, tls=context) as blocking:
                assert (await asyncio.to_thread(blocking.request, GetRouteInfo(topic="t"))).body == b"t"
        ours = Authority(tmp_path).self_signed()
        touch_later(ours.trust)
    assert not context.check_hostname


async def test_a_certificate_that_is_no_longer_in_the_trust_file_is_refused(tmp_path: Path, caplog: Any):
    (tmp_path / "new").mkdir()
    old, new = Authority(tmp_path), Authority(tmp_path / "new")
    context = client_context(TlsFiles(trust=old.trust))
    async with serving(tls=ServerTls(TlsMode.ENFORCING, old.issue("server"))) as server:
        assert await echo(server.address, context) == b"t"
        old.trust.write_text("half of a certifi")
        touch_later(old.trust)
        for _ in range(2):
            assert await echo(server.address, context) == b"t", "what cannot be loaded changes nothing"
        assert caplog.text.count("stay as they were") == 1
        old.trust.write_bytes(new.trust.read_bytes())
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            await echo(server.address, context)


def test_half_a_pair_or_nothing_at_all_changes_nothing(tmp_path: Path):
    authority = Authority(tmp_path)
    files = authority.issue("server")
    tls = ServerTls(TlsMode.ENFORCING, files)
    context = tls._context
    other = authority.issue("other")
    assert files.certificate is not None and other.certificate is not None  # noqa: PT018
    files.certificate.write_bytes(other.certificate.read_bytes())
    touch_later(files.certificate)
    assert not tls.reload_if_changed()
    files.certificate.unlink()
    assert not tls.reload_if_changed()
    assert tls._context is context


@each_case(TlsMode.PERMISSIVE, TlsMode.ENFORCING)
def test_a_mode_needs_its_files(mode: TlsMode, tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    for half in (TlsFiles(certificate=files.certificate), TlsFiles(key=files.key)):
        with pytest.raises(ConfigError, match="the other one of the pair"):
            ServerTls(mode, half)
    with pytest.raises(ConfigError, match="readable file"):
        ServerTls(mode, TlsFiles(certificate=tmp_path / "missing", key=files.key))
    with pytest.raises(ConfigError, match="trust certificate"):
        ServerTls(mode, TlsFiles(certificate=files.certificate, key=files.key), needs_client_certificate=True)
    with pytest.raises(ConfigError, match="trust certificate"):
        ServerTls(mode, TlsFiles(), needs_client_certificate=True)
    with pytest.raises(ConfigError, match="a certificate with its key"):
        ServerTls(mode, TlsFiles(certificate=files.key, key=files.key))


async def test_a_server_without_files_makes_one_certificate_when_the_first_client_asks():
    tls = ServerTls(TlsMode.PERMISSIVE, TlsFiles())
    async with serving(tls=tls) as server:
        assert await echo(server.address, None) == b"t"
        assert tls.description == "permissive, with a certificate that is made when the first client asks for it"
        for _ in range(2):
            assert await echo(server.address, client_context(TlsFiles(), verifies=False)) == b"t"
            assert await certificate_of(server.address) in tls.description
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            await echo(server.address, client_context(TlsFiles()))
        assert not tls.reload_if_changed()


async def certificate_of(address: str) -> str:
    """Return the SHA-256 of a server's certificate."""
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=client_context(TlsFiles(), verifies=False))
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return sha256(found).hexdigest()


def test_a_key_of_ours_lies_in_no_file_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def look(context: ssl.SSLContext, path: str) -> None:
        modes.append(os.stat(path).st_mode & 0o777)
        load(context, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    ServerTls(TlsMode.ENFORCING, TlsFiles()).begin()
    assert (modes, list(tmp_path.iterdir())) == ([0o600], [])


def test_a_server_that_may_write_nowhere_says_why_it_speaks_no_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    tls = ServerTls(TlsMode.PERMISSIVE, TlsFiles())
    with pytest.raises(FrameError, match="No such file"):
        tls.begin()
    assert "could not pass through a temporary file" in caplog.text
    monkeypatch.setattr("orbitmq.net.security.tls.make_certificate", lambda _: pytest.fail("a second one is made"))
    for _ in range(100):
        with pytest.raises(FrameError, match="No such file"):
            tls.begin()
    assert len(caplog.messages) < 20
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls.begin()


def test_the_certificate_in_use_is_told(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    assert ServerTls(TlsMode.DISABLED, files).description == "disabled"
    assert ServerTls(TlsMode.ENFORCING, files).description == f"enforcing, with the certificate {files.certificate}"


def test_old_versions_of_tls_are_not_spoken(tmp_path: Path):
    tls = ServerTls(TlsMode.ENFORCING, Authority(tmp_path).issue("server"))
    assert tls._context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert tls._context.options & ssl.OP_NO_RENEGOTIATION


def test_a_server_without_tls_has_nothing_to_reload(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    tls = ServerTls(TlsMode.DISABLED, files)
    touch_later(files.certificate, files.key)
    assert not tls.reload_if_changed()


def test_a_client_without_trust_of_its_own_trusts_as_the_system_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trust = Authority(tmp_path).trust
    monkeypatch.setenv("SSL_CERT_FILE", str(trust))
    (authority,) = client_context(TlsFiles()).get_ca_certs()
    assert dict(entry[0] for entry in authority["subject"])["commonName"] == "test authority"
    assert client_context(TlsFiles(), verifies=False).verify_mode == ssl.CERT_NONE


def test_a_file_that_is_no_certificate_is_named_by_its_setting(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("garbage")
    bad_pair = TlsFiles(certificate=garbage, key=files.key)
    bad_trust = TlsFiles(certificate=files.certificate, key=files.key, trust=garbage)
    for bad, setting in ((bad_pair, "CertPath"), (bad_trust, "TrustCertPath")):
        with pytest.raises(ConfigError, match=f"tlsServer{setting}"):
            ServerTls(TlsMode.ENFORCING, bad)
        with pytest.raises(ConfigError, match=f"tlsClient{setting}"):
            client_context(bad)


def test_a_key_with_a_password_is_refused_and_no_user_is_asked_for_it(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    assert files.key is not None
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"password")
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    with pytest.raises(ConfigError, match=r"tlsServerKeyPath.*a key without a password"):
        ServerTls(TlsMode.ENFORCING, files)
