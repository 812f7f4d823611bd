from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from orbitmq.broker.fast_path import pull as pull_module
from orbitmq.model.group import ConsumerInfo, Heartbeat, MessageModel, Subscription
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.command import Command, SerializeType, encode_command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import HeartbeatRequest, PullSysFlag, UpdateSubscriptionGroup
from orbitmq.wire.messages.properties import format_properties
from unit.broker.conftest import Harness, pull_header
from unit.broker.fast_path.support import exchange, exchange_together
from unit.broker.parts import FakePeer, Serve

COMMIT, SUBSCRIPTION = PullSysFlag.COMMIT_OFFSET, PullSysFlag.SUBSCRIPTION
PULL = 11

VARIANTS: list[dict[str, Any]] = [
    {},
    {"queue_offset": 3},
    {"queue_offset": 3, "count_max": 2},
    {"size_max": 1},
    {"size_max": -1},
    {"count_max": 0},
    {"queue_offset": 8},
    {"queue_offset": 9},
    {"queue_offset": -1},
    {"queue_id": 1},
    {"queue_id": 77},
    {"topic": "unknown"},
    {"subscription": "a"},
    {"subscription": "a||b", "queue_offset": 1},
    {"subscription": "c"},
    {"subscription": "||"},
    {"subscription": "n = 1", "expression_type": "SQL92"},
    {"subscription": "n =", "expression_type": "SQL92"},
    {"sys_flag": SUBSCRIPTION | COMMIT, "commit_offset": 2},
    {"sys_flag": SUBSCRIPTION | COMMIT, "commit_offset": 99},
    {"sys_flag": SUBSCRIPTION | COMMIT, "commit_offset": 3, "queue_offset": 99},
    {"sys_flag": 0, "subscription": None},
    {"sys_flag": 0, "subscription": None, "sub_version": 7},
    {"sys_flag": 0, "subscription": None, "consumer_group": "absent"},
    {"consumer_group": "closed"},
    {"consumer_group": "broadcast", "sys_flag": 0, "subscription": None},
]  # fmt: skip


def pull_frame(fields: dict[str, Any], opaque: int = 7, **settings: Any) -> bytes:
    header = encode_header(pull_header(**fields))
    return encode_command(Command(PULL, opaque, 0, None, header, language="JAVA", **settings))


async def fill(harness: Harness) -> None:
    for number in range(8):
        properties = format_properties({"TAGS": "ab"[number % 2], "n": str(number % 3)}).decode()
        assert (await harness.send(body=b"%d" % number, properties=properties)).code == 0
    for config in (
        GroupConfig(group="g"),
        replace(GroupConfig(group="closed"), consume_enable=False),
        replace(GroupConfig(group="broadcast"), consume_broadcast_enable=False),
    ):
        assert await harness.code(UpdateSubscriptionGroup(), encode_group_config(config)) == 0
    consumers = (
        ConsumerInfo(group="g", subscriptions=(Subscription(topic="t", expression="b", version=5),)),
        ConsumerInfo(
            group="broadcast",
            message_model=MessageModel.BROADCASTING,
            subscriptions=(Subscription(topic="t", expression="*", version=5),),
        ),
    )
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=consumers)))


def taught(harness: Any, frames: list[bytes]) -> Any:
    """The broker's fast path, which has seen each of these twice."""
    fast_path = harness.broker.running.fast_path
    for one in [*frames, *frames]:
        fast_path.answer(one, [], FakePeer())
    return fast_path


def figures(harness: Any) -> tuple[Any, ...]:
    service = harness.broker.service
    stats = service.monitoring.stats
    offsets = dict(service.tables.offsets.queues_of("g", "t"))
    return stats.get_count, stats.get_size, stats.found_count, stats.miss_count, dict(stats.pulled), offsets


