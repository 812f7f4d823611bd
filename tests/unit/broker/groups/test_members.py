from __future__ import annotations

import gc
import weakref

import pytest

from orbitmq.broker.groups import members
from orbitmq.broker.groups.members import GroupMember, GroupMembers, HeartbeatSource
from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, Heartbeat, MessageModel, Subscription


def beat(
    client: str,
    *topics: str,
    group: str = "g",
    version: int = 0,
    expression: str = "*",
    bare: bool = False,
    fingerprint: int = 7,
) -> Heartbeat:
    subscriptions = tuple(Subscription(topic=topic, version=version, expression=expression) for topic in topics)
    info = ConsumerInfo(group=group, subscriptions=subscriptions)
    return Heartbeat(
        client_id=client, producer_groups=("p",), consumers=(info,), fingerprint=fingerprint, without_subscriptions=bare
    )


def test_a_new_member_makes_its_group_rebalance_and_a_known_one_does_not() -> None:
    groups: GroupMembers[str] = GroupMembers()
    assert groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0).changed_groups == ("g",)
    assert groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 1).changed_groups == ()
    assert groups.heartbeat(beat("c2", "t"), HeartbeatSource("conn2"), 2).changed_groups == ("g",)
    assert groups.consumer_ids("g") == ["c1", "c2"]
    assert groups.connections("g") == ["conn1", "conn2"]
    assert set(groups.producers["p"]) == {"c1", "c2"}


def test_a_changed_subscription_makes_the_group_rebalance_once() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    assert groups.heartbeat(beat("c1", "t", "u"), HeartbeatSource("conn1"), 1).changed_groups == ("g",)
    assert groups.groups_of("u") == ["g"]
    assert groups.heartbeat(beat("c1", "t", version=1, expression="a"), HeartbeatSource("conn1"), 2).changed_groups == (
        "g",
    )
    assert groups.groups_of("u") == []
    assert (
        groups.heartbeat(beat("c1", "t", version=2, expression="a"), HeartbeatSource("conn1"), 3).changed_groups == ()
    )
    found = groups.find("g")
    assert found is not None
    assert found.subscriptions["t"].version == 2


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t", version=5, expression="new"), HeartbeatSource("conn1"), 0)
    groups.heartbeat(beat("c2", "t", version=4, expression="old"), HeartbeatSource("conn2"), 1)
    assert groups.consumers["g"].subscriptions["t"].expression == "new"


def test_a_client_leaves_with_its_connection() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    groups.heartbeat(beat("c2", "t"), HeartbeatSource("conn2"), 0)
    assert groups.drop_connection("conn1") == ("g",)
    assert groups.drop_connection("conn1") == ()
    assert groups.consumer_ids("g") == ["c2"]


def test_the_end_of_an_old_connection_leaves_the_client_on_its_new_one() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("old"), 0)
    assert groups.heartbeat(beat("c1", "t"), HeartbeatSource("new"), 1).changed_groups == ("g",)
    assert groups.drop_connection("old") == ()
    assert groups.consumer_ids("g") == ["c1"]


def test_a_silent_client_leaves_after_its_time_and_an_empty_group_is_forgotten() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    assert groups.expire(119_999, 120_000) == ()
    assert groups.expire(120_000, 120_000) == ("g",)
    assert groups.find("g") is None
    assert not groups.producers


def test_unregistering_tells_the_others() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    assert groups.unregister("c1", "p", None, "conn1") == ()
    assert not groups.producers
    assert groups.unregister("c1", None, "g", "conn1") == ("g",)
    assert groups.unregister("c1", "p", "g", "conn1") == ()


def test_a_connection_takes_no_broker_out_that_another_one_named() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    assert groups.unregister("c1", "p", "g", "conn2") == ()
    assert groups.consumer_ids("g") == ["c1"]
    assert groups.producer_connection("c1") == "conn1"


def test_a_bare_heartbeat_renews_known_members_and_asks_unknown_ones_for_their_subscriptions() -> None:
    groups: GroupMembers[str] = GroupMembers()
    assert groups.heartbeat(beat("c1", bare=True), HeartbeatSource("conn1"), 0).needs_subscriptions
    assert groups.consumer_ids("g") == []
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    outcome = groups.heartbeat(beat("c1", bare=True), HeartbeatSource("conn1"), 100)
    assert not outcome.needs_subscriptions
    assert groups.consumers["g"].subscriptions.keys() == {"t"}
    assert groups.expire(150, 100) == ()


def test_a_bare_heartbeat_without_a_fingerprint_is_a_whole_one() -> None:
    groups: GroupMembers[str] = GroupMembers()
    assert groups.heartbeat(beat("c1", bare=True, fingerprint=0), HeartbeatSource("conn1"), 0).changed_groups == ("g",)
    assert groups.consumer_ids("g") == ["c1"]


