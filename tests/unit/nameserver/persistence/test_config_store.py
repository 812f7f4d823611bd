"""Claims about the settings file: what counts is on disk, and requests that share a write are judged one by one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import ConfigError, Rejected
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.persistence import config_store
from orbitmq.nameserver.persistence.config_store import ConfigStore

from .saving import saved


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


async def test_a_value_out_of_its_range_is_refused_at_once(tmp_path: Path):
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
