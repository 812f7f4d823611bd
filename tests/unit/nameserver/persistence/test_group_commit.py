"""Group commit, and the settings file that shares its writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import ConfigError, Rejected
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.persistence import config_store, group_commit
from orbitmq.nameserver.persistence.config_store import ConfigStore
from orbitmq.nameserver.persistence.group_commit import GroupCommit

from .saving import saved


class Disk:
    """Writes when it is let; holds what was saved."""

    def __init__(self) -> None:
        self.commits = GroupCommit[str, list[str]](self._save, self._publish, name="notes")
        self.began = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.writes: list[list[str]] = []
        self.visible: list[str] = []
        self.is_broken = False

    def _save(self, changes: Sequence[str]) -> list[str]:
        self.began.release()
        self.go_on.acquire()
        if self.is_broken:
            raise OSError(28, "No space left on device")
        self.writes.append(list(changes))
        return list(changes)

    def _publish(self, changes: list[str]) -> list[None]:
        self.visible += changes
        return [None] * len(changes)

    def submit(self, change: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(saved(self.commits.submit, change, len(change)))

    async def wait_until_it_writes(self) -> None:
        await asyncio.to_thread(self.began.acquire)


async def test_what_waits_during_a_write_shares_the_next_one_in_order():
    disk = Disk()
    first = disk.submit("a")
    await disk.wait_until_it_writes()
    others = [disk.submit(change) for change in "bcd"]
    await asyncio.sleep(0)
    assert disk.visible == []
    disk.go_on.release(2)
    await asyncio.gather(first, *others)
    assert (disk.writes, disk.visible) == ([["a"], ["b", "c", "d"]], ["a", "b", "c", "d"])


async def test_all_callers_whose_change_was_in_a_failed_write_is_told_and_no_other():
    disk = Disk()
    disk.is_broken = True
    lost = [disk.submit(change) for change in "ab"]
    await disk.wait_until_it_writes()
    later = disk.submit("c")
    await asyncio.sleep(0)
    disk.go_on.release()
    assert [str(error) for error in await asyncio.gather(*lost, return_exceptions=True)] == [
        "[1] notes cannot be saved: No space left on device"
    ] * 2
    await disk.wait_until_it_writes()
    disk.is_broken = False
    disk.go_on.release()
    await later
    assert disk.visible == ["c"]


async def test_an_error_of_ours_refuses_the_changes_and_the_next_ones_are_saved(monkeypatch: pytest.MonkeyPatch):
    disk = Disk()
    disk.go_on.release(2)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "writes", None)
        with pytest.raises(Rejected, match="notes cannot be saved: AttributeError"):
            await disk.submit("a")
    await disk.submit("b")
    assert disk.visible == ["b"]


async def test_closing_waits_for_what_was_asked_for_and_refuses_more():
    disk = Disk()
    first = disk.submit("a")
    await disk.wait_until_it_writes()
    second = disk.submit("b")
    await asyncio.sleep(0)
    closing = asyncio.get_running_loop().create_task(disk.commits.close())
    await asyncio.sleep(0)
    with pytest.raises(Rejected, match="notes: the server stops"):
        await disk.submit("c")
    assert not closing.done()
    disk.go_on.release(2)
    await closing
    await asyncio.gather(first, second)
    assert disk.visible == ["a", "b"]


async def test_closing_without_anything_to_save_is_nothing():
    await Disk().commits.close()


async def test_more_than_so_many_bytes_of_waiting_changes_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_commit, "WAITING_SIZE_MAX", 10)
    disk = Disk()
    first = disk.submit("in the write already")
    await disk.wait_until_it_writes()
    second = disk.submit("waiting...")
    await asyncio.sleep(0)
    with pytest.raises(Rejected, match="notes: 10 bytes of changes wait for the disk"):
        await disk.submit("too much")
    disk.go_on.release(3)
    await asyncio.gather(first, second)
    await disk.submit("again")
    assert disk.visible[-1] == "again"


class InUse:
    """Settings in use, and their store."""

    def __init__(self, folder: Path) -> None:
        self.config = NameServerConfig(config_store_path=folder / "namesrv.properties")
        self.store = ConfigStore(lambda: self.config, self.use)

    def use(self, config: NameServerConfig) -> None:
        assert f"enableTopicList={str(config.enable_topic_list).lower()}" in config.config_store_path.read_text()
        self.config = config


async def test_two_requests_that_share_a_write_both_count(tmp_path: Path):
    it = InUse(tmp_path)
    await asyncio.gather(
        saved(it.store.change, {"enableTopicList": "false"}), saved(it.store.change, {"waitSecondsForService": "7"})
    )
    assert (it.config.enable_topic_list, it.config.wait_seconds_for_service) == (False, 7)
    assert not (tmp_path / "namesrv.properties.bak").exists()
    await it.store.close()


async def test_a_value_out_of_its_range_is_refused_immediately(tmp_path: Path):
    it = InUse(tmp_path)
    with pytest.raises(ConfigError, match="waitSecondsForService"):
        it.store.change({"waitSecondsForService": "-1"}, lambda error: None)
    assert list(tmp_path.iterdir()) == []


async def test_settings_that_cannot_be_saved_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    it = InUse(tmp_path)
    before = it.config

    def refuse(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(config_store, "replace_file", refuse)
    with pytest.raises(Rejected, match="the settings cannot be saved: No space"):
        await saved(it.store.change, {"enableTopicList": "false"})
    assert it.config is before