async def test_the_fast_path_answers_pulls_as_the_slow_path_does(serve: Serve) -> None:
    """Answers, what is counted and what is committed are the same, variant by variant."""
    async with serve(enable_property_filter=True) as harness:
        await fill(harness)
        fast_path = taught(harness, [pull_frame(fields) for fields in VARIANTS])
        taken = 0
        for fields in VARIANTS:
            one = pull_frame(fields, opaque=12345)
            outcomes: list[Any] = []
            for is_fast in (True, False):
                harness.broker.service.tables.offsets.commit("g", "t", 0, 0, offset_max=8)
                before = figures(harness)
                fast_path.is_open = is_fast
                (answer,) = await asyncio.to_thread(exchange, harness.broker.address, [one])
                fast_path.is_open = True
                after = figures(harness)
                counted = [now - then for now, then in zip(after[:4], before[:4], strict=True)]
                outcomes.append((answer, counted, after[4:]))
            assert outcomes[0] == outcomes[1], fields
            taken += fast_path.answer(one, [], FakePeer()) == len(one)
        assert taken == 10


async def test_pulls_in_one_read_are_answered_up_to_one_that_finds_nothing(harness: Any) -> None:
    await fill(harness)
    frames = [pull_frame({"queue_offset": offset}, offset) for offset in (0, 5, 8, 1)]
    fast_path, answers, peer = taught(harness, frames[:1]), [], FakePeer()
    assert fast_path.answer(b"".join(frames), answers, peer) == len(frames[0] + frames[1])
    assert (len(answers), peer.counters.requests[PULL]) == (4, 2)
    assert fast_path.answer(frames[0][:-1], answers, peer) == 0
    got = await asyncio.to_thread(exchange_together, harness.broker.address, frames)
    assert [(one.opaque, one.code) for one in got] == [(0, 0), (5, 0), (8, 19), (1, 0)]


async def test_a_read_pulls_no_more_than_a_turn_has_room_for(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(harness)
    frames = [pull_frame({}, number) for number in range(TURN_COUNT + 2)]
    fast_path = taught(harness, frames[:1])
    assert fast_path.answer(b"".join(frames), [], FakePeer()) == sum(map(len, frames[:TURN_COUNT]))
    monkeypatch.setattr(pull_module, "_TURN_SIZE", 1)
    assert fast_path.answer(b"".join(frames), [], FakePeer()) == len(frames[0])


async def test_what_changes_counts_for_the_next_pull(harness: Any) -> None:
    """A template keeps what its text says, and nothing of what was decided about it."""
    await fill(harness)
    one = pull_frame({})
    fast_path = taught(harness, [one])
    assert fast_path.answer(one, [], FakePeer()) == len(one)
    service = harness.broker.service
    service.tables.offsets.resets["g", "t", 0] = 3
    assert fast_path.answer(one, [], FakePeer()) == 0
    service.tables.offsets.resets.clear()
    closed = replace(GroupConfig(group="g"), consume_enable=False)
    assert await harness.code(UpdateSubscriptionGroup(), encode_group_config(closed)) == 0
    assert fast_path.answer(one, [], FakePeer()) == 0


async def test_an_answer_for_which_there_is_no_room_is_left_to_the_slow_path(harness: Any) -> None:
    for _ in range(3):
        await harness.send(body=bytes(40_000))
    await harness.make_group()
    one = pull_frame({"sys_flag": SUBSCRIPTION | COMMIT, "commit_offset": 2})
    peer = FakePeer()
    peer.room = 0
    assert taught(harness, [one]).answer(one, [], FakePeer()) == len(one)
    harness.broker.service.tables.offsets.commit("g", "t", 0, 0, offset_max=3)
    assert harness.broker.running.fast_path.answer(one, [], peer) == 0
    assert harness.broker.service.tables.offsets.queues_of("g", "t") == {0: 0}


async def test_a_binary_header_is_left_to_the_slow_path(harness: Any) -> None:
    await fill(harness)
    one = pull_frame({}, serialize_type=SerializeType.ROCKETMQ)
    assert taught(harness, [one]).answer(one, [], FakePeer()) == 0
