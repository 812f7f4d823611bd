from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.wire.bodies.groups import GroupConfig, decode_group_config, decode_group_table, encode_group_config
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.headers import (
    CloneGroupOffsets,
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetSubscriptionGroup,
    HeartbeatRequest,
    UpdateConsumerOffset,
    UpdateForbiddenTopics,
    UpdateSubscriptionGroup,
    UpdateSubscriptionGroups,
)

from ..conftest import Harness
from ..parts import Serve


async def test_group_settings_are_made_listed_and_forgotten(harness: Harness) -> None:
    config = GroupConfig(
        group="g", retry_times_max=3, extra={"attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}}
    )
    assert await harness.code(UpdateSubscriptionGroup(), encode_group_config(config)) == 0
    assert decode_group_config((await harness.ask(GetSubscriptionGroup(group="g"))).body) == config
    assert decode_group_table((await harness.ask(GetAllSubscriptionGroups())).body).groups["g"] == config
    assert await harness.code(UpdateSubscriptionGroup(), b'{"groupName":"a b"}') == 29
    assert await harness.code(UpdateSubscriptionGroup(), b'{"groupName":"g","retryQueueNums":99999999}') == 29
    assert await harness.code(UpdateSubscriptionGroup(), b'{"groupName":"g","retryQueueNums":-1}') == 29
    await harness.send("t")
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1))
    ordered = harness.broker.service.delivery.pop.ordered
    ordered.give(("t", "g", 0), [0], 1, 60_000, None)
    assert await harness.code(DeleteSubscriptionGroup(group_name="g", clean_offset=True)) == 0
    assert ordered.count == 0
    assert harness.broker.service.tables.groups.configs.get("g") is None
    assert harness.broker.service.tables.offsets.query("g", "t", 0) == -1


async def test_who_asks_for_a_new_groups_settings_makes_it_where_groups_are_made_by_asking(
    harness: Harness, serve: Serve, tmp_path: Path
) -> None:
    assert decode_group_config((await harness.ask(GetSubscriptionGroup(group="new"))).body).group == "new"
    assert harness.broker.service.tables.groups.configs.get("new") is not None
    assert await harness.code(GetSubscriptionGroup(group="a b")) == 26
    async with serve(auto_create_subscription_group=False, store_path_root_dir=tmp_path / "other") as other:
        assert await other.code(GetSubscriptionGroup(group="new")) == 26


async def test_groups_made_by_asking_share_their_writes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    service = harness.broker.service
    monkeypatch.setattr(service.tables.groups, "_save", lambda configs: pytest.fail("written while the loop waits"))
    version = service.tables.groups.configs.version.counter
    names = [f"new-{number}" for number in range(50)]
    answers = await asyncio.gather(*(harness.ask(GetSubscriptionGroup(group=name)) for name in names))
    assert [decode_group_config(answer.body).group for answer in answers] == names
    assert service.tables.groups.configs.version.counter == version + len(names)


