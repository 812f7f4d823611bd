"""Setting where a group goes on: here, or at the group's clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.bodies.offsets import decode_offset_table
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    DeleteSubscriptionGroup,
    HeartbeatRequest,
    OffsetResponse,
    PullResponse,
    PullSysFlag,
    QueryConsumerOffset,
    ResetClientOffset,
    ResetGroupOffset,
    UpdateConsumerOffset,
)
from unit.broker.conftest import Harness
from unit.broker.parts import Serve
from waiting import until

SUSPEND = PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION
COMMIT = PullSysFlag.COMMIT_OFFSET | PullSysFlag.SUBSCRIPTION
MOVED = 21


def reset(**fields: Any) -> ResetGroupOffset:
    settings: dict[str, Any] = {"group": "g", "topic": "t", "timestamp_ms": 0, "is_force": True}
    return ResetGroupOffset(**settings | fields)


def commit(offset: int, queue_id: int = 0) -> UpdateConsumerOffset:
    return UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=queue_id, commit_offset=offset)


async def committed(harness: Any) -> int:
    header = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
    offset: int = (await harness.answer(header, OffsetResponse)).offset
    return offset


async def begin(harness: Any, count: int = 5) -> None:
    await harness.make_group()
    for number in range(count):
        await harness.send(body=b"%d" % number)
    assert await harness.code(commit(count)) == 0


async def test_a_topic_that_is_not_there_is_named_in_full(harness: Harness) -> None:
    answer = await harness.ask(reset(topic="x" * 260))
    assert (answer.code, answer.remark) == (17, f"Topic {'x' * 260} does not exist")


async def test_a_readers_next_pull_is_told_where_its_group_goes_on_and_commits_wait_for_that(harness: Harness) -> None:
    await begin(harness)
    answer = await harness.ask(reset())
    assert decode_offset_table(answer.body) == {MessageQueue("t", "a", queue): 0 for queue in range(4)}
    assert await committed(harness) == 0
    late = await harness.ask(commit(5))
    assert (late.code, late.remark) == (0, "Offset has been previously reset")
    assert await committed(harness) == 0

    told, _ = await harness.pull(queue_offset=5, sys_flag=COMMIT, commit_offset=5)
    assert (told.code, told.remark) == (MOVED, "OFFSET_RESET")
    assert decode_header(PullResponse, told.ext_fields) == PullResponse(
        suggest_which_broker_id=0, next_begin_offset=0, min_offset=0, max_offset=5
    )
    assert await committed(harness) == 0
    _, records = await harness.pull(queue_offset=0, sys_flag=COMMIT, commit_offset=0)
    assert len(records) == 5
    assert await harness.code(commit(3)) == 0
    assert await committed(harness) == 3


async def test_a_reader_that_is_there_already_reads_on(harness: Harness) -> None:
    await begin(harness)
    assert await harness.code(reset()) == 0
    answer, records = await harness.pull(queue_offset=0)
    assert (answer.code, len(records)) == (0, 5)
    await harness.ask(reset(timestamp_ms=-1))
    # It stands at the new offset, and has not done what lies before it.
    answer, _ = await harness.pull(queue_offset=5, sys_flag=COMMIT, commit_offset=2)
    assert answer.code == MOVED


async def test_a_reader_that_waits_at_the_end_hears_of_it_immediately_and_others_wait_on(harness: Harness) -> None:
    await begin(harness)
    info = ConsumerInfo(group="g", subscriptions=(Subscription(topic="t"),))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(info,))))
    stranger = harness.connect()
    waiting = {"queue_offset": 5, "sys_flag": SUSPEND, "suspend_timeout_ms": 50_000}
    from unit.broker.conftest import pull_header

    held = asyncio.ensure_future(harness.ask(pull_header("t", **waiting)))
    other = asyncio.ensure_future(
        stranger.request(harness.broker.address, pull_header("t", consumer_group="h", **waiting), timeout_ms=60_000)
    )
    await until(lambda: harness.broker.service.delivery.pulls.held_count == 2)
    assert await harness.code(reset()) == 0
    assert (await held).code == 19
    assert harness.broker.service.delivery.pulls.held_count == 1
    other.cancel()


async def test_one_queue_is_set_to_a_time_or_to_an_offset_that_it_has(harness: Harness) -> None:
    await begin(harness)
    answer = await harness.ask(reset(queue_id=0, offset=2))
    assert decode_offset_table(answer.body) == {MessageQueue("t", "a", 0): 2}
    answer = await harness.ask(reset(queue_id=0, offset=-1, timestamp_ms=-1))
    assert decode_offset_table(answer.body) == {MessageQueue("t", "a", 0): 5}
    refused = await harness.ask(reset(queue_id=0, offset=6))
    assert (refused.code, refused.remark) == (1, "Target offset 6 not in consume queue range [0-5]")
    assert await harness.code(reset(queue_id=0, offset=-2)) == 1
    assert await harness.code(reset(queue_id=4)) == 1


@pytest.mark.parametrize("is_server_side", [True, False])
async def test_what_is_not_there_is_refused(serve: Serve, is_server_side: bool) -> None:
    async with serve(use_server_side_reset_offset=is_server_side) as harness:
        await begin(harness)
        assert await harness.code(reset(topic="nowhere")) == 17
        assert await harness.code(reset(group="nobody")) == (26 if is_server_side else 1)


async def test_what_is_deleted_is_not_reset_any_more(harness: Harness) -> None:
    await begin(harness)
    await harness.ask(reset())
    assert await harness.code(DeleteSubscriptionGroup(group_name="g", clean_offset=True)) == 0
    assert harness.broker.service.tables.offsets.resets == {}


class Client:
    """A consumer that hears where to go on."""

    handlers: Handlers[Client] = Handlers()

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[ResetClientOffset, bytes]] = asyncio.Queue()


@Client.handlers.on(ResetClientOffset)
def _hear(client: Client, call: Call[ResetClientOffset]) -> Reply:
    client.heard.put_nowait((call.header, call.command.body))
    return Reply()


async def test_without_the_server_side_the_groups_clients_are_told(serve: Serve) -> None:
    async with serve(use_server_side_reset_offset=False) as harness:
        await begin(harness)
        for queue_id in range(1, 4):
            await harness.ask(commit(0, queue_id))
        assert await harness.code(reset()) == 206  # no consumer is online
        client = Client()
        pool = harness.connect(handlers=Client.handlers, service=client)
        info = ConsumerInfo(group="g", subscriptions=(Subscription(topic="t"),))
        beat = encode_heartbeat(Heartbeat(client_id="c", consumers=(info,)))
        await pool.request(harness.broker.address, HeartbeatRequest(), beat)

        answer = await harness.ask(reset())
        header, body = await client.heard.get()
        assert (header.group, header.topic) == ("g", "t")
        assert body == answer.body
        assert decode_offset_table(body)[MessageQueue("t", "a", 0)] == 0
        assert await committed(harness) == 5  # the clients commit
        # Not by force: no queue goes forward.
        await harness.ask(commit(2))
        answer = await harness.ask(reset(timestamp_ms=-1, is_force=False))
        assert decode_offset_table(answer.body)[MessageQueue("t", "a", 0)] == 2
