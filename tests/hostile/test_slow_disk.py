"""A slow disk delays only those whose changes it writes, and an answered change is there after a kill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.served import TIMEOUT_S, Child, heartbeat_of, serving
from orbitmq import files
from orbitmq.wire.headers import DeleteKvConfig, GetKvConfig, GetNameServerConfig, PutKvConfig, UpdateNameServerConfig

GET = GetKvConfig(namespace="space", key="key")
CHANGES = {
    "a value is set": (PutKvConfig(namespace="space", key="key", value="new"), b""),
    "a value is deleted": (DeleteKvConfig(namespace="space", key="key"), b""),
    "a setting is changed": (UpdateNameServerConfig(), b"waitSecondsForService=7"),
}


class SlowDisk:
    """Holds writes up at their end, from `stop` on until `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_quick = threading.Event()
        self._is_quick.set()
        self._began = threading.Event()
        self._sync = files._sync_directory
        monkeypatch.setattr(files, "_sync_directory", self._wait)

    def stop(self) -> None:
        self._began.clear()
        self._is_quick.clear()

    def wait_for_a_write(self) -> None:
        assert self._began.wait(TIMEOUT_S)

    def go_on(self) -> None:
        self._is_quick.set()

    def _wait(self, directory: Path) -> None:
        self._began.set()
        self._is_quick.wait(TIMEOUT_S)
        self._sync(directory)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow = SlowDisk(monkeypatch)
    yield slow
    slow.go_on()


@pytest.mark.parametrize("what", CHANGES)
def test_queries_and_heartbeats_are_answered_while_a_change_is_written(
    what: str, disk: SlowDisk, tmp_path: Path
) -> None:
    with serving(tmp_path) as served, served.link() as operator, served.link() as broker:
        broker.register("a")
        operator.ask(PutKvConfig(namespace="space", key="key", value="old"))
        before = broker.ask(GetNameServerConfig()).body
        disk.stop()
        asked = operator.send(*CHANGES[what])
        disk.wait_for_a_write()
        assert broker.route("T1") is not None
        assert broker.ask(heartbeat_of("a")).code == 0
        # What a power cut may still take back is not shown.
        assert broker.ask(GET).ext_fields == {"value": "old"}
        assert broker.ask(GetNameServerConfig()).body == before
        disk.go_on()
        assert operator.receive(asked).code == 0
        kept = (broker.ask(GET).ext_fields or {}).get("value")
        assert kept == {"a value is set": "new", "a value is deleted": None, "a setting is changed": "old"}[what]
        assert (broker.ask(GetNameServerConfig()).body != before) is (what == "a setting is changed")


def test_changes_that_wait_for_the_disk_share_a_write_and_keep_their_order(disk: SlowDisk, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as operator:
        disk.stop()
        first = operator.send(PutKvConfig(namespace="space", key="key", value="first"))
        disk.wait_for_a_write()
        others = [operator.send(PutKvConfig(namespace="space", key="key", value=f"{number}")) for number in range(50)]
        operator.ask(GetNameServerConfig())  # all are there
        disk.go_on()
        assert {operator.receive(opaque).code for opaque in (first, *others)} == {0}
        assert operator.ask(GET).ext_fields == {"value": "49"}
    assert b"first" in (tmp_path / "kvConfig.json.bak").read_bytes()


def test_a_stop_waits_for_the_write_and_its_answer(disk: SlowDisk, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        operator = served.link()
        disk.stop()
        asked = operator.send(PutKvConfig(namespace="space", key="key", value="new"))
        disk.wait_for_a_write()
        threading.Timer(0.1, disk.go_on).start()
    with operator:
        assert operator.receive(asked).code == 0
    assert b"new" in (tmp_path / "kvConfig.json").read_bytes()


def test_whatever_was_answered_is_there_after_a_kill_in_the_midst_of_writes(tmp_path: Path) -> None:
    with Child(tmp_path) as child, child.link() as operator:
        asked = [
            operator.send(PutKvConfig(namespace="space", key=f"key-{number}", value="v" * 10_000))
            for number in range(200)
        ]
        for opaque in asked[:50]:
            assert operator.receive(opaque).code == 0
    with Child(tmp_path) as child, child.link() as operator:
        for number in range(50):
            assert operator.ask(GetKvConfig(namespace="space", key=f"key-{number}")).code == 0, number