async def test_a_group_that_the_disk_does_not_take_is_answered_with_what_a_new_one_has(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
    answer = await harness.ask(GetSubscriptionGroup(group="new"))
    assert (answer.code, decode_group_config(answer.body).retry_times_max) == (0, 16)
    assert harness.broker.service.tables.groups.configs.get("new") is None


async def test_a_groups_retries_may_have_from_no_queue_to_a_thousand(harness: Harness) -> None:
    for count, code in ((0, 0), (1024, 0), (1025, 29), (-1, 29)):
        config = GroupConfig(group="g", retry_queue_count=count)
        assert await harness.code(UpdateSubscriptionGroup(), encode_group_config(config)) == code


async def test_many_groups_are_made_together_or_none(harness: Harness) -> None:
    groups = {"groupConfigList": [{"groupName": "g", "retryMaxTimes": 3}, {"groupName": "h"}]}
    assert await harness.code(UpdateSubscriptionGroups(), orjson.dumps(groups)) == 0
    configs = harness.broker.service.tables.groups.configs
    assert configs.get("g").retry_times_max == 3
    assert configs.get("h").retry_times_max == 16
    groups["groupConfigList"] = [{"groupName": "new"}, {"groupName": "a b"}]
    assert await harness.code(UpdateSubscriptionGroups(), orjson.dumps(groups)) == 29
    assert configs.get("new") is None
    times = harness.broker.service.monitoring.group_creations.times_ms
    assert {end: found.count for end, found in times.items()} == {"success": 1, "failure": 1}


async def test_of_too_many_groups_in_one_request_none_is_made(serve: Serve) -> None:
    async with serve(groups_max=100) as harness:
        configs = harness.broker.service.tables.groups.configs
        before, version = dict(configs.all), configs.version
        groups = {"groupConfigList": [{"groupName": f"g{number}"} for number in range(101)]}
        assert await harness.code(UpdateSubscriptionGroups(), orjson.dumps(groups)) == 1
        assert (dict(configs.all), configs.version) == (before, version)


@each_case({"consumeEnable": 1}, {"consumeEnable": "true"}, {"retryMaxTimes": " 5 "})
async def test_settings_of_another_kind_are_refused(settings: dict[str, Any], harness: Harness) -> None:
    body = orjson.dumps({"groupName": "g"} | settings)
    assert await harness.code(UpdateSubscriptionGroup(), body) == 1
    assert await harness.code(UpdateSubscriptionGroups(), b'{"groupConfigList":[' + body + b"]}") == 1
    for listed in (b"{}", b'{"groupConfigList":null}', b'{"groupConfigList":{}}'):
        assert await harness.code(UpdateSubscriptionGroups(), listed) == 1


async def test_groups_have_no_attributes(harness: Harness) -> None:
    assert await harness.code(UpdateSubscriptionGroup(), b'{"groupName":"g","attributes":{}}') == 0
    assert await harness.code(UpdateSubscriptionGroup(), b'{"groupName":"g","attributes":{"+a":"b"}}') == 1


async def test_a_group_can_be_forbidden_to_read_a_topic(serve: Serve) -> None:
    def forbid(topic: str, readable: bool | None = None) -> UpdateForbiddenTopics:
        return UpdateForbiddenTopics(group="g", topic=topic, readable=readable)

    async with serve() as harness:
        await harness.make_group()
        await harness.send("t")
        consumer = ConsumerInfo(group="g", subscriptions=(Subscription(topic="t"),))
        await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(consumer,))))
        assert orjson.loads((await harness.ask(forbid("t"))).body) == {"group": "g", "topic": "t", "readable": True}
        assert orjson.loads((await harness.ask(forbid("t", False))).body)["readable"] is False
        assert orjson.loads((await harness.ask(forbid("u", False))).body)["readable"] is False
        # As in Java, a pull that brings its own subscription is not asked.
        answer, _ = await harness.pull("t", sys_flag=0)
        assert (answer.code, answer.remark) == (16, "the consumer group[g] is forbidden for topic[t]")
        assert orjson.loads((await harness.ask(forbid("t", True))).body)["readable"] is True
        assert (await harness.pull("t", sys_flag=0))[0].code == 0
        for bad in ("a b", "x" * 128):
            assert await harness.code(forbid(bad, False)) == 29
    async with serve() as harness:
        assert harness.broker.service.tables.groups.configs.forbidden == {"g": {"u": 4}}


async def test_a_group_gets_a_copy_of_anothers_offsets(harness: Harness) -> None:
    await harness.make_group()
    for topic in ("t", "u"):
        await harness.send(topic)
        await harness.ask(UpdateConsumerOffset(consumer_group="g", topic=topic, queue_id=0, commit_offset=1))
    offsets = harness.broker.service.tables.offsets
    assert await harness.code(CloneGroupOffsets(src_group="g", dest_group="twin", topic="t")) == 0
    assert [offsets.query("twin", topic, 0) for topic in ("t", "u")] == [1, -1]
    assert await harness.code(CloneGroupOffsets(src_group="g", dest_group="all")) == 0
    assert [offsets.query("all", topic, 0) for topic in ("t", "u")] == [1, 1]
    assert await harness.code(CloneGroupOffsets(src_group="g", dest_group="a b", topic="t")) == 29
    assert await harness.code(CloneGroupOffsets(src_group="none", dest_group="h", topic="t")) == 0


@pytest.mark.parametrize(("offline", "offset"), [(False, -1), (True, 1)])
async def test_a_topic_that_a_group_has_given_up_is_copied_when_it_is_said_to_be_offline(
    harness: Harness, offline: bool, offset: int
) -> None:

    await harness.make_group()
    await harness.send("t")
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1))
    consumer = ConsumerInfo(group="g", subscriptions=(Subscription(topic="u"),))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(consumer,))))
    await harness.ask(CloneGroupOffsets(src_group="g", dest_group="twin", topic="t", offline=offline))
    assert harness.broker.service.tables.offsets.query("twin", "t", 0) == offset
