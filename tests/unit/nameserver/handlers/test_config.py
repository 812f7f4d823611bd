"""Claims about settings that are read and changed from afar."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.nameserver.handlers.config import PROPERTIES_SIZE_MAX
from orbitmq.wire.headers import (
    GetNameServerConfig,
    GetUnitTopics,
    UpdateNameServerConfig,
)

from ..support import asking

pytestmark = pytest.mark.real


async def test_settings_are_listed_changed_and_saved(tmp_path: Path):
    async with asking(tmp_path) as asker:
        body = b"enableTopicList=false\nscanNotActiveBrokerInterval=10000\nunknown=1\nserverWorkerThreads=4\n"
        assert (await asker.ask(UpdateNameServerConfig(), body)).code == 0
        assert (await asker.ask(UpdateNameServerConfig())).code == 0
        lines = (await asker.ask(GetNameServerConfig())).body.decode().splitlines()
        assert lines == sorted(lines)
        assert {"enableTopicList=false", "scanNotActiveBrokerInterval=10000"} <= set(lines)
        assert (await asker.ask(GetUnitTopics())).remark == "disable"
        saved = (tmp_path / "namesrv.properties").read_text()
        assert "scanNotActiveBrokerInterval=10000" in saved
        assert "unknown" not in saved
        assert (await asker.ask(UpdateNameServerConfig(), b"enableTopicList=true")).code == 0
        assert (await asker.ask(GetUnitTopics())).code == 0
        assert "enableTopicList=false" in (tmp_path / "namesrv.properties.bak").read_text()


@pytest.mark.parametrize(
    "key", ["configStorePath", "kvConfigPath", "rocketmqHome", "configBlackList", "bindAddress", "listenPort"]
)
async def test_no_remote_value_reaches_a_path_cve_2023_37582(key: str, tmp_path: Path):
    async with asking(tmp_path) as asker:
        before = asker.server.service.config
        body = f"enableTopicList=false\n{key}={tmp_path}/owned".encode()
        answer = await asker.ask(UpdateNameServerConfig(), body)
        assert (answer.code, answer.remark) == (16, "Can not update config in black list.")
        assert asker.server.service.config == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [
        b"enableTopicList=yes",
        b"waitSecondsForService=-1",
        b"waitSecondsForService=1e9",
        b"scanNotActiveBrokerInterval=`id`",
        b"scanNotActiveBrokerInterval=5\\u000akvConfigPath=/x",
        b"enableTopicList=$(id)",
        b"enableTopicList=false\nserverWorkerThreads=`id`",
        b"\\uZZZZ",
        b"\xff\xfe",
    ],
    ids=str,
)
async def test_a_value_out_of_its_range_is_refused_cve_2023_33246(body: bytes, tmp_path: Path):
    async with asking(tmp_path) as asker:
        before = asker.server.service.config
        assert (await asker.ask(UpdateNameServerConfig(), body)).code == 1
        assert asker.server.service.config == before
    assert list(tmp_path.iterdir()) == []


async def test_a_configured_black_list_counts_too(tmp_path: Path):
    async with asking(tmp_path, config_black_list="enableTopicList; orderMessageEnable") as asker:
        for body in (b"enableTopicList=false", b"orderMessageEnable=true"):
            assert (await asker.ask(UpdateNameServerConfig(), body)).code == 16
        assert (await asker.ask(UpdateNameServerConfig(), b"enableAllTopicList=true")).code == 0


async def test_properties_of_megabytes_are_refused_unread(tmp_path: Path):
    async with asking(tmp_path) as asker:
        for size in (PROPERTIES_SIZE_MAX, PROPERTIES_SIZE_MAX + 1):
            body = b"enableTopicList=false".ljust(size, b"\n")
            answer = await asker.ask(UpdateNameServerConfig(), body)
            assert answer.code == (0 if size == PROPERTIES_SIZE_MAX else 1)


async def test_settings_that_cannot_be_saved_are_not_changed(tmp_path: Path):
    async with asking(tmp_path) as asker:
        (tmp_path / "namesrv.properties").mkdir()
        before = asker.server.service.config
        answer = await asker.ask(UpdateNameServerConfig(), b"enableTopicList=false")
        assert answer.code == 1
        assert (answer.remark or "").startswith("the settings cannot be saved: ")
        assert asker.server.service.config == before
