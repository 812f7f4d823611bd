"""Checks that the handlers of POP share."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.model.topic import Perm
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.headers import CreateTopic, GetPollingCount, PopNotification, UpdateSubscriptionGroup

from ...conftest import Rig
from .support import pop_header

PLACE: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": -1}
REQUESTS = [pop_header(), PopNotification(**PLACE, poll_ms=0), GetPollingCount(**PLACE)]


@pytest.mark.parametrize("header", REQUESTS)
async def test_a_group_that_is_switched_off_gets_nothing(rig: Rig, header: object) -> None:
    await rig.send()
    config = GroupConfig(group="g", consume_enable=False)
    assert await rig.code(UpdateSubscriptionGroup(), encode_group_config(config)) == 0
    assert await rig.code(header) == 16


@pytest.mark.parametrize("header", REQUESTS)
async def test_a_topic_that_may_not_be_read_gives_nothing(rig: Rig, header: object) -> None:
    create = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=int(Perm.WRITE),
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    assert await rig.code(create) == 0
    assert await rig.code(header) == 16
