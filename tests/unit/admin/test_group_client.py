"""Calls about groups, against real brokers of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq import Message, Producer, PullConsumer, PushConsumer
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.admin.group_client import GroupAdmin
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, OffsetsNotSet, PartlyDone, RemoteRefused, RequestTimeout
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.topics import QueueProgress, QueueStats, encode_consume_stats, encode_topic_stats
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetConsumeStats, GetTopicStats, ResetGroupOffset
from waiting import until

pytestmark = pytest.mark.real


@asynccontextmanager
async def serve(*, brokers: int = 1, **settings: Any) -> AsyncIterator[tuple[LocalCluster, AdminClient]]:
    """Run a cluster with eight messages in a topic."""
    async with (
        LocalCluster(brokers=brokers, settings=settings) as cluster,
        AdminClient(cluster.name_servers, timeout_ms=20_000) as admin,
    ):
        await admin.create_topic(TopicConfig(topic="t", read_queue_count=2, write_queue_count=2))
        async with Producer("p", cluster.name_servers) as producer:
            for number in range(8):
                await producer.send(Message("t", b"%d" % number), timeout_ms=20_000)
        yield cluster, admin


async def read_all(cluster: LocalCluster, group: str = "g") -> None:
    """Let a group read everything, without members."""
    async with PullConsumer(group, cluster.name_servers) as consumer:
        queues = await consumer.queues("t")
        consumer.assign(queues)
        for queue, place in (await consumer.offsets(queues)).items():
            consumer.seek(queue, place.end)
        await consumer.commit()


async def lag_of(admin: AdminClient, group: str = "g") -> int:
    return sum(place.lag for place in (await admin.group_lag(group, "t")).values())


async def test_one_queue_that_cannot_be_set_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(brokers=2) as (cluster, admin):
        await read_all(cluster)
        planned = await admin.reset_group("g", "t", ResetTo.earliest(), dry_run=True)
        bad = planned[0].queue
        request = admin._groups._request

        async def fails(address: str, header: Any, body: bytes) -> Any:
            if isinstance(header, ResetGroupOffset) and (address, header.queue_id) == (
                cluster.brokers[bad.broker_name],
                0,
            ):
                raise RequestTimeout("no answer")
            return await request(address, header, body)

        monkeypatch.setattr(admin._groups, "_request", fails)
        with pytest.raises(
            OffsetsNotSet, match="3 of 4 queues are set; not set: queue 0 of t on broker-a: no answer"
        ) as caught:
            await admin.reset_group("g", "t", ResetTo.earliest())
        assert list(caught.value.done) == planned[1:]
        assert await lag_of(admin) == sum(change.again_count for change in planned[1:])


async def test_a_group_is_listed_with_its_lag_and_is_set_back_and_forth() -> None:
    async with serve(brokers=2) as (cluster, admin):
        await read_all(cluster)
        (found,) = await admin.groups()
        assert await admin.group_names() == ["g"]
        assert (await admin.groups(names=["g", "none"]), await admin.groups(names=[])) == ([found], [])
        assert (found.group, found.clients, found.message_model) == ("g", (), None)
        assert await lag_of(admin) == 0
        planned = await admin.reset_group("g", "t", ResetTo.earliest(), dry_run=True)
        assert sum(change.again_count for change in planned) == 8
        assert await lag_of(admin) == 0
        assert await admin.reset_group("g", "t", ResetTo.earliest()) == planned
        assert await lag_of(admin) == 8
        done = await admin.reset_group("g", "t", ResetTo.latest(), broker="broker-a", queue_id=1)
        assert [(change.queue.broker_name, change.queue.queue_id) for change in done] == [("broker-a", 1)]
        assert await lag_of(admin) == 8 - done[0].skipped_count
        await admin.reset_group("g", "t", ResetTo.time(4_000_000_000_000))
        assert await lag_of(admin) == 0
        with pytest.raises(ClientError, match="no such queue"):
            await admin.reset_group("g", "t", ResetTo.latest(), queue_id=7)
        with pytest.raises(RemoteRefused, match="26"):
            await admin.reset_group("nobody", "t", ResetTo.latest())


async def test_an_offset_of_zero_is_told_from_none() -> None:
    async with serve() as (cluster, admin):
        await read_all(cluster)
        first, second = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
        await admin.reset_group("g", "t", ResetTo.earliest())
        await admin.create_group(GroupConfig(group="new"))
        assert [await admin.group_has_committed("g", queue) for queue in (first, second)] == [True, True]
        assert [await admin.group_has_committed("new", queue) for queue in (first, second)] == [False, False]
        with pytest.raises(ClientError, match="the broker none has no master"):
            await admin.group_has_committed("g", first._replace(broker_name="none"))


async def test_a_consumer_that_is_online_goes_on_where_its_group_is_set() -> None:
    async with serve() as (cluster, admin):
        got: list[bytes] = []

        def handle(batch: Any) -> None:
            got.extend(message.body for message in batch)

        async with PushConsumer("g", cluster.name_servers, handler=handle) as consumer:
            consumer.subscribe("t")
            await until(lambda: len(got) == 8)
            await consumer.commit_offsets()
            status = await admin.group_status("g")
            assert [client.client_id for client in status.clients] == [consumer.client_id]
            assert status.message_model is MessageModel.CLUSTERING
            assert status.subscriptions["t"] == "*"
            await admin.reset_group("g", "t", ResetTo.earliest())
            await until(lambda: len(got) == 16)
            await consumer.commit_offsets()
            assert await lag_of(admin) == 0
            with pytest.raises(ClientError, match="1 clients of the group g are online"):
                await admin.delete_group("g")
            with pytest.raises(ClientError, match="stop them first"):
                await admin.clone_group("g", "g", "t")


async def test_a_broker_that_cannot_tell_readers_sets_offsets_of_groups_that_are_offline_alone() -> None:
    async with serve(use_server_side_reset_offset=False) as (cluster, admin):
        await read_all(cluster)
        await admin.reset_group("g", "t", ResetTo.earliest())
        assert await lag_of(admin) == 8
        async with PushConsumer("g", cluster.name_servers) as consumer:
            consumer.subscribe("t")
            await consumer.assigned()
            with pytest.raises(ClientError, match="cannot tell them"):
                await admin.reset_group("g", "t", ResetTo.latest(), dry_run=True)


async def test_a_broadcasting_group_is_not_set(tmp_path: Path) -> None:
    async with (
        serve() as (cluster, admin),
        PushConsumer(
            "g", cluster.name_servers, message_model=MessageModel.BROADCASTING, offset_dir=tmp_path
        ) as consumer,
    ):
        consumer.subscribe("t")
        await consumer.assigned()
        with pytest.raises(ClientError, match="broadcasting"):
            await admin.reset_group("g", "t", ResetTo.latest())


async def test_a_group_is_copied_made_and_deleted() -> None:
    async with serve() as (cluster, admin):
        await read_all(cluster)
        await admin.create_group(GroupConfig(group="g", retry_times_max=3))
        would = await admin.clone_group("g", "h", dry_run=True)
        assert "h" not in await admin.group_names()
        changes = await admin.clone_group("g", "h")
        assert changes == would
        assert sum(change.after for change in changes) == 8
        assert await lag_of(admin, "h") == 0
        assert (await admin.group_status("h")).settings["broker-a"].retry_times_max == 3
        with pytest.raises(ClientError, match="has no offsets"):
            await admin.clone_group("nobody", "h")
        await admin.delete_group("h", with_topics=True)
        assert [found.group for found in await admin.groups()] == ["g"]
        with pytest.raises(ClientError, match="no broker knows"):
            await admin.group_status("h")
        with pytest.raises(InvalidArgument):
            await admin.create_group(GroupConfig(group="g"), broker="nowhere")


async def test_a_group_that_is_deleted_without_its_topics_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_self: AdminClient, _topic: str) -> None:
        raise RemoteRefused(16, "no", "h:1")

    async with serve() as (_, admin):
        await admin.create_group(GroupConfig(group="g"))
        monkeypatch.setattr(AdminClient, "delete_topic", refuse)
        with pytest.raises(
            PartlyDone, match=r"^the group g is deleted on broker-a, not all of its topics: h:1"
        ) as caught:
            await admin.delete_group("g", with_topics=True)
        assert len(caught.value.done) == 1
        assert await admin.group_names() == []


async def test_a_copy_has_no_offset_where_the_group_has_none() -> None:
    async with serve() as (cluster, admin):
        first, second = (MessageQueue("t", "broker-a", queue_id) for queue_id in range(2))
        async with PullConsumer("g", cluster.name_servers) as consumer:
            await consumer.commit({first: 0})
            changes = await admin.clone_group("g", "h", "t")
            assert [change.queue for change in changes] == [first]
        async with PullConsumer("h", cluster.name_servers) as consumer:
            assert [await consumer.committed(queue) for queue in (first, second)] == [0, None]


async def test_a_queue_whose_broker_has_no_master_is_named_before_anything_is_set() -> None:
    place = {MessageQueue("t", "broker-b", 0): QueueProgress(8, 5, 0)}

    async def request(_address: str, header: object, _body: bytes) -> Command:
        if isinstance(header, GetTopicStats):
            raise RemoteRefused(ResponseCode.TOPIC_NOT_EXIST, "no topic", "10.0.0.1:10911")
        assert isinstance(header, GetConsumeStats), "something was changed"
        return Command(ResponseCode.SUCCESS, 1, body=encode_consume_stats(place, 0.0))

    async def masters(_cluster: str | None) -> dict[str, str]:
        return {"broker-a": "10.0.0.1:10911"}

    async def topic_masters(_topic: str) -> dict[str, str]:
        return {"broker-b": "10.0.0.2:10911"}

    with pytest.raises(ClientError, match=r"broker-b .* no master"):
        await GroupAdmin(request, masters, topic_masters).clone("g", "h", "t")


async def test_messages_that_retention_took_are_gone_and_do_not_lag() -> None:
    behind, done = MessageQueue("t", "broker-a", 0), MessageQueue("u", "broker-a", 0)
    asked: list[object] = []

    async def request(_address: str, header: object, _body: bytes) -> Command:
        asked.append(header)
        if isinstance(header, GetConsumeStats):
            places = {behind: QueueProgress(405, 5, 5), done: QueueProgress(9, 9, 9)}
            return Command(ResponseCode.SUCCESS, 1, body=encode_consume_stats(places, 0.0))
        return Command(ResponseCode.SUCCESS, 1, body=encode_topic_stats({behind: QueueStats(185, 405)}))

    async def masters(_cluster: str | None) -> dict[str, str]:
        return {"broker-a": "10.0.0.1:10911"}

    lags = await GroupAdmin(request, masters, lambda _topic: masters(None)).lag("g")
    assert [(lag.lag, lag.gone) for lag in lags.values()] == [(220, 180), (0, 0)]
    assert asked[1:] == [GetTopicStats(topic="t")], "where nothing waits, no bounds are asked for"
