"""The key-value store loses nothing silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.served import serving
from orbitmq.wire.headers import GetKvConfig, GetKvListByNamespace, PutKvConfig

DAMAGE = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4'

pytestmark = pytest.mark.usefixtures("without_collections")


def put(key: str, value: str = "1") -> PutKvConfig:
    return PutKvConfig(namespace="space", key=key, value=value)


def test_damaged_generations_are_kept_aside_whatever_is_put_afterwards(tmp_path: Path) -> None:
    for name in ("kvConfig.json", "kvConfig.json.bak"):
        (tmp_path / name).write_bytes(DAMAGE + name.encode())
    with serving(tmp_path) as served, served.link() as link:
        for number in range(3):
            assert link.ask(put(f"key-{number}")).code == 0
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert contents >= {DAMAGE + b"kvConfig.json", DAMAGE + b"kvConfig.json.bak"}


def test_a_damaged_file_whose_backup_serves_is_kept_aside_too(tmp_path: Path) -> None:
    (tmp_path / "kvConfig.json").write_bytes(DAMAGE)
    (tmp_path / "kvConfig.json.bak").write_bytes(b'{"configTable":{"space":{"old":"1"}}}')
    with serving(tmp_path) as served, served.link() as link:
        for number in range(3):
            assert link.ask(put(f"key-{number}")).code == 0
        assert link.ask(GetKvConfig(namespace="space", key="old")).code == 0
    assert DAMAGE in {path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("character", [pytest.param("v", marks=pytest.mark.proof), "\x01"])
def test_ordered_topics_that_a_stranger_adds_keep_no_broker_from_registering(character: str, tmp_path: Path) -> None:
    """Every registration is answered with all of them: beyond a frame, each broker hangs up and leaves the routes."""
    value = character * 40_000
    with serving(tmp_path) as served, served.link() as link, served.link() as broker:
        asked = [
            link.send(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key=f"topic-{number}", value=value))
            for number in range(500 if character == "v" else 100)
        ]
        codes = [link.receive(opaque).code for opaque in asked]
        broker.register("a")
        assert link.ask(GetKvListByNamespace(namespace="ORDER_TOPIC_CONFIG")).code == 0
    assert {0, 1} <= set(codes)
