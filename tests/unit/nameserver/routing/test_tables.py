"""Claims about the tables: every elementary change keeps them in step, is recorded, and gives a new revision."""

from __future__ import annotations

import pytest

from orbitmq.model.route import QueueData
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing import tables as module
from orbitmq.nameserver.routing.events import ChangeKind, QueueChange
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.tables import BrokerGroup, Tables, with_perm
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses
from orbitmq.wire.slices import finish

from ..support import at, queue

KEY = BrokerKey("c", "a", "a:1")


def entered(tables: Tables, name: str, *topics: str, cluster: str = "c", address: str = "a:1") -> BrokerGroup:
    """Enter a broker name with one address and some topics."""
    group = tables.enter_group(name, cluster)
    group.addresses[0] = address
    tables.change_queues(group, [QueueChange(topic, None, queue(name)) for topic in topics], at())
    return group


def lease(ha_address: str = "ha") -> Lease:
    return Lease(0, 100, DataVersion(), ha_address)


@pytest.fixture
def tables() -> Tables:
    return Tables()


def test_a_group_is_entered_once_and_listed_in_each_cluster(tables: Tables):
    group = entered(tables, "a", "t")
    assert tables.enter_group("a", "d") is group
    assert tables.group_of("a") is group
    assert tables.group_of("b") is None
    assert tables.cluster_info().clusters == {"c": ("a",), "d": ("a",)}
    assert list(finish(tables.topics_of_cluster("d"))) == ["t"]


def test_a_change_of_queues_is_recorded_with_a_new_revision_and_none_is_not(tables: Tables):
    group = entered(tables, "a", "t", "u")
    (change,) = tables.take_changes()
    assert (change.kind, change.cluster, change.broker_name) == (ChangeKind.TOPICS_CHANGED, "c", "a")
    assert change.topics == ("t", "u")
    assert tables.take_changes() == []
    before = tables.revision_of("a")
    tables.change_queues(group, [], at())
    assert (tables.take_changes(), tables.revision_of("a")) == ([], before)
    tables.change_queues(group, tables.removals(group, ["t"]), at())
    assert tables.revision_of("a") == before + 1
    assert (tables.lookup("t"), tables.topics(), list(group.topics)) == (None, ("u",), ["u"])


def test_revisions_are_never_used_twice(tables: Tables):
    first = entered(tables, "a", "t")
    second = entered(tables, "b", "t")
    assert (tables.revision_of("a"), tables.revision_of("b"), tables.revision_of("unknown")) == (1, 2, 0)
    tables.drop_group(first, at())
    entered(tables, "a", "t")
    assert tables.revision_of("a") > max(first.revision, second.revision)


def test_the_differences_are_what_has_to_change(tables: Tables):
    group = entered(tables, "a", "same", "other")
    wanted = {"same": queue("a"), "other": queue("a", perm=4), "new": queue("a")}
    assert not tables.agrees_with("a", wanted)
    differences = tables.differences("a", wanted)
    assert [(found.topic, found.before, found.after) for found in differences] == [
        ("other", queue("a"), queue("a", perm=4)),
        ("new", None, queue("a")),
    ]
    tables.change_queues(group, differences, at())
    assert tables.agrees_with("a", wanted)
    assert tables.differences("a", wanted) == []
    assert not tables.agrees_with("b", {"same": queue("b")})


def test_permissions_change_where_the_rule_changes_them(tables: Tables):
    group = entered(tables, "a", "t", "u")
    tables.change_queues(group, [QueueChange("u", queue("a"), queue("a", perm=4))], at())
    tables.take_changes()
    tables.change_perms(group, group.topics, lambda perm: perm & 4, at())
    (change,) = tables.take_changes()
    assert change.queues.topics == ("t",)
    assert [found.perm for topic in ("t", "u") for found in _queues(tables, topic)] == [4, 4]


def test_a_group_that_is_dropped_is_nowhere_any_more(tables: Tables):
    group = entered(tables, "a", "both", "alone")
    entered(tables, "b", "both", cluster="d", address="b:1")
    tables.enter_group("a", "d")
    for topic, name in (("both", "a"), ("both", "b"), ("alone", "a")):
        holder = tables.group_of(name)
        assert holder is not None
        tables.set_mapping(holder, topic, name, {"bname": name})
    tables.take_changes()
    tables.drop_group(group, at())
    assert [change.topics for change in tables.take_changes()] == [("both", "alone")]
    assert tables.group_of("a") is None
    assert tables.topics() == ("both",)
    route = tables.lookup("both")
    assert route is not None
    assert route.queue_mappings == {"b": {"bname": "b"}}
    assert tables.cluster_info().clusters == {"d": ("b",)}


