from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.wire.bodies.groups import GroupConfig, decode_group_config, decode_group_table, encode_group_config
from orbitmq.wire.headers import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetSubscriptionGroup,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
)

Serve = Callable[..., None]


def test_group_settings_are_made_listed_and_forgotten(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        config = GroupConfig(
            group="g", retry_times_max=3, extra={"attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}}
        )
        assert await rig.code(UpdateSubscriptionGroup(), encode_group_config(config)) == 0
        assert decode_group_config((await rig.ask(GetSubscriptionGroup(group="g"))).body) == config
        assert decode_group_table((await rig.ask(GetAllSubscriptionGroups())).body).groups["g"] == config
        assert await rig.code(UpdateSubscriptionGroup(), b'{"groupName":"a b"}') == 29
        assert await rig.code(UpdateSubscriptionGroup(), b'{"groupName":"g","retryQueueNums":99999999}') == 29
        assert await rig.code(UpdateSubscriptionGroup(), b'{"groupName":"g","retryQueueNums":-1}') == 29
        await rig.send("t")
        await rig.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1))
        ordered = rig.broker.service.pop.ordered
        ordered.give(("t", "g", 0), [0], 1, 60_000, None)
        assert await rig.code(DeleteSubscriptionGroup(group_name="g", clean_offset=True)) == 0
        assert ordered.count == 0
        assert await rig.code(GetSubscriptionGroup(group="g")) == 26
        assert rig.broker.service.offsets.query("g", "t", 0) == -1

    serve(scene)


def test_a_groups_retries_may_have_from_no_queue_to_a_thousand(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        for count, code in ((0, 0), (1024, 0), (1025, 29), (-1, 29)):
            config = GroupConfig(group="g", retry_queue_count=count)
            assert await rig.code(UpdateSubscriptionGroup(), encode_group_config(config)) == code

    serve(scene)
