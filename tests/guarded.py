"""A NameServer and a broker of ours behind TLS and signatures, in a thread of their own: clients without a signature get nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.client.loop_thread import LoopThread
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.security.client_security import ClientSecurity, load_security
from unit.net.certificates import Authority

SECRETS = {"admin": "the-operators-secret", "writer": "the-producers-secret", "reader": "the-consumers-secret"}
"""By role; an account's access key is its role and "-key"."""


@dataclass(frozen=True)
class GuardedCluster:
    """The running cluster, and the folder with the files of all clients."""

    folder: Path
    background: LoopThread
    name_server: NameServer
    broker: Broker

    @property
    def name_servers(self) -> str:
        return self.name_server.address

    def security_file(self, role: str) -> Path:
        """Return the file of a client with this role; `nobody` speaks TLS and signs nothing."""
        return self.folder / f"{role}.properties"

    def security(self, role: str) -> ClientSecurity:
        return load_security(self.security_file(role))

    def encrypted_count(self) -> tuple[int, int]:
        """Return how many connections have spoken TLS so far: with the NameServer, with the broker."""
        servers = (self.name_server.server, self.broker.running.server)
        name_server, broker = self.background.apply(
            lambda: [server.counters.connections_encrypted for server in servers]
        )
        return name_server, broker


@contextmanager
def guarded_cluster(folder: Path) -> Iterator[GuardedCluster]:
    """Run a cluster in which every connection is encrypted and every request has to be signed."""
    files = Authority(folder).issue("server")
    entries = [{"accessKey": f"{role}-key", "secretKey": secret, "role": role} for role, secret in SECRETS.items()]
    accounts = _private(folder / "accounts.json", json.dumps({"accounts": entries}))
    for role, secret in {**SECRETS, "nobody": ""}.items():
        signing = f"accessKey={role}-key\nsecretKey={secret}\n" if secret else ""
        _private(folder / f"{role}.properties", f"{signing}tlsEnable=true\ntlsClientTrustCertPath=trust.pem\n")
    guard: dict[str, Any] = {
        "bind_address": "127.0.0.1",
        "listen_port": 0,
        "acl_enable": True,
        "acl_file": accounts,
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
        "security_file": str(folder / "admin.properties"),
    }
    paths: dict[str, Any] = {
        "kv_config_path": folder / "kvConfig.json",
        "config_store_path": folder / "namesrv.properties",
    }
    background = LoopThread("guarded cluster")
    try:
        name_server = background.apply(lambda: NameServer(NameServerConfig(acl_registration=True, **guard, **paths)))
        background.call(name_server.start())
        config = BrokerConfig(
            namesrv_addr=name_server.address, broker_name="guarded", store_path_root_dir=folder / "store",
            mapped_file_size_commit_log=8 * 1024 * 1024, mapped_file_size_consume_queue=20_000, **guard,
        )  # fmt: skip
        broker = background.apply(lambda: Broker(config))
        try:
            background.call(broker.start())
            yield GuardedCluster(folder, background, name_server, broker)
        finally:
            background.call(broker.stop())
            background.call(name_server.stop())
    finally:
        background.stop()


def _private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path
