"""Claims about every request of a NameServer, over the wire: the behaviours that Java's own tests assert, and ours."""

from __future__ import annotations

import zlib
from pathlib import Path

import orjson
import pytest

from orbitmq.errors import ConnectionFailed
from orbitmq.model.route import TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver.handlers.topics import ROUTE_SIZE_MAX
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.bodies.route import decode_cluster_info, decode_member_group, decode_route, encode_route
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import (
    AddWritePerm,
    BrokerHeartbeat,
    DeleteKvConfig,
    DeleteTopicInNameServer,
    GetAllTopics,
    GetBrokerMemberGroup,
    GetClusterInfo,
    GetKvConfig,
    GetKvListByNamespace,
    GetNameServerConfig,
    GetRouteInfo,
    GetSystemTopics,
    GetTopicsByCluster,
    GetUnitSubscriptionTopics,
    GetUnitSubscriptionUnunitTopics,
    GetUnitTopics,
    NotifyMinBrokerIdChange,
    PutKvConfig,
    QueryDataVersion,
    RegisterTopicInNameServer,
    UnregisterBroker,
    UpdateNameServerConfig,
    WipeWritePerm,
)
from waiting import until

from ..net.support import peer_of
from .support import CLUSTER, Asker, address_of, asking, queue, registration

BROKER = {"broker_name": "a", "broker_addr": address_of("a"), "cluster_name": CLUSTER, "broker_id": 0}


async def route_of(asker: Asker, topic: str = "T1") -> TopicRoute | None:
    answer = await asker.ask(GetRouteInfo(topic=topic))
    return decode_route(answer.body) if answer.code == 0 else None


async def topics_of(asker: Asker, header: object) -> tuple[str, ...]:
    return decode_topic_list((await asker.ask(header)).body).topics


async def test_a_registered_topic_is_found_and_an_unknown_one_is_answered_with_17(tmp_path: Path):
    async with asking(tmp_path) as asker:
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


