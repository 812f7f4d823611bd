"""Claims about lists of topics, and about one topic registered and deleted."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from orbitmq.model.route import TopicRoute
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.handlers.topics import ROUTE_SIZE_MAX
from orbitmq.wire.bodies.route import decode_route, encode_route
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import (
    AddWritePerm,
    DeleteKvConfig,
    DeleteTopicInNameServer,
    GetAllTopics,
    GetRouteInfo,
    GetTopicsByCluster,
    GetUnitSubscriptionTopics,
    GetUnitSubscriptionUnunitTopics,
    GetUnitTopics,
    PutKvConfig,
    RegisterTopicInNameServer,
    UnregisterBroker,
    UpdateNameServerConfig,
    WipeWritePerm,
)
from unit.nameserver.registration.peers import Peers, drain
from unit.nameserver.support import BROKER, CLUSTER, Asker, asking, queue, registration, route_of, topics_of
from unit.net.support import peer_of

pytestmark = pytest.mark.real


async def test_lists_can_be_switched_off(tmp_path: Path):
    async with asking(tmp_path, enable_all_topic_list=False, enable_topic_list=False) as asker:
        for header in (
            GetAllTopics(),
            GetTopicsByCluster(cluster="c"),
            GetUnitTopics(),
            GetUnitSubscriptionTopics(),
            GetUnitSubscriptionUnunitTopics(),
        ):
            answer = await asker.ask(header)
            assert (answer.code, answer.remark) == (1, "disable")


async def test_unit_topics_are_told_by_their_flags(asker: Asker):
    configs = {f"T{flag}": TopicConfig(topic=f"T{flag}", topic_sys_flag=flag) for flag in range(4)}
    header, body = registration("a", configs=configs)
    await asker.ask(header, body)
    assert set(await topics_of(asker, GetUnitTopics())) == {"T1", "T3"}
    assert set(await topics_of(asker, GetUnitSubscriptionTopics())) == {"T2", "T3"}
    assert set(await topics_of(asker, GetUnitSubscriptionUnunitTopics())) == {"T2"}


async def test_the_queues_of_one_topic_are_bounded(asker: Asker):
    await asker.register()
    for size, code in ((ROUTE_SIZE_MAX, 0), (ROUTE_SIZE_MAX + 1, 1)):
        body = encode_route(TopicRoute(queues=(queue("a"),))).ljust(size)
        assert (await asker.ask(RegisterTopicInNameServer(topic=f"new{size}"), body)).code == code
    assert set(asker.server.service.tables.topics()) == {"T1", "T2", f"new{ROUTE_SIZE_MAX}"}


async def test_one_topic_is_registered_and_deleted(asker: Asker):
    await asker.register()
    for names, topic in ((("a",), "known"), (("a", "unknown"), "mixed")):
        body = encode_route(TopicRoute(queues=tuple(queue(name) for name in names)))
        assert (await asker.ask(RegisterTopicInNameServer(topic=topic), body)).code == 0
    assert (await asker.ask(RegisterTopicInNameServer(topic="empty"))).code == 0
    assert (await asker.ask(RegisterTopicInNameServer(topic="../bad"))).code == 1
    assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2", "known"}
    for cluster in ("unknown", CLUSTER):
        header = DeleteTopicInNameServer(topic="known", cluster_name=cluster)
        assert (await asker.ask(header)).code == 0
    assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2"}


def test_a_topic_is_deleted_immediately_while_other_brokers_register():
    peers = Peers()
    for number, name in enumerate(("a", "b")):
        peers.ask(number, number, *registration(name, f"{name}0", f"{name}1", body_crc32=0))
        if name == "a":
            drain(peers.service.queue)
    assert len(peers.service.queue.jobs) == 1
    peers.ask(2, 9, DeleteTopicInNameServer(topic="a0"))
    assert [number for number, _ in peers.done] == [0, 2]
    assert len(peers.service.queue.jobs) == 1


def test_who_registers_a_topic_behind_its_deletion_waits_for_that():
    peers = Peers()
    peers.ask(0, 1, *registration("a", "t0", "t1"))
    peers.service.queue.step()
    while peers.service.tables.lookup("t0") is None:
        peers.service.queue.step()
    peers.ask(1, 9, DeleteTopicInNameServer(topic="t0"))
    peers.ask(2, 2, *registration("b", "t0", "t1"))
    assert peers.service.tables.group_of("b") is None
    drain(peers.service.queue)
    assert [number for number, _ in peers.done] == [0, 1, 2]
    assert peers.service.tables.broker_names_of("t0") == ["b"]


async def test_a_registered_topic_is_found_and_an_unknown_one_is_answered_with_17(asker: Asker):
    assert (await asker.register()).code == 0
    route = await route_of(asker)
    assert [(found.broker_name, found.perm) for found in route.queues] == [("a", 6)]
    assert dict(route.brokers[0].addresses) == {0: "a-0:10911"}
    unknown = await asker.ask(GetRouteInfo(topic="unknown"))
    assert unknown.code == 17
    assert unknown.remark == (
        "No topic route info in name server for the topic: unknown\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


async def test_the_json_dialect_follows_the_peers_version(tmp_path: Path):
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        await asker.register()
        for version, fields, is_standard in (
            (401, {}, True),
            (400, {}, False),
            (315, {"acceptStandardJsonOnly": "true"}, True),
            (479, {"acceptStandardJsonOnly": "false"}, True),
        ):
            for _ in range(2):  # the second one comes from the memo
                await peer.send(encode_command(Command(105, 1, ext_fields={"topic": "T1", **fields}, version=version)))
                body = (await peer.receive()).body
                assert (b'{"0":"a-0:10911"}' in body) is is_standard
                assert (b'{0:"a-0:10911"}' in body) is not is_standard


async def test_a_cached_answer_goes_with_the_change_that_outdates_it(tmp_path: Path):
    async with asking(tmp_path, order_message_enable=True) as asker:
        await asker.register()

        async def perm() -> int:
            return (await route_of(asker)).queues[0].perm

        for _ in range(3):
            assert await perm() == 6
        assert len(asker.server.service.route_queries) == 1
        await asker.ask(WipeWritePerm(broker_name="a"))
        assert len(asker.server.service.route_queries) == 0
        assert [await perm() for _ in range(2)] == [4, 4]
        await asker.ask(AddWritePerm(broker_name="a"))
        assert await perm() == 6
        await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
        assert [(await route_of(asker)).order_topic_conf for _ in range(2)] == ["a:4", "a:4"]
        await asker.ask(DeleteKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1"))
        assert (await route_of(asker)).order_topic_conf is None
        await asker.register("a", broker_id=1)
        assert set((await route_of(asker)).brokers[0].addresses) == {0, 1}
        await asker.ask(DeleteTopicInNameServer(topic="T1"))
        assert await route_of(asker) is None


async def test_ordered_topics_stand_in_routes_only_where_that_is_wanted(asker: Asker):
    await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
    answer = await asker.register()
    assert (await route_of(asker)).order_topic_conf is None
    assert orjson.loads(answer.body) == {"table": {"T1": "a:4"}}


async def test_routes_wait_for_brokers_after_the_start_where_that_is_wanted(tmp_path: Path):
    async with asking(tmp_path, need_wait_for_service=True, wait_seconds_for_service=3) as asker:
        await asker.register()
        early = await asker.ask(GetRouteInfo(topic="T1"))
        assert (early.code, early.remark) == (1, "name server not ready")
        asker.clock.advance(2_999)
        assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 1
        asker.clock.advance(1)
        assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 0


async def test_a_zone_sees_its_own_brokers(asker: Asker):
    await asker.register("east", zone_name="East")
    await asker.register("west", zone_name="West")

    async def names(**fields: object) -> tuple[list[str], bytes]:
        answer = await asker.ask(GetRouteInfo(topic="T1", **fields))
        return [found.broker_name for found in decode_route(answer.body).brokers], answer.body

    assert (await names())[0] == ["east", "west"]
    for _ in range(2):
        kept, body = await names(zone_mode=True, zone_name="west")
        assert kept == ["west"]
        assert b'{0:"west-0:10911"}' in body
    assert (await names(zone_mode=False, zone_name="west"))[0] == ["east", "west"]
    assert (await names(zone_mode=True, zone_name=" "))[0] == ["east", "west"]
    assert (await asker.ask(GetRouteInfo(topic="none", zone_mode=True, zone_name="west"))).code == 17


async def test_an_acting_master_is_shown_where_that_is_wanted(tmp_path: Path):
    async with asking(tmp_path, support_acting_master=True) as asker:
        await asker.register("a", enable_acting_master=True)
        await asker.register("a", broker_id=1, enable_acting_master=True)
        await asker.ask(UnregisterBroker(**BROKER))
        route = await route_of(asker)
        assert (dict(route.brokers[0].addresses), route.queues[0].perm) == ({0: "a-1:10911"}, 4)
        await asker.ask(UpdateNameServerConfig(), b"supportActingMaster=false")
        assert dict((await route_of(asker)).brokers[0].addresses) == {1: "a-1:10911"}
