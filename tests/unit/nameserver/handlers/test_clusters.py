"""Claims about lists of clusters and brokers, and about write permissions."""

from __future__ import annotations

import pytest

from orbitmq.wire.bodies.route import decode_cluster_info, decode_member_group
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.headers import (
    AddWritePerm,
    GetAllTopics,
    GetBrokerMemberGroup,
    GetClusterInfo,
    GetSystemTopics,
    GetTopicsByCluster,
    WipeWritePerm,
)

from ..support import CLUSTER, Asker, topics_of

pytestmark = pytest.mark.real


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
    nobody = decode_member_group((await asker.ask(GetBrokerMemberGroup(cluster_name="x", broker_name="n"))).body)
    assert dict(nobody.addresses) == {}


async def test_write_permission_is_wiped_and_added_by_broker_name(asker: Asker):
    await asker.register()
    assert (await asker.ask(WipeWritePerm(broker_name="a"))).ext_fields == {"wipeTopicCount": "2"}
    assert (await asker.ask(AddWritePerm(broker_name="a"))).ext_fields == {"addTopicCount": "2"}
    assert (await asker.ask(WipeWritePerm(broker_name="unknown"))).ext_fields == {"wipeTopicCount": "0"}