def test_what_a_client_says_of_itself_counts_once_for_each_connection() -> None:
    groups: GroupMembers[str] = GroupMembers()
    for source in (HeartbeatSource("conn1", "JAVA", 1), HeartbeatSource("conn1", "GO", 2)):
        groups.heartbeat(beat("c1"), source, 5)
    for member in (groups.consumers["g"].members["c1"], groups.producers["p"]["c1"]):
        assert (member.language, member.version, member.seen_at_ms) == ("JAVA", 1, 5)
    groups.heartbeat(beat("c1"), HeartbeatSource("conn2", "GO", 2), 6)
    assert groups.consumers["g"].members["c1"].language == "GO"


def test_a_bare_heartbeat_over_another_connection_asks_for_the_subscriptions() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("old"), 0)
    assert groups.heartbeat(beat("c1", bare=True), HeartbeatSource("new"), 1).needs_subscriptions
    assert not groups.heartbeat(beat("c1", bare=True), HeartbeatSource("old"), 1).needs_subscriptions


def test_a_group_takes_no_more_members_than_it_may_have_and_keeps_those_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MEMBERS_PER_GROUP_MAX", 1)
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 0)
    assert groups.heartbeat(beat("c2", "t"), HeartbeatSource("conn2"), 0).changed_groups == ()
    assert groups.consumer_ids("g") == ["c1"]
    assert list(groups.producers["p"]) == ["c1"]
    groups.heartbeat(beat("c1", "t"), HeartbeatSource("conn1"), 10)
    assert groups.expire(14, 5) == ()
    assert groups.producers["p"]["c1"].seen_at_ms == 10


def test_a_group_is_what_its_last_heartbeat_said() -> None:
    groups: GroupMembers[str] = GroupMembers()
    info = ConsumerInfo(
        group="g",
        consume_type=ConsumeType.PULL,
        message_model=MessageModel.BROADCASTING,
        consume_from=ConsumeFrom.FIRST,
    )
    source = HeartbeatSource("conn", language="JAVA", version=479)
    groups.heartbeat(Heartbeat(client_id="c1", consumers=(info,)), source, 7)
    group = groups.consumers["g"]
    assert (group.consume_type, group.message_model, group.consume_from) == (
        ConsumeType.PULL,
        MessageModel.BROADCASTING,
        ConsumeFrom.FIRST,
    )
    assert group.members == {"c1": GroupMember("c1", "conn", "JAVA", 479, 7)}


def test_of_a_source_nothing_but_its_connection_need_be_known() -> None:
    assert HeartbeatSource("conn") == ("conn", "OTHER", 0)


def test_a_connection_that_closed_is_not_kept() -> None:
    class Connection:
        pass

    groups: GroupMembers[Connection] = GroupMembers()
    connection = Connection()
    gone = weakref.ref(connection)
    groups.heartbeat(beat("c1", "t"), HeartbeatSource(connection), 0)
    assert groups.drop_connection(connection) == ("g",)
    del connection
    gc.collect()
    assert gone() is None


def test_a_producer_is_found_by_its_client_id_through_the_connection_it_was_heard_of_last() -> None:
    groups: GroupMembers[str] = GroupMembers()
    assert groups.producer_connection("c1") is None
    groups.heartbeat(Heartbeat(client_id="c1", producer_groups=("p", "q")), HeartbeatSource("old"), 0)
    groups.heartbeat(Heartbeat(client_id="c1", producer_groups=("q",)), HeartbeatSource("new"), 1)
    assert groups.producer_connection("c1") == "new"
    groups.unregister("c1", "q", None, "new")
    assert groups.producer_connection("c1") == "old"
    groups.drop_connection("old")
    assert groups.producer_connection("c1") is None


def test_a_client_that_only_consumes_is_no_producer() -> None:
    groups: GroupMembers[str] = GroupMembers()
    groups.heartbeat(Heartbeat(client_id="c1", consumers=(ConsumerInfo(group="g"),)), HeartbeatSource("conn"), 0)
    assert groups.producer_connection("c1") is None


def test_a_client_whose_group_is_full_is_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MEMBERS_PER_GROUP_MAX", 1)
    groups: GroupMembers[str] = GroupMembers()
    for client_id in ("c1", "c2"):
        groups.heartbeat(Heartbeat(client_id=client_id, producer_groups=("p",)), HeartbeatSource(client_id), 0)
    assert (groups.producer_connection("c1"), groups.producer_connection("c2")) == ("c1", None)
    groups.drop_connection("c2")


def test_the_producers_of_a_group_have_their_turns() -> None:
    members: GroupMembers[str] = GroupMembers()
    assert members.next_producer("p") is None
    for client in ("a", "b", "c"):
        members.heartbeat(Heartbeat(client_id=client, producer_groups=("p",)), HeartbeatSource(f"to {client}"), 0)
    members.heartbeat(Heartbeat(client_id="d", producer_groups=("q",)), HeartbeatSource("to d"), 0)
    assert [members.next_producer("p") for _ in range(4)] == ["to a", "to b", "to c", "to a"]
    members.drop_connection("to b")
    assert [members.next_producer("p") for _ in range(3)] == ["to c", "to a", "to c"]
