"""The key-value store loses nothing silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversary.support import serving
from orbitmq.wire.headers import GetKvConfig, PutKvConfig

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
