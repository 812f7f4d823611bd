"""Claims about the route table: the rules of Java's RouteInfoManager, and where ours is stricter."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cases import each_case
from orbitmq.errors import Rejected
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing import route_table
from orbitmq.nameserver.routing.events import Cause, ChangeKind
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses
from orbitmq.wire.slices import Slices, finish
from seeds import examples

from ..support import CLUSTER, address_of, at, broker, queue
from .route_history import ARGUMENTS, History, expire_all, play


def addresses(table: RouteTable, topic: str) -> dict[str, dict[int, str]]:
    route = table.tables.lookup(topic)
    return {} if route is None else {found.broker_name: dict(found.addresses) for found in route.brokers}


def perms(table: RouteTable, topic: str) -> dict[str, int]:
    route = table.tables.lookup(topic)
    return {} if route is None else {found.broker_name: found.perm for found in route.queues}


def key_of(name: str, broker_id: int = 0) -> BrokerKey:
    return BrokerKey(CLUSTER, name, address_of(name, broker_id))


def leave(table: RouteTable, name: str, broker_id: int = 0, **options: int) -> bool:
    return finish(table.unregister(key_of(name, broker_id), at(cause=Cause.UNREGISTRATION), **options))


@pytest.fixture
def table() -> RouteTable:
    return RouteTable(Tables())


def test_a_registered_broker_is_in_the_routes_of_its_topics(table: RouteTable):
    finish(table.register(broker("a", "orders", "bills"), at()))
    finish(table.register(broker("b", "orders", "x"), at()))

    assert addresses(table, "orders") == {"a": {0: "a-0:10911"}, "b": {0: "b-0:10911"}}
    assert addresses(table, "bills") == {"a": {0: "a-0:10911"}}
    assert table.tables.lookup("nothing") is None
    assert (table.tables.broker_count, table.tables.topic_count) == (2, 3)
    assert set(table.tables.topics()) == {"orders", "bills", "x"}


def test_a_registration_that_fails_half_way_leaves_no_broker_without_a_lease(table: RouteTable):
    finish(table.register(broker("a", "orders", "bills"), at()))
    broken: Any = {"orders": "no mapping"}
    for name in ("a", "b"):
        with pytest.raises(AttributeError):
            finish(table.register(broker(name, "orders", "bills", version=2, queue_mappings=broken), at()))
    assert addresses(table, "orders") == {"a": {0: "a-0:10911"}}
    assert (table.tables.broker_count, table.tables.group_of("b")) == (1, None)


def test_a_topic_on_a_new_broker_alone_is_refused_and_leaves_nothing_behind(table: RouteTable):
    with pytest.raises(Rejected, match="register broker failed"):
        finish(table.register(broker("a", "only"), at()))

    assert table.tables.cluster_info().brokers == {}
    assert table.tables.cluster_info().clusters == {}
    assert table.tables.take_changes() == []


def test_an_unchanged_version_changes_no_queues_but_brings_back_what_went_missing(table: RouteTable):
    finish(table.register(broker("a", "one", "two", count=8), at()))
    table.delete_topic("one", at())
    finish(table.register(broker("a", "one", "two", count=4), at()))

    assert [found.read_queue_count for topic in ("one", "two") for found in table.tables.lookup(topic).queues] == [4, 8]


def test_an_id_that_had_no_address_registers_for_the_first_time_whatever_its_version(table: RouteTable):
    for broker_id, count in ((0, 8), (1, 8), (0, 4)):  # one process, whose lease goes on
        finish(table.register(broker("a", "one", "two", broker_id=broker_id, address="a:1", count=count), at()))
    assert [found.read_queue_count for found in table.tables.lookup("one").queues] == [4]


@pytest.mark.parametrize("version", [DataVersion(0, 0, 2), DataVersion(0, 5, 1), DataVersion(1, 0, 1)], ids=str)
def test_a_version_differs_by_any_of_its_parts(version: DataVersion, table: RouteTable):
    finish(table.register(broker("a", "one", "two", count=8), at()))
    changed = broker("a", "one", "two", count=4)
    finish(
        table.register(
            type(changed)(**{name: getattr(changed, name) for name in changed.__slots__} | {"data_version": version}),
            at(),
        )
    )
    assert [found.read_queue_count for found in table.tables.lookup("one").queues] == [4]


@pytest.mark.parametrize("topics", [("two", "three"), ("three",)], ids=["some", "a single one"])
def test_topics_that_a_registration_does_not_list_stay(table: RouteTable, topics: tuple[str, ...]):
    finish(table.register(broker("a", "one", "two"), at()))
    finish(table.register(broker("a", *topics, version=2), at()))
    assert set(table.tables.topics()) == {"one", "two", "three"}


def test_topics_that_a_registration_does_not_list_go_where_that_is_wanted():
    table = RouteTable(Tables(), deletes_missing_topics=True)
    finish(table.register(broker("a", "one", "two"), at()))
    finish(table.register(broker("b", "one", "two"), at()))
    finish(table.register(broker("a", "two", "three", version=2), at()))
    assert addresses(table, "one") == {"b": {0: "b-0:10911"}}
    finish(table.register(broker("b", "two", "three", version=2), at()))
    assert set(table.tables.topics()) == {"two", "three"}


def test_a_static_topic_keeps_the_others_even_then():
    table = RouteTable(Tables(), deletes_missing_topics=True)
    finish(table.register(broker("a", "one", "two"), at()))
    finish(table.register(broker("a", "two", "x", version=2, queue_mappings={"s": {"bname": "a", "topic": "s"}}), at()))
    assert "one" in table.tables.topics()


def test_static_topic_mappings_stand_in_the_route(table: RouteTable):
    mapping = {"bname": "logical", "topic": "s", "totalQueues": 8}
    finish(table.register(broker("a", "s", "x", queue_mappings={"s": mapping}), at()))
    assert table.tables.lookup("s").queue_mappings == {"logical": mapping}
    assert table.tables.lookup("x").queue_mappings is None


def test_a_slave_changes_no_topics_and_learns_its_master(table: RouteTable):
    assert finish(table.register(broker("a", "one", "two"), at())) == MasterAddresses()
    told = finish(table.register(broker("a", "three", "four", broker_id=1), at()))

    assert told == MasterAddresses("ha-a-0:10911", "a-0:10911")
    assert set(table.tables.topics()) == {"one", "two"}
    assert addresses(table, "one") == {"a": {0: "a-0:10911", 1: "a-1:10911"}}


def test_a_slave_without_a_living_master_learns_nothing(table: RouteTable):
    assert finish(table.register(broker("a", "one", "two", broker_id=1), at())) == MasterAddresses()


def test_an_old_slave_alone_registers_no_topics_and_a_new_one_read_only():
    old, new = RouteTable(Tables()), RouteTable(Tables())
    finish(old.register(broker("a", "one", "two", broker_id=1), at()))
    finish(new.register(broker("a", "one", "two", broker_id=1, acting_master=True), at()))
    assert old.tables.topics() == ()
    assert perms(new, "one") == {"a": 4}


def test_only_the_smallest_slave_stands_in(table: RouteTable):
    finish(table.register(broker("a", "one", "two", broker_id=1, acting_master=True), at()))
    finish(table.register(broker("a", "three", "four", broker_id=2, acting_master=True), at()))
    assert set(table.tables.topics()) == {"one", "two"}


def test_a_slave_that_says_it_does_not_stand_in_keeps_its_permissions(table: RouteTable):
    finish(table.register(broker("a", "one", "two", broker_id=1, acting_master=False), at()))
    assert perms(table, "one") == {"a": 6}


def test_a_master_that_leaves_an_acting_group_makes_it_read_only_until_it_is_back(table: RouteTable):
    finish(table.register(broker("a", "one", "two", acting_master=True), at()))
    finish(table.register(broker("a", "one", "two", broker_id=1, acting_master=True), at()))
    leave(table, "a")
    assert perms(table, "one") == {"a": 4}
    finish(table.register(broker("a", "one", "two", acting_master=True), at()))
    assert perms(table, "one") == {"a": 6}


def test_a_master_that_leaves_an_old_group_leaves_the_permissions(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    finish(table.register(broker("a", "one", "two", broker_id=1), at()))
    leave(table, "a")
    assert perms(table, "one") == {"a": 6}
    assert addresses(table, "one") == {"a": {1: "a-1:10911"}}


def test_an_address_has_one_id_through_a_switch_of_roles(table: RouteTable):
    finish(table.register(broker("a", "one", "two", address="x:1"), at()))
    finish(table.register(broker("a", "one", "two", broker_id=1, address="y:1"), at()))
    finish(table.register(broker("a", "one", "two", address="y:1", version=2), at()))
    assert addresses(table, "one") == {"a": {0: "y:1"}}
    finish(table.register(broker("a", "one", "two", broker_id=1, address="x:1"), at()))
    assert addresses(table, "one") == {"a": {0: "y:1", 1: "x:1"}}


def test_a_process_that_lost_its_id_has_no_lease_any_more_stale_live_entries(table: RouteTable):
    finish(table.register(broker("a", "one", "two", address="x:1"), at()))
    finish(table.register(broker("a", "one", "two", address="y:1"), at()))
    assert table.tables.lease_of(BrokerKey(CLUSTER, "a", "x:1")) is None
    assert table.tables.broker_count == 1


def test_a_newcomer_of_an_older_state_does_not_take_the_id(table: RouteTable):
    finish(table.register(broker("a", "one", "two", address="x:1", state=2), at()))
    told = finish(table.register(broker("a", "three", "four", address="y:1", state=1), at()))

    assert told is None
    assert addresses(table, "one") == {"a": {0: "x:1"}}
    assert set(table.tables.topics()) == {"one", "two"}
    assert table.tables.lease_of(BrokerKey(CLUSTER, "a", "y:1")) is None


def test_a_newcomer_of_the_same_state_takes_the_id(table: RouteTable):
    finish(table.register(broker("a", "one", "two", address="x:1", state=2), at()))
    finish(table.register(broker("a", "one", "two", address="y:1", state=2), at()))
    assert addresses(table, "one") == {"a": {0: "y:1"}}


def test_the_last_of_a_group_takes_everything_with_it(table: RouteTable):
    finish(table.register(broker("a", "one", "two", filter_servers=("f:1",)), at()))
    finish(table.register(broker("b", "one", "two"), at()))
    leave(table, "a")
    assert addresses(table, "one") == {"b": {0: "b-0:10911"}}
    leave(table, "b")

    info = table.tables.cluster_info()
    assert (info.brokers, info.clusters, table.tables.topics(), table.tables.broker_count) == ({}, {}, (), 0)


def test_one_of_three_leaves(table: RouteTable):
    for broker_id in range(3):
        finish(table.register(broker("a", "one", "two", broker_id=broker_id), at()))
    leave(table, "a", 2)
    assert table.tables.member_group("a") == {0: "a-0:10911", 1: "a-1:10911"}
    assert table.tables.member_group("unknown") == {}


def test_an_unknown_client_may_leave(table: RouteTable):
    assert not leave(table, "a")
    finish(table.register(broker("a", "one", "two"), at()))
    assert not leave(table, "a", 7)
    assert addresses(table, "one") == {"a": {0: "a-0:10911"}}


def test_the_same_address_in_two_clusters_is_two_brokers(table: RouteTable):
    finish(table.register(broker("a", "one", "two", cluster="c1", address="x:1", version=1), at()))
    finish(table.register(broker("b", "one", "two", cluster="c2", address="x:1", version=2), at()))
    assert table.tables.lease_of(BrokerKey("c1", "a", "x:1")).data_version.counter == 1
    assert table.tables.lease_of(BrokerKey("c2", "b", "x:1")).data_version.counter == 2
    finish(table.unregister(BrokerKey("c1", "a", "x:1"), at()))
    assert table.tables.lease_of(BrokerKey("c1", "a", "x:1")) is None
    assert table.tables.lease_of(BrokerKey("c2", "b", "x:1")) is not None


def test_two_names_at_one_address_are_two_brokers(table: RouteTable) -> None:
    finish(table.register(broker("old", "one", "two", address="x:1"), at()))
    finish(table.register(broker("new", "one", "two", address="x:1"), at()))
    assert addresses(table, "one") == {"old": {0: "x:1"}, "new": {0: "x:1"}}
    assert finish(table.unregister(BrokerKey(CLUSTER, "old", "x:1"), at()))
    assert addresses(table, "one") == {"new": {0: "x:1"}}


def test_who_takes_an_id_over_from_another_cluster_ends_the_lease_of_who_had_it(table: RouteTable) -> None:
    finish(table.register(broker("b", "three", "four", cluster="c2", address="x:1"), at()))
    finish(table.register(broker("a", "one", "two", cluster="c1", address="x:1"), at()))
    finish(table.register(broker("a", "one", "two", cluster="c2", address="y:1"), at()))
    assert addresses(table, "one") == {"a": {0: "y:1"}}
    assert [key for key, _ in table.tables.leases] == [BrokerKey("c2", "b", "x:1"), BrokerKey("c2", "a", "y:1")]


def test_a_silent_broker_leaves_the_route_when_its_lease_ends(table: RouteTable):
    finish(table.register(broker("a", "orders", "x"), at()))
    finish(table.register(broker("b", "orders", "x", lease_ms=30_000), at(), now_ms=60_000))

    assert expire_all(table, 90_000) == []
    assert expire_all(table, 90_001) == [key_of("b")]
    assert finish(table.expire(key_of("a"), at(), 120_000)) is None
    assert expire_all(table, 120_001) == [key_of("a")]
    assert finish(table.expire(key_of("a"), at(), 120_001)) is None
    assert table.tables.topics() == ()


def test_a_renewed_lease_lasts_on(table: RouteTable):
    finish(table.register(broker("a", "orders", "x"), at(0)))
    assert table.tables.leases.renew(key_of("a"), 100_000)
    assert not table.tables.leases.renew(key_of("unknown"), 100_000)
    assert expire_all(table, 220_000) == []
    assert [key.broker_name for key in expire_all(table, 220_001)] == ["a"]


def test_the_end_of_a_connection_takes_its_brokers_and_no_others(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(), owner=1))
    finish(table.register(broker("b", "one", "two"), at(), owner=1))
    finish(table.register(broker("d", "one", "two"), at(), owner=2))
    assert set(finish(table.disconnect(1, at()))) == {key_of("a"), key_of("b")}
    assert addresses(table, "one") == {"d": {0: "d-0:10911"}}
    assert finish(table.disconnect(1, at())) == ()
    assert (bool(table.tables.leases.owned_by(1)), bool(table.tables.leases.owned_by(2))) == (False, True)


def test_an_old_connections_end_spares_a_newer_registration_11043(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(), owner=1))
    finish(table.register(broker("a", "one", "two"), at(), owner=2))
    assert finish(table.disconnect(1, at())) == ()
    assert addresses(table, "one") == {"a": {0: "a-0:10911"}}


def test_a_late_unregistration_spares_a_newer_registration_11043(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(), owner=1))
    finish(table.register(broker("a", "one", "two"), at(), owner=2))
    assert not leave(table, "a", owner=1)
    assert addresses(table, "one") == {"a": {0: "a-0:10911"}}
    assert leave(table, "a", owner=3)
    assert table.tables.topics() == ()


def test_a_late_registration_through_the_old_connection_does_not_take_the_lease_back_11043(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(), owner=2))
    finish(table.register(broker("a", "one", "two"), at(), owner=1))
    assert finish(table.disconnect(1, at())) == ()
    assert finish(table.disconnect(2, at())) == (key_of("a"),)


def test_a_heartbeat_through_another_connection_does_not_take_the_lease_along(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(), owner=1))
    table.tables.leases.renew(key_of("a"), 10)
    assert finish(table.disconnect(2, at())) == ()
    assert finish(table.disconnect(1, at())) == (key_of("a"),)


def test_write_permission_is_wiped_and_added(table: RouteTable):
    finish(table.register(broker("a", "one", "two", perm=7), at()))
    finish(table.register(broker("b", "one", "two"), at()))
    assert finish(table.wipe_write_perm("a", at())) == 2
    assert perms(table, "one") == {"a": 5, "b": 6}
    assert finish(table.add_write_perm("a", at())) == 2
    assert perms(table, "one") == {"a": 6, "b": 6}
    assert finish(table.wipe_write_perm("unknown", at())) == 0


def test_a_wiped_permission_survives_an_unchanged_registration_and_no_changed_one(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    finish(table.wipe_write_perm("a", at()))
    finish(table.register(broker("a", "one", "two"), at()))
    assert perms(table, "one") == {"a": 4}
    finish(table.register(broker("a", "one", "two", version=2), at()))
    assert perms(table, "one") == {"a": 6}


def test_a_topic_is_deleted_wholly_or_in_one_cluster(table: RouteTable):
    for name, cluster in (("a", "c1"), ("b", "c2")):
        finish(table.register(broker(name, "one", "two", cluster=cluster), at()))
    table.delete_topic("one", at(), "unknown")
    table.delete_topic("nothing", at())
    assert set(addresses(table, "one")) == {"a", "b"}
    table.delete_topic("one", at(), "c1")
    assert set(addresses(table, "one")) == {"b"}
    table.delete_topic("one", at(), "c2")
    table.delete_topic("two", at())
    assert table.tables.topics() == ()
    assert set(table.tables.cluster_info().brokers) == {"a", "b"}


def test_a_single_topic_is_registered_on_known_brokers_or_not_at_all(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    assert not finish(table.register_topic("new", [queue("a"), queue("unknown")], at()))
    assert table.tables.lookup("new") is None
    assert finish(table.register_topic("new", [queue("a", count=3)], at()))
    assert finish(table.register_topic("one", [queue("a", count=3)], at()))
    assert [found.read_queue_count for topic in ("new", "one") for found in table.tables.lookup(topic).queues] == [3, 3]


def test_topics_of_a_cluster_and_topics_by_flag(table: RouteTable):
    finish(table.register(broker("a", "one", "two", cluster="c1"), at()))
    finish(table.register(broker("b", "two", "three", cluster="c2"), at()))
    finish(table.register_topic("unit", [queue("a", flag=1)], at()))
    finish(table.register_topic("both", [queue("a", flag=3)], at()))
    finish(table.register_topic("sub", [queue("a", flag=2)], at()))

    assert set(finish(table.tables.topics_of_cluster("c2"))) == {"two", "three"}
    assert list(finish(table.tables.topics_of_cluster("unknown"))) == []
    assert set(finish(table.tables.topics_by_flag(1))) == {"unit", "both"}
    assert set(finish(table.tables.topics_by_flag(2))) == {"both", "sub"}
    assert set(finish(table.tables.topics_by_flag(2, 1))) == {"sub"}


def test_filter_servers_are_kept_removed_or_replaced(table: RouteTable):
    finish(table.register(broker("a", "one", "two", filter_servers=("f:1",)), at()))
    assert table.tables.lookup("one").filter_servers == {"a-0:10911": ("f:1",)}
    finish(table.register(broker("a", "one", "two"), at()))
    assert table.tables.lookup("one").filter_servers == {"a-0:10911": ("f:1",)}
    finish(table.register(broker("a", "one", "two", filter_servers=("f:2",)), at()))
    assert table.tables.lookup("one").filter_servers == {"a-0:10911": ("f:2",)}
    finish(table.register(broker("a", "one", "two", filter_servers=()), at()))
    assert table.tables.lookup("one").filter_servers == {}


def test_an_answer_is_a_copy(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    before = table.tables.lookup("one")
    finish(table.register(broker("a", "one", "two", broker_id=1), at()))
    assert dict(before.brokers[0].addresses) == {0: "a-0:10911"}


def test_every_change_is_told_with_its_cause_and_nothing_else_is(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at(5)))
    joined, topics = table.tables.take_changes()
    assert (joined.kind, joined.address, joined.trigger) == (ChangeKind.BROKER_JOINED, "a-0:10911", at(5))
    assert [(change.topic, change.before) for change in topics.queues] == [("one", None), ("two", None)]

    finish(table.register(broker("a", "one", "two", version=2), at(6)))
    assert table.tables.take_changes() == []

    leave(table, "a")
    left, gone = table.tables.take_changes()
    assert (left.kind, left.topics) == (ChangeKind.BROKER_LEFT, ("one", "two"))
    assert [(change.topic, change.after) for change in gone.queues] == [("one", None), ("two", None)]


def test_a_new_member_is_told_to_change_the_routes_of_the_groups_topics(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    table.tables.take_changes()
    finish(table.register(broker("a", "one", "two", broker_id=1), at()))
    (joined,) = table.tables.take_changes()
    assert (joined.kind, joined.broker_id, joined.topics) == (ChangeKind.BROKER_JOINED, 1, ("one", "two"))


@pytest.mark.parametrize(
    "options", [{"zone_name": "z"}, {"acting_master": True}, {"filter_servers": ("f:1",)}, {"address": "y:1"}], ids=str
)
def test_whatever_routes_show_of_a_broker_is_a_change(options: dict, table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    table.tables.take_changes()
    finish(table.register(broker("a", "one", "two", **options), at()))
    assert {"one"} <= {topic for change in table.tables.take_changes() for topic in change.topics}


def test_the_revision_moves_with_every_change_and_not_otherwise(table: RouteTable):
    assert table.tables.revision_of("a") == 0
    seen = []
    for step in (
        lambda: finish(table.register(broker("a", "one", "two"), at())),
        lambda: table.delete_topic("one", at()),
        lambda: finish(table.wipe_write_perm("a", at())),
        lambda: finish(table.register_topic("new", [queue("a")], at())),
        lambda: finish(table.register(broker("a", "x", "y", broker_id=1), at())),
        lambda: leave(table, "a", 1),
    ):
        step()
        seen.append(table.tables.revision_of("a"))
    assert len(set(seen)) == len(seen)
    finish(table.register(broker("a", "two", "new"), at()))
    table.tables.leases.renew(key_of("a"), 1)
    assert table.tables.revision_of("a") == seen[-1]


def test_a_smaller_id_that_joins_is_told_to_the_others(table: RouteTable):
    finish(table.register(broker("a", "one", "two", broker_id=2), at()))
    assert table.take_notices() == []
    finish(table.register(broker("a", "one", "two", broker_id=1), at()))
    (notice,) = table.take_notices()
    assert notice[:5] == ("a", 1, "a-1:10911", None, "ha-a-1:10911")
    assert notice.targets == ("a-2:10911",)


def test_the_smallest_id_that_leaves_is_told_to_those_who_stay(table: RouteTable):
    for broker_id in range(3):
        finish(table.register(broker("a", "one", "two", broker_id=broker_id, acting_master=True), at()))
    table.take_notices()
    leave(table, "a", 2)
    assert table.take_notices() == []
    leave(table, "a", 0)
    (notice,) = table.take_notices()
    assert notice[:5] == ("a", 1, "a-1:10911", "a-0:10911", None)
    assert (notice.targets, notice.needs_acting_master) == (("a-1:10911",), True)


def test_groups_clusters_and_topics_together(table: RouteTable):
    topics = [f"T{number}" for number in range(10)]
    for group in range(3):
        for broker_id in range(3):
            finish(table.register(broker(f"g{group}", *topics, broker_id=broker_id), at()))
    info = table.tables.cluster_info()
    assert info.clusters == {CLUSTER: ("g0", "g1", "g2")}
    assert all(len(found.addresses) == 3 for found in info.brokers.values())
    assert set(finish(table.tables.topics_of_cluster(CLUSTER))) == set(topics)
    route = table.tables.lookup("T0")
    assert (len(route.queues), len(route.brokers)) == (3, 3)


STEPS = int(os.environ.get("ORBITMQ_MODEL_STEPS", examples(6000)))
STEPS_PER_RUN = 60
SEED = os.environ.get("ORBITMQ_SEED", "20261121")


class RouteTableHistory(History, RuleBasedStateMachine):
    """The operations as rules: hypothesis chooses, and shrinks what fails."""

    begin = initialize(deletes_missing_topics=st.booleans())(History.begin)
    compare = invariant()(History.compare)


for operation, arguments in ARGUMENTS.items():
    strategies = {name: st.sampled_from(options) for name, options in arguments.items()}
    setattr(RouteTableHistory, operation, rule(**strategies)(getattr(History, operation)))

TestRouteTableHistory = RouteTableHistory.TestCase
TestRouteTableHistory.settings = settings(
    max_examples=max(1, STEPS // STEPS_PER_RUN), stateful_step_count=STEPS_PER_RUN, deadline=None
)


def test_histories_that_follow_from_a_seed():
    for number in range(STEPS // STEPS_PER_RUN):
        play(f"{SEED}-{number}", STEPS_PER_RUN)


def slices_of(slices: Slices[object]) -> int:
    return sum(1 for _ in slices) + 1


@each_case((2, 1), (3, 2), (4, 2), (5, 3))
def test_whatever_fits_a_slice_takes_one(count: int, parts: int):
    table = RouteTable(Tables(), slice_topics=2, deletes_missing_topics=True)
    topics = [f"t{number}" for number in range(count)]
    assert slices_of(table.register(broker("a", *topics), at())) == parts
    assert slices_of(table.wipe_write_perm("a", at())) == parts
    assert slices_of(table.register(broker("a", version=2), at())) == parts
    assert table.tables.topics() == ()
    finish(table.register(broker("a", *topics, version=3), at()))
    assert slices_of(table.unregister(key_of("a"), at())) == parts
    assert table.tables.topics() == ()


def test_each_broker_of_a_connection_leaves_in_a_slice_of_its_own(table: RouteTable):
    for name in "abc":
        finish(table.register(broker(name, "one", "two"), at(), owner=1))
    assert slices_of(table.disconnect(1, at())) == 3


def test_a_topic_of_many_brokers_is_registered_in_slices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(route_table, "SLICE_BROKERS", 2)
    table = RouteTable(Tables())
    for name in "abc":
        finish(table.register(broker(name, "one", "two"), at()))
    assert slices_of(table.register_topic("new", [queue(name) for name in "abc"], at())) == 2
    assert slices_of(table.register_topic("newer", [queue("a")], at())) == 1


def test_a_lease_without_an_owner_begins_when_the_clock_does(table: RouteTable):
    finish(table.register(broker("a", "one", "two"), at()))
    lease = table.tables.lease_of(key_of("a"))
    assert lease is not None
    assert (lease.owner, lease.renewed_at_ms) == (0, 0)


def test_a_renewal_says_of_the_master_what_a_registration_would(table: RouteTable):
    version = DataVersion(0, 0, 2)
    assert table.renew(key_of("a"), 0, version, 7, 5) is None
    finish(table.register(broker("a", "one", "two"), at(), 1))
    told = finish(table.register(broker("a", broker_id=1), at(), 2))
    assert told == ("ha-a-0:10911", "a-0:10911")
    assert table.renew(key_of("a", 1), 1, version, 7, 5) == told
    assert table.renew(key_of("a"), 0, version, 7, 5) == MasterAddresses()
    for broker_id, owners in ((0, (1, 7)), (1, (2, 7))):
        lease = table.tables.lease_of(key_of("a", broker_id))
        assert lease is not None
        assert (lease.renewed_at_ms, lease.data_version, lease.owners) == (5, version, owners)


def test_a_broker_that_has_nothing_but_a_lease_was_there(table: RouteTable):
    table.tables.leases.begin(key_of("a"), Lease(0, 100, DataVersion(), "ha"))
    assert leave(table, "a") is True
    assert leave(table, "a") is False


def test_who_changes_to_a_smaller_id_alone_is_told_itself(table: RouteTable):
    finish(table.register(broker("a", "one", "two", broker_id=2, address="x:1"), at()))
    finish(table.register(broker("a", "one", "two", broker_id=1, address="x:1"), at()))
    (notice,) = table.take_notices()
    assert (notice.targets, notice.needs_acting_master) == (("x:1",), False)