def test_the_mappings_that_a_group_brought_go_with_it_and_are_told(tables: Tables) -> None:
    group = entered(tables, "a", "own")
    entered(tables, "b", "other", cluster="d", address="b:1")
    tables.set_mapping(group, "other", "nobody", {"bname": "nobody"})
    tables.take_changes()
    tables.drop_group(group, at())
    assert [change.topics for change in tables.take_changes()] == [("other",), ("own",)]
    route = tables.lookup("other")
    assert route is not None
    assert route.queue_mappings is None


def test_filter_servers_are_shown_with_the_brokers_of_a_route(tables: Tables):
    entered(tables, "a", "t")
    assert tables.set_filter_servers(KEY, ()) is False
    assert tables.set_filter_servers(KEY, ("f:1",)) is True
    assert tables.set_filter_servers(KEY, ("f:1",)) is False
    assert _route_filter_servers(tables) == {"a:1": ("f:1",)}
    tables.set_filter_servers(BrokerKey("c", "a", "other:1"), ("g:1",))
    assert _route_filter_servers(tables) == {"a:1": ("f:1",)}
    assert tables.set_filter_servers(KEY, ()) is True
    assert _route_filter_servers(tables) == {}


def test_with_its_lease_a_broker_loses_its_filter_servers(tables: Tables):
    entered(tables, "a", "t")
    tables.leases.begin(KEY, lease())
    tables.set_filter_servers(KEY, ("f:1",))
    assert (tables.broker_count, tables.lease_of(KEY) is not None) == (1, True)
    tables.end_lease(KEY)
    assert (tables.broker_count, tables.lease_of(KEY), _route_filter_servers(tables)) == (0, None, {})
    tables.end_lease(KEY)


def test_a_slave_is_told_of_a_master_that_lives_in_its_cluster(tables: Tables):
    entered(tables, "a", "t")
    assert tables.master_of("a", 1, "c") == MasterAddresses()
    tables.leases.begin(KEY, lease())
    assert tables.master_of("a", 1, "c") == MasterAddresses("ha", "a:1")
    for name, broker_id, cluster in (("a", 0, "c"), ("a", 1, "d"), ("b", 1, "c")):
        assert tables.master_of(name, broker_id, cluster) == MasterAddresses()


def test_members_and_broker_names(tables: Tables):
    entered(tables, "a", "t")
    entered(tables, "b", "t", cluster="d", address="b:1")
    assert tables.member_group("a") == {0: "a:1"}
    assert tables.member_group("unknown") == {}
    assert tables.broker_names_of("t") == ["a", "b"]
    assert tables.broker_names_of("t", "d") == ["b"]
    assert tables.broker_names_of("t", "unknown") == tables.broker_names_of("unknown") == []
    assert tables.topic_count == 1


def test_a_permission_that_stays_costs_no_new_value():
    one = queue("a", perm=6, count=3, flag=1)
    assert with_perm(one, 6) is one
    assert with_perm(one, 4) == queue("a", perm=4, count=3, flag=1)


def _queues(tables: Tables, topic: str) -> tuple[QueueData, ...]:
    route = tables.lookup(topic)
    return route.queues if route is not None else ()


def _route_filter_servers(tables: Tables) -> object:
    route = tables.lookup("t")
    return None if route is None else route.filter_servers


@pytest.mark.parametrize("topic", ["t0", "t9"])
def test_a_list_in_slices_leaves_out_what_goes_meanwhile(topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LIST_SLICE", 3)
    tables = Tables()
    group = tables.enter_group("a", "c")
    queue = QueueData(broker_name="a", read_queue_count=1, write_queue_count=1, perm=6, topic_sys_flag=1)
    tables.change_queues(group, tables.differences("a", {f"t{number}": queue for number in range(10)}), at())
    slices = tables.topics_by_flag(1)
    next(slices)
    tables.change_queues(group, tables.removals(group, [topic]), at())
    assert set(finish(slices)) >= {f"t{number}" for number in range(1, 9)}
    assert ("t9" in finish(tables.topics_by_flag(1))) is (topic != "t9")


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_list_looks_at_no_more_in_a_slice_than_it_may(count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LIST_SLICE", 4)
    tables = Tables()
    for number in range(count):
        entered(tables, f"b{number}", f"t{number}", f"u{number}", address=f"b{number}:1")
    assert sum(1 for _ in tables.topics_by_flag(0)) + 1 == (2 * count + 3) // 4
    assert sum(1 for _ in tables.topics_of_cluster("c")) + 1 == count // 3 + 1
