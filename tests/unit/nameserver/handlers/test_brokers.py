"""Claims about brokers that renew their leases and leave."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from orbitmq.model.topic import DataVersion
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.bodies.route import decode_cluster_info, decode_member_group
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.headers import (
    AddWritePerm,
    BrokerHeartbeat,
    GetAllTopics,
    GetBrokerMemberGroup,
    GetClusterInfo,
    GetSystemTopics,
    GetTopicsByCluster,
    QueryDataVersion,
    UnregisterBroker,
    WipeWritePerm,
)
from unit.nameserver.support import BROKER, CLUSTER, Asker, asking, route_of, topics_of

pytestmark = pytest.mark.real


async def test_a_broker_that_says_good_bye_is_gone(asker: Asker):
    await asker.register()
    assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0
    assert await route_of(asker) is None
    assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0


async def test_the_version_query_tells_changes_and_renews(asker: Asker):
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


async def test_clusters_brokers_and_topics_are_listed(asker: Asker):
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
    unknown = decode_member_group((await asker.ask(GetBrokerMemberGroup(cluster_name="x", broker_name="n"))).body)
    assert dict(unknown.addresses) == {}


async def test_write_permission_is_wiped_and_added_by_broker_name(asker: Asker):
    await asker.register()
    assert (await asker.ask(WipeWritePerm(broker_name="a"))).ext_fields == {"wipeTopicCount": "2"}
    assert (await asker.ask(AddWritePerm(broker_name="a"))).ext_fields == {"addTopicCount": "2"}
    assert (await asker.ask(WipeWritePerm(broker_name="unknown"))).ext_fields == {"wipeTopicCount": "0"}