async def test_ordered_topics_stand_in_routes_only_where_that_is_wanted(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
        answer = await asker.register()
        assert (await route_of(asker)).order_topic_conf is None
        assert orjson.loads(answer.body) == {"table": {"T1": "a:4"}}


async def test_brokers_are_told_ordered_topics_unless_switched_off(tmp_path: Path):
    async with asking(tmp_path, return_order_topic_config_to_broker=False) as asker:
        await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
        assert (await asker.register()).body == b""


async def test_a_body_that_was_damaged_is_refused(tmp_path: Path):
    async with asking(tmp_path) as asker:
        header, body = registration("a", "T1", "T2")
        answer = await asker.ask(header, body + b" ")
        assert (answer.code, answer.remark) == (1, "crc32 not match")
        assert asker.server.service.tables.broker_count == 0
        assert (await asker.ask(registration("a", "T1", "T2", body_crc32=0)[0], body)).code == 0
        for version in (1, 2):  # recognised bodies are checked as well
            wrong = await asker.register(version=version, body_crc32=7)
            assert (wrong.code, wrong.remark) == (1, "crc32 not match")


async def test_a_registration_that_cannot_be_read_is_refused_and_changes_nothing(tmp_path: Path):
    async with asking(tmp_path) as asker:
        for body in (b"no json", b"[]", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}'):
            assert (await asker.ask(registration("a", body_crc32=0)[0], body)).code == 1
        for name in ("../x", "", "a b"):
            assert (await asker.register(name)).code == 1
        assert (await asker.register("a", "only")).remark == "register broker failed"
        assert decode_cluster_info((await asker.ask(GetClusterInfo())).body).brokers == {}


async def test_a_topic_with_an_illegal_name_is_left_out_and_the_others_are_taken(tmp_path: Path):
    async with asking(tmp_path) as asker:
        configs = {topic: TopicConfig(topic=topic) for topic in ("T1", "T2", "../../etc")}
        header, body = registration("a", configs=configs)
        assert (await asker.ask(header, body)).code == 0
        assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2"}


async def test_a_broker_before_3_0_11_sends_its_topics_alone(tmp_path: Path):
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        header, _ = registration("a", body_crc32=0)
        body = b'{"dataVersion":{"counter":1},"topicConfigTable":{"T1":{"readQueueNums":3},"T2":{}}}'
        fields = {
            "brokerName": "a",
            "brokerAddr": header.broker_addr,
            "clusterName": CLUSTER,
            "haServerAddr": "h:1",
            "brokerId": "0",
        }
        await peer.send(encode_command(Command(103, 1, ext_fields=fields, body=body, version=36)))
        assert (await peer.receive()).code == 0
        assert (await route_of(asker)).queues[0].read_queue_count == 3


async def test_a_slave_is_told_its_master(tmp_path: Path):
    async with asking(tmp_path) as asker:
        assert (await asker.register()).ext_fields == {}
        for _ in range(2):  # the second one is recognised without being parsed
            slave = await asker.register("a", broker_id=1)
            assert slave.ext_fields == {"haServerAddr": "ha-a-0:10911", "masterAddr": "a-0:10911"}


async def test_an_unchanged_registration_is_not_parsed_again_until_something_about_it_changes(tmp_path: Path):
    from orbitmq.nameserver.registration import pipeline

    parsed: list[int] = []
    read = pipeline.read_registration

    def counting(*args, **kwargs):
        parsed.append(1)
        return read(*args, **kwargs)

    pipeline.read_registration = counting
    try:
        async with asking(tmp_path) as asker:
            for version in (1, 1, 2, 3):
                await asker.register(version=version)
            assert len(parsed) == 1
            assert asker.server.service.tables.lease_of((CLUSTER, "a-0:10911")).data_version.counter == 3
            await asker.ask(DeleteTopicInNameServer(topic="T1"))
            await asker.register(version=3)
            assert len(parsed) == 2
            assert await route_of(asker) is not None
            await asker.register(version=3)
            await asker.register("a", "T1", "T2", "T3", version=4)
            await asker.register("a", "T1", "T2", "T3", "T4", version=5)
            assert len(parsed) == 2
            assert await route_of(asker, "T4") is not None
            await asker.register("a", "T1", version=6)
            assert len(parsed) == 3
            assert await route_of(asker, "T4") is not None
    finally:
        pipeline.read_registration = read


async def test_a_new_version_restores_a_wiped_permission_even_when_the_topics_are_the_same(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register(version=1)
        await asker.ask(WipeWritePerm(broker_name="a"))
        for _ in range(2):
            await asker.register(version=1)
            assert (await route_of(asker)).queues[0].perm == 4
        await asker.register(version=2)
        assert (await route_of(asker)).queues[0].perm == 6


async def test_topics_that_changed_under_the_same_version_count_with_the_next_one(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register("a", "T1", "T2")

        async def register(count: int, version: int) -> int:
            configs = {topic: TopicConfig(topic=topic, read_queue_count=count) for topic in ("T1", "T2")}
            header, body = registration("a", configs=configs, version=version)
            assert (await asker.ask(header, body)).code == 0
            return (await route_of(asker)).queues[0].read_queue_count

        assert [await register(*step) for step in ((3, 1), (3, 1), (3, 2), (5, 3), (7, 3), (7, 4))] == [
            16,
            16,
            3,
            5,
            5,
            7,
        ]


async def test_an_unchanged_registration_renews_the_lease(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register()
        asker.clock.advance(100_000)
        await asker.register()
        asker.clock.advance(100_000)
        asker.server.scan()
        assert await route_of(asker) is not None


async def test_a_silent_broker_is_taken_out_by_the_scan_and_its_line_is_cut(tmp_path: Path):
    async with asking(tmp_path) as asker:
        silent, steady = ConnectionPool(), ConnectionPool()
        await asker.register("a", pool=silent, heartbeat_timeout_millis=30_000)
        await asker.register("b", pool=steady)
        asker.clock.advance(30_001)
        asker.server.scan()
        assert [found.broker_name for found in (await route_of(asker)).brokers] == ["b"]
        await until(lambda: silent.addresses == ())
        assert steady.addresses == (asker.server.address,)
        await silent.close()
        await steady.close()


async def test_the_scan_runs_by_itself(tmp_path: Path):
    async with asking(tmp_path, scan_not_active_broker_interval=10) as asker:
        await asker.register()
        asker.clock.advance(120_001)
        await until(lambda: not asker.server.service.tables.broker_count, pause_s=0.001)


async def test_a_broker_whose_connection_ends_leaves_at_once(tmp_path: Path):
    async with asking(tmp_path) as asker:
        broker = ConnectionPool()
        await asker.register(pool=broker)
        assert await route_of(asker) is not None
        await broker.close()
        await until(lambda: not asker.server.service.tables.broker_count)
        assert await route_of(asker) is None


async def test_a_reconnected_broker_survives_the_end_of_its_old_connection_11043(tmp_path: Path):
    async with asking(tmp_path) as asker:
        old, new = ConnectionPool(), ConnectionPool()
        await asker.register(pool=old)
        await asker.register(pool=new)
        late = await asker.ask(UnregisterBroker(**BROKER), pool=old)
        assert late.code == 0
        await old.close()
        await until(lambda: len(asker.server.server.connections) == 2)
        assert await route_of(asker) is not None
        await new.close()


async def test_a_broker_that_says_good_bye_is_gone(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register()
        assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0
        assert await route_of(asker) is None
        assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0


async def test_the_version_query_tells_changes_and_renews(tmp_path: Path):
    async with asking(tmp_path) as asker:
        unknown = await asker.ask(QueryDataVersion(**BROKER), encode_data_version(DataVersion(0, 0, 1)))
        assert (unknown.ext_fields, unknown.body) == ({"changed": "true"}, b"")
        await asker.register()
        for version, changed in ((DataVersion(0, 0, 1), "false"), (DataVersion(0, 0, 2), "true")):
            answer = await asker.ask(QueryDataVersion(**BROKER), encode_data_version(version))
            assert answer.ext_fields == {"changed": changed}
            assert orjson.loads(answer.body) == {"counter": 1, "stateVersion": 0, "timestamp": 0}
        assert (await asker.ask(QueryDataVersion(**BROKER))).ext_fields == {"changed": "true"}


@pytest.mark.parametrize("renewal", ["query", "heartbeat"])
async def test_a_light_heartbeat_renews_the_lease(renewal: str, tmp_path: Path):
    fields = {name: value for name, value in BROKER.items() if name != "broker_id" or renewal == "query"}
    header = QueryDataVersion(**fields) if renewal == "query" else BrokerHeartbeat(**fields)
    async with asking(tmp_path) as asker:
        assert (await asker.ask(header)).code == 0
        assert asker.server.service.tables.broker_count == 0
        await asker.register()
        asker.clock.advance(100_000)
        await asker.ask(header)
        asker.clock.advance(100_000)
        asker.server.scan()
        assert asker.server.service.tables.broker_count == 1


async def test_clusters_brokers_and_topics_are_listed(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register("a", "T1", "T2")
        await asker.register("b", "T2", "T3", broker_id=1)
        answer = await asker.ask(GetClusterInfo())
        assert b'{0:"a-0:10911"}' in answer.body
        info = decode_cluster_info(answer.body)
        assert info.clusters == {CLUSTER: ("a", "b")}
        assert dict(info.brokers["b"].addresses) == {1: "b-1:10911"}
        assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2"}
        assert set(await topics_of(asker, GetTopicsByCluster(cluster=CLUSTER))) == {"T1", "T2"}
        assert await topics_of(asker, GetTopicsByCluster(cluster="unknown")) == ()
        system = decode_topic_list((await asker.ask(GetSystemTopics())).body)
        assert (set(system.topics), system.broker_address) == ({CLUSTER, "a", "b"}, "a-0:10911")
        members = decode_member_group((await asker.ask(GetBrokerMemberGroup(cluster_name="x", broker_name="a"))).body)
        assert (members.cluster, dict(members.addresses)) == ("x", {0: "a-0:10911"})
        nobody = decode_member_group((await asker.ask(GetBrokerMemberGroup(cluster_name="x", broker_name="n"))).body)
        assert dict(nobody.addresses) == {}


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


async def test_unit_topics_are_told_by_their_flags(tmp_path: Path):
    async with asking(tmp_path) as asker:
        configs = {f"T{flag}": TopicConfig(topic=f"T{flag}", topic_sys_flag=flag) for flag in range(4)}
        header, body = registration("a", configs=configs)
        await asker.ask(header, body)
        assert set(await topics_of(asker, GetUnitTopics())) == {"T1", "T3"}
        assert set(await topics_of(asker, GetUnitSubscriptionTopics())) == {"T2", "T3"}
        assert set(await topics_of(asker, GetUnitSubscriptionUnunitTopics())) == {"T2"}


async def test_write_permission_is_wiped_and_added_by_broker_name(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register()
        assert (await asker.ask(WipeWritePerm(broker_name="a"))).ext_fields == {"wipeTopicCount": "2"}
        assert (await asker.ask(AddWritePerm(broker_name="a"))).ext_fields == {"addTopicCount": "2"}
        assert (await asker.ask(WipeWritePerm(broker_name="unknown"))).ext_fields == {"wipeTopicCount": "0"}


async def test_the_queues_of_one_topic_are_bounded(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register()
        for size, code in ((ROUTE_SIZE_MAX, 0), (ROUTE_SIZE_MAX + 1, 1)):
            body = encode_route(TopicRoute(queues=(queue("a"),))).ljust(size)
            assert (await asker.ask(RegisterTopicInNameServer(topic=f"new{size}"), body)).code == code
        assert set(asker.server.service.tables.topics()) == {"T1", "T2", f"new{ROUTE_SIZE_MAX}"}


async def test_one_topic_is_registered_and_deleted(tmp_path: Path):
    async with asking(tmp_path) as asker:
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


async def test_key_values(tmp_path: Path):
    async with asking(tmp_path) as asker:
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


async def test_routes_wait_for_brokers_after_the_start_where_that_is_wanted(tmp_path: Path):
    async with asking(tmp_path, need_wait_for_service=True, wait_seconds_for_service=3) as asker:
        await asker.register()
        early = await asker.ask(GetRouteInfo(topic="T1"))
        assert (early.code, early.remark) == (1, "name server not ready")
        asker.clock.advance(2_999)
        assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 1
        asker.clock.advance(1)
        assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 0


async def test_a_zone_sees_its_own_brokers(tmp_path: Path):
    async with asking(tmp_path) as asker:
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
        assert dict(route.brokers[0].addresses) == {0: "a-1:10911"}
        assert route.queues[0].perm == 4
        await asker.ask(UpdateNameServerConfig(), b"supportActingMaster=false")
        assert dict((await route_of(asker)).brokers[0].addresses) == {1: "a-1:10911"}


async def test_members_are_told_of_a_new_smallest_id_where_that_is_wanted(tmp_path: Path):
    told: list[NotifyMinBrokerIdChange] = []
    handlers: Handlers[None] = Handlers()

    @handlers.on(NotifyMinBrokerIdChange)
    def note(service: None, call: Call[NotifyMinBrokerIdChange]) -> Reply:
        told.append(call.header)
        return Reply()

    member = Server(handlers, None, name="member")
    await member.start("127.0.0.1", 0)
    async with asking(tmp_path, notify_min_broker_id_changed=True) as asker:
        await asker.register("a", broker_id=2, broker_addr=member.address, enable_acting_master=True)
        await asker.register("a", broker_id=1, enable_acting_master=True)
        await until(lambda: len(told) == 1)
        leaver = {**BROKER, "broker_addr": address_of("a", 1), "broker_id": 1}
        await asker.ask(UnregisterBroker(**leaver))
        await until(lambda: len(told) == 2)
    await member.close()
    assert told[0] == NotifyMinBrokerIdChange(
        min_broker_id=1, min_broker_addr="a-1:10911", ha_broker_addr="ha-a-1:10911"
    )
    assert told[1] == NotifyMinBrokerIdChange(
        min_broker_id=2, min_broker_addr=member.address, offline_broker_addr="a-1:10911"
    )


async def test_a_member_that_cannot_be_told_harms_nobody(tmp_path: Path):
    async with asking(tmp_path, notify_min_broker_id_changed=True) as asker:
        for address in ("127.0.0.1:1", "no-port"):
            await asker.register("a", broker_id=2, broker_addr=address)
            await asker.register("a", broker_id=1, broker_addr="a-1:1")
            await asker.ask(UnregisterBroker(**{**BROKER, "broker_id": 1, "broker_addr": "a-1:1"}))
        await until(lambda: not asker.server._tasks)
        assert (await asker.ask(GetClusterInfo())).code == 0


async def test_an_unknown_code_and_a_missing_field(tmp_path: Path):
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        await peer.send(encode_command(Command(99999, 1)))
        assert (await peer.receive()).remark == " request type 99999 not supported"
        await peer.send(encode_command(Command(103, 2, ext_fields={"brokerName": "a"})))
        assert (await peer.receive()).code == 1


async def test_compressed_registrations_of_4_x_are_read(tmp_path: Path):
    def piece(text: str) -> bytes:
        return len(text).to_bytes(4, "big") + text.encode()

    plain = piece('{"counter":1,"stateVersion":0,"timestamp":0}') + (2).to_bytes(4, "big")
    plain += piece("T1 3 3 6 SINGLE_TAG") + piece("T2 4 4 6 SINGLE_TAG") + piece("[]")
    body = zlib.compress(plain, 9)
    async with asking(tmp_path) as asker:
        header, _ = registration("a", compressed=True, body_crc32=zlib.crc32(body) & 0x7FFFFFFF)
        assert (await asker.ask(header, body)).code == 0
        assert (await route_of(asker)).queues[0].read_queue_count == 3


async def test_a_stopped_name_server_answers_nobody(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.register()
        await asker.server.stop()
        with pytest.raises(ConnectionFailed):
            await asker.ask(GetRouteInfo(topic="T1"))
