"""Java's mqadmin with its ACL hook, and a Java broker, both over TLS, against a NameServer of ours that asks for signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.served import Served, serving
from interop.peers import JavaBroker, JavaClients
from orbitmq.nameserver.routing.values import BrokerKey
from unit.net.certificates import Authority

_PROVIDERS = "org.apache.rocketmq.auth.authentication.provider"
ACCOUNTS = {
    "admin": {"accessKey": "operator", "secretKey": "operators-secret", "role": "admin"},
    "reader": {"accessKey": "auditor", "secretKey": "auditors-secret", "role": "reader"},
    "forger": {"accessKey": "operator", "secretKey": "somebody-elses"},
}


@pytest.fixture(scope="module")
def guarded(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("guarded")
    files = Authority(root).issue("nameserver")
    accounts = root / "accounts.json"
    accounts.touch(0o600)
    accounts.write_text(json.dumps({"accounts": [ACCOUNTS["admin"], ACCOUNTS["reader"]]}))
    # Permissive: the helper that waits for the Java broker asks in plain text.
    tls = {"mode": "permissive", "cert_path": str(files.certificate), "key_path": str(files.key)}
    settings = {f"tls_server_{name}": value for name, value in tls.items()}
    with serving(root, acl_enable=True, acl_registration=True, acl_file=accounts, **settings) as served:
        yield served


@pytest.fixture(scope="module", params=ACCOUNTS)
def mqadmin(request: pytest.FixtureRequest, jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """An mqadmin that reads its account from conf/tools.yml, as operators set it up, and its TLS from the JVM's options."""
    home = tmp_path_factory.mktemp("mqadmin")
    account = ACCOUNTS[request.param]
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text(f"accessKey: {account['accessKey']}\nsecretKey: {account['secretKey']}\n")
    clients = JavaClients(home, jvm=("-Dtls.enable=true",))
    yield request.param, clients
    clients.close()


def test_java_signatures_open_what_their_role_may(guarded: Served, mqadmin: tuple[str, JavaClients]):
    role, java = mqadmin
    name_server = ("-n", guarded.address)
    before = _encrypted(guarded)
    java.mqadmin("updateKvConfig", *name_server, "-s", "namespace", "-k", role, "-v", "written")
    config = java.mqadmin("getNamesrvConfig", *name_server)
    written = guarded.apply(guarded.server.service.kv.get, "namespace", role)

    assert written == ("written" if role == "admin" else None)
    assert ("aclEnable" in config) is (role != "forger")
    assert _encrypted(guarded) > before


@pytest.mark.proof
def test_a_java_broker_registers_with_its_signature_over_tls(guarded: Served, tmp_path: Path):
    account = ACCOUNTS["admin"]
    credentials = json.dumps({name: account[name] for name in ("accessKey", "secretKey")})
    broker = JavaBroker(
        tmp_path,
        guarded.address,
        properties={
            "innerClientAuthenticationCredentials": credentials,
            # Java keeps the broker's own account with its users, and wants a place for them.
            "authenticationMetadataProvider": f"{_PROVIDERS}.LocalAuthenticationMetadataProvider",
            "authConfigPath": tmp_path / "auth",
        },
        jvm=("-Dtls.enable=true",),
    )
    before = _encrypted(guarded)
    try:
        broker.start()
        lease = guarded.apply(
            guarded.server.service.tables.lease_of, BrokerKey(broker.cluster, broker.name, broker.address)
        )
        assert lease is not None
        assert _encrypted(guarded) > before
    finally:
        broker.kill()


def _encrypted(guarded: Served) -> int:
    """Return how many connections have spoken TLS so far."""
    return guarded.apply(lambda: guarded.server.server.counters.connections_encrypted)
