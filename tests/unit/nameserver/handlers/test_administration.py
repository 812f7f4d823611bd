"""Settings, key-values, health and history, over a connection."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from orbitmq.errors import RemoteRefused
from orbitmq.nameserver.handlers.administration import PROPERTIES_SIZE_MAX
from orbitmq.wire import headers
from orbitmq.wire.headers import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvListByNamespace,
    GetNameServerConfig,
    GetUnitTopics,
    PutKvConfig,
    UpdateNameServerConfig,
)
from unit.nameserver.support import Asker, asking
from unit.nameserver.talk import BODY, BROKER, talking

pytestmark = pytest.mark.real


async def test_settings_are_listed_changed_and_saved(asker: Asker, tmp_path: Path):
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


async def test_properties_of_megabytes_are_refused_unread(asker: Asker):
    for size in (PROPERTIES_SIZE_MAX, PROPERTIES_SIZE_MAX + 1):
        body = b"enableTopicList=false".ljust(size, b"\n")
        answer = await asker.ask(UpdateNameServerConfig(), body)
        assert answer.code == (0 if size == PROPERTIES_SIZE_MAX else 1)


async def test_settings_that_cannot_be_saved_are_not_changed(asker: Asker, tmp_path: Path):
    (tmp_path / "namesrv.properties").mkdir()
    before = asker.server.service.config
    answer = await asker.ask(UpdateNameServerConfig(), b"enableTopicList=false")
    assert answer.code == 1
    assert (answer.remark or "").startswith("the settings cannot be saved: ")
    assert asker.server.service.config == before


async def test_key_values(asker: Asker):
    absent = await asker.ask(GetKvConfig(namespace="n", key="k"))
    assert (absent.code, absent.remark) == (22, "No config item, Namespace: n Key: k")
    nothing = await asker.ask(GetKvListByNamespace(namespace="n"))
    assert (nothing.code, nothing.remark) == (22, "No config item, Namespace: n")
    assert (await asker.ask(PutKvConfig(namespace="n", key="k", value="v"))).code == 0
    assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).ext_fields == {"value": "v"}
    assert orjson.loads((await asker.ask(GetKvListByNamespace(namespace="n"))).body) == {"table": {"k": "v"}}
    refused = await asker.ask(PutKvConfig(key="k", value="v"))
    assert (refused.code, refused.remark) == (1, "namespace or key is null")
    await asker.ask(PutKvConfig(namespace="n", key="k"))
    assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).code == 22
    assert (await asker.ask(DeleteKvConfig(namespace="n", key="k"))).code == 0
    assert orjson.loads((await asker.ask(GetKvListByNamespace(namespace="n"))).body) == {"table": {}}


async def test_key_values_survive_a_restart(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.ask(PutKvConfig(namespace="n", key="k", value="v"))
    async with asking(tmp_path) as asker:
        assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).ext_fields == {"value": "v"}


async def test_history_and_difference_are_answered():
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        await talk.ask(headers.DeleteTopicInNameServer(topic="t"))
        events = orjson.loads(await talk.ask(headers.GetRouteHistory(topic="t")))
        page = orjson.loads((await talk.get("/routes/history?topic=t"))[1])
        difference = orjson.loads(await talk.ask(headers.GetRouteDifference(at_ms=0)))
    assert [event["cause"] for event in events] == ["topic deletion", "registration"]
    assert events[0]["remote"].startswith("127.0.0.1:")
    assert page == events
    assert [topic["topic"] for topic in difference["topics"]] == ["u"]


@pytest.mark.parametrize("count_max", [0, 1001, -1])
async def test_a_history_of_too_many_events_is_refused(count_max):
    async with talking() as talk:
        with pytest.raises(RemoteRefused, match="maxNum"):
            await talk.ask(headers.GetRouteHistory(count_max=count_max))


@pytest.mark.parametrize("count_max", [1, 1000])
async def test_a_history_of_one_to_a_thousand_events_is_answered(count_max):
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        assert len(orjson.loads(await talk.ask(headers.GetRouteHistory(count_max=count_max)))) == min(count_max, 2)
