"""An answer from memory says what the tables say, whatever was switched or changed between two equal requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from hostile.served import Link, leaving_of, serving
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import RegisterBrokerResponse, RegisterTopicInNameServer, UpdateNameServerConfig
from unit.nameserver.support import registration

FOREIGN = QueueData(broker_name="a", read_queue_count=1, write_queue_count=1, perm=6)


def switch(link: Link, key: str, value: bool) -> None:
    assert link.ask(UpdateNameServerConfig(), f"{key}={str(value).lower()}\n".encode()).code == 0


def perm_of(link: Link, topic: str) -> int:
    route = link.route(topic)
    assert route is not None
    return route.queues[0].perm


@pytest.mark.parametrize("topics", [("T1", "T2"), ("T1", "T2", "T3")], ids=["repeats itself", "adds a topic"])
def test_deletion_with_registration_that_is_switched_on_counts_for_the_next_registration(
    topics: tuple[str, ...], tmp_path: Path
) -> None:
    with serving(tmp_path) as served, served.link() as link:
        link.register("a", "T1", "T2")
        link.ask(RegisterTopicInNameServer(topic="T9"), encode_route(TopicRoute(queues=(FOREIGN,))))
        link.register("a", "T1", "T2")
        assert link.route("T9") is not None
        switch(link, "deleteTopicWithBrokerRegistration", True)
        link.register("a", *topics, version=len(topics))
        assert link.route("T9") is None


def test_a_slave_that_repeats_itself_is_told_the_masters_new_ha_address(tmp_path: Path) -> None:
    def ha_address() -> str | None:
        answer = slave.register("a", broker_id=1)
        return decode_header(RegisterBrokerResponse, answer.ext_fields).ha_server_addr

    with serving(tmp_path) as served, served.link() as master, served.link() as slave:
        master.register("a", ha_server_addr="ha-1:10912")
        assert [ha_address(), ha_address()] == ["ha-1:10912"] * 2
        master.register("a", ha_server_addr="ha-2:10912")
        assert [ha_address(), ha_address()] == ["ha-2:10912"] * 2


def test_a_slave_that_acts_for_its_master_from_a_new_version_on_may_only_be_read(tmp_path: Path) -> None:
    with serving(tmp_path, support_acting_master=True) as served, served.link() as slave:
        slave.register("a", broker_id=1, enable_acting_master=False)
        slave.register("a", broker_id=1, enable_acting_master=True)
        assert perm_of(slave, "T1") == 6  # as Java: the version says that nothing has changed
        slave.register("a", broker_id=1, enable_acting_master=True, version=2)
        assert perm_of(slave, "T1") == 4
        route = slave.route("T1")
        assert route is not None
        assert list(route.brokers[0].addresses) == [0]


def with_mapping(name: str, topic: str, *topics: str) -> tuple[object, bytes]:
    """Build a registration with a static topic's mapping."""
    header, body = registration(name, *topics, body_crc32=0)
    document: dict[str, Any] = orjson.loads(body)
    mapping = {"topic": topic, "bname": name, "epoch": 1, "totalQueues": 1, "currIdMap": {}, "dirty": False}
    document["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = {topic: mapping}
    return header, orjson.dumps(document)


def test_a_departed_brokers_static_topic_mapping_leaves_every_route(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as one, served.link() as other:
        one.register("a", "static", "T1")
        other.ask(*with_mapping("b", "static", "T2", "T3"))
        route = one.route("static")
        assert route is not None
        assert set(route.queue_mappings or ()) == {"b"}
        other.ask(leaving_of("b"))
        route = one.route("static")
        assert route is not None
        assert not route.queue_mappings


def test_filter_servers_of_an_address_that_two_names_share_are_in_both_their_routes_immediately(tmp_path: Path) -> None:
    """A name in two clusters: its routes show what the first cluster's brokers at its addresses say of filter servers."""
    with serving(tmp_path) as served, served.link() as link:
        link.register("a", cluster_name="c1")
        link.register("a", cluster_name="c2", broker_id=1, broker_addr="shared:1")
        assert filter_servers(link, "T1") == {}
        link.register("b", "T3", "T4", cluster_name="c1", broker_addr="shared:1", filter_servers=("f:1",))
        assert filter_servers(link, "T1") == filter_servers(link, "T1", is_new=True)


def test_filter_servers_of_a_lease_that_another_clusters_broker_ends_leave_every_route(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as link:
        link.register("b", "T3", "T4", cluster_name="c2", broker_addr="shared:1", filter_servers=("f:1",))
        link.register("a", cluster_name="c1", broker_addr="shared:1")
        assert filter_servers(link, "T3") == {"shared:1": ("f:1",)}
        link.register("a", cluster_name="c2", broker_addr="other:1")  # takes the place of c1's a at the shared address
        assert filter_servers(link, "T3") == filter_servers(link, "T3", is_new=True)


def filter_servers(link: Link, topic: str, *, is_new: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the filter servers of a route; `is_new` forgets all remembered answers first, by a switch of settings."""
    if is_new:
        switch(link, "enableTopicList", True)
    route = link.route(topic)
    assert route is not None
    return dict(route.filter_servers)
