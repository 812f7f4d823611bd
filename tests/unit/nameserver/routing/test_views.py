"""A broker group, and how its routes are shown: acting masters and zones (Java: ZoneRouteRPCHookTest)."""

from __future__ import annotations

from orbitmq.model.route import BrokerData, TopicRoute
from orbitmq.nameserver.routing.tables import BrokerGroup
from orbitmq.nameserver.routing.views import keep_zone, show_acting_masters
from unit.nameserver.support import queue


def test_what_routes_show_is_made_once_per_revision():
    group = BrokerGroup("c", "a", {0: "m", 1: "s"}, zone_name="z", acting_master=True)
    shown = group.data
    assert (shown.cluster, shown.broker_name, dict(shown.addresses)) == ("c", "a", {0: "m", 1: "s"})
    assert (shown.zone_name, shown.enable_acting_master) == ("z", True)
    assert group.data is shown
    group.addresses[2] = "t"
    group.revise(7)
    assert (group.revision, dict(group.data.addresses)) == (7, {0: "m", 1: "s", 2: "t"})
    assert dict(shown.addresses) == {0: "m", 1: "s"}


def test_an_address_is_taken_from_every_id_but_one():
    group = BrokerGroup("c", "a", {0: "x", 1: "y", 2: "x"})
    group.drop_address("x", except_id=2)
    assert group.addresses == {1: "y", 2: "x"}
    group.drop_address("x")
    assert group.addresses == {1: "y"}
    group.drop_address("unknown")
    assert group.addresses == {1: "y"}


def test_the_smallest_id_and_the_id_of_an_address():
    group = BrokerGroup("c", "a", {3: "x", 2: "y"})
    assert (group.smallest_id, group.id_of("x"), group.id_of("z")) == (2, 3, None)
    assert BrokerGroup("c", "b").smallest_id == 0


def test_a_state_is_a_value_that_later_changes_leave_alone():
    group = BrokerGroup("c", "a", {0: "x"}, zone_name="z", acting_master=True)
    before = group.state
    assert before == ({0: "x"}, True, "z")
    group.addresses[1] = "y"
    assert before == ({0: "x"}, True, "z")
    assert group.state != before


def test_a_new_group_has_no_acting_master_no_zone_and_nothing_else():
    group = BrokerGroup("c", "a")
    assert (group.acting_master, group.zone_name, group.revision) == (False, None, 0)
    assert (group.addresses, group.topics, group.clusters) == ({}, {}, {})


def group(name: str, addresses: dict[int, str], *, zone: str | None = None, acting: bool = True) -> BrokerData:
    return BrokerData(cluster="c", broker_name=name, addresses=addresses, zone_name=zone, enable_acting_master=acting)


def route(*brokers: BrokerData, perm: int = 4) -> TopicRoute:
    return TopicRoute(
        queues=tuple(queue(broker.broker_name, perm=perm) for broker in brokers),
        brokers=brokers,
        filter_servers={address: ("f:1",) for broker in brokers for address in broker.addresses.values()},
    )


def shown(topic: str, *brokers: BrokerData, perm: int = 4) -> list[dict[int, str]]:
    return [dict(broker.addresses) for broker in show_acting_masters(topic, route(*brokers, perm=perm)).brokers]


def test_the_smallest_slave_of_a_read_only_group_is_shown_as_master():
    assert shown("t", group("a", {2: "y", 1: "x", 3: "z"})) == [{0: "x", 2: "y", 3: "z"}]


def test_nothing_else_is_relabelled():
    assert shown("t", group("a", {0: "m", 1: "x"})) == [{0: "m", 1: "x"}]
    assert shown("t", group("a", {1: "x"}, acting=False)) == [{1: "x"}]
    assert shown("t", group("a", {1: "x"}), perm=6) == [{1: "x"}]
    assert shown("t", group("a", {})) == [{}]
    assert shown("rmq_sys_SYNC_BROKER_MEMBER_a", group("a", {1: "x"})) == [{1: "x"}]


def test_a_zone_keeps_its_own_brokers_and_those_without_a_master():
    here, there = group("here", {0: "h"}, zone="East"), group("there", {0: "t", 1: "u"}, zone="west")
    orphan, unzoned = group("orphan", {1: "o"}, zone="west"), group("unzoned", {0: "n"})
    kept = keep_zone(route(here, there, orphan, unzoned), "eAST")

    assert [broker.broker_name for broker in kept.brokers] == ["here", "orphan"]
    assert [found.broker_name for found in kept.queues] == ["here", "orphan"]
    assert set(kept.filter_servers) == {"h", "o"}
