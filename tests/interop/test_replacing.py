"""A Java NameServer is replaced by ours: docs/howto/replace-a-java-nameserver.md, step by step."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.peers import JavaBroker, JavaNameServer, ask, message
from orbitmq.codes import RequestCode
from orbitmq.testing.processes import ServerProcess


def orbitmq(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbitmq", *words], capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def our_name_server(home: Path, **properties: object) -> Iterator[str]:
    settings = {"bindAddress": "127.0.0.1", "listenPort": 0, "kvConfigPath": home / "kv.json", **properties}
    server = ServerProcess("nameserver", {key: str(value) for key, value in settings.items()}, home)
    asyncio.run(server.start())
    try:
        yield server.address
    finally:
        asyncio.run(server.kill())


def shadow_of(address: str) -> dict:
    servers = json.loads(orbitmq("health", "-n", address, "-o", "json").stdout)
    (health,) = [server for server in servers if "broker" not in server]
    return health["shadow"]


@pytest.mark.proof
def test_no_java_broker_client_or_tool_notices(jars, java, tmp_path, name):
    old = JavaNameServer(tmp_path / "old")
    with old, our_name_server(tmp_path / "beside", shadowAddress=old.address, shadowIntervalSeconds=1) as shadow:
        broker = JavaBroker(
            tmp_path / "broker", f"{old.address};{shadow}", properties={"registerNameServerPeriod": 10_000}
        )
        with broker:
            producer = java.producer("makers", old.address)
            consumer = java.consumer("takers", old.address, name)
            producer.send(message(name, b"before"))
            consumer.wait_for_messages(1)

            # A week of shadow mode, in short: both know the same.
            java.wait_for(lambda: is_equal(shadow_of(shadow)), "shadow mode to see no difference")
            assert orbitmq("route", "compare", "-n", f"{old.address};{shadow}").returncode == 0

            old.kill()
            with our_name_server(tmp_path / "new", listenPort=old.port) as address:
                producer.send(message(name, b"on a cached route"))
                java.wait_for(lambda: knows(address, broker.address), "the broker's next registration")
                producer.send(message(name, b"after"))
                consumer.wait_for_messages(3)
                assert "java-broker" in java.mqadmin("clusterList", "-n", address)
                assert name in java.mqadmin("topicList", "-n", address)
                assert orbitmq("health", "-n", address).returncode == 0
                assert "broker joined" in orbitmq("route", "history", "-n", address).stdout
            producer.stop()
            consumer.stop()
            broker.kill()


def knows(name_server: str, broker_address: str) -> bool:
    return broker_address.encode() in ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO)[1]


def is_equal(shadow: dict) -> bool:
    return shadow["up"] and shadow["differences"] == 0 and shadow["ownDigest"] == shadow["otherDigest"]
