"""Claims about a broker group."""

from __future__ import annotations

from orbitmq.nameserver.routing.group import Group


def test_what_routes_show_is_made_once_per_revision():
    group = Group("c", "a", {0: "m", 1: "s"}, zone_name="z", acting_master=True)
    shown = group.data
    assert (shown.cluster, shown.broker_name, dict(shown.addresses)) == ("c", "a", {0: "m", 1: "s"})
    assert (shown.zone_name, shown.enable_acting_master) == ("z", True)
    assert group.data is shown
    group.addresses[2] = "t"
    group.revise(7)
    assert (group.revision, dict(group.data.addresses)) == (7, {0: "m", 1: "s", 2: "t"})
    assert dict(shown.addresses) == {0: "m", 1: "s"}


def test_an_address_is_taken_from_every_id_but_one():
    group = Group("c", "a", {0: "x", 1: "y", 2: "x"})
    group.drop_address("x", except_id=2)
    assert group.addresses == {1: "y", 2: "x"}
    group.drop_address("x")
    assert group.addresses == {1: "y"}
    group.drop_address("unknown")
    assert group.addresses == {1: "y"}


def test_the_smallest_id_and_the_id_of_an_address():
    group = Group("c", "a", {3: "x", 2: "y"})
    assert (group.smallest_id, group.id_of("x"), group.id_of("z")) == (2, 3, None)
    assert Group("c", "b").smallest_id == 0


def test_a_state_is_a_value_that_later_changes_leave_alone():
    group = Group("c", "a", {0: "x"}, zone_name="z", acting_master=True)
    before = group.state
    assert before == ({0: "x"}, True, "z")
    group.addresses[1] = "y"
    assert before == ({0: "x"}, True, "z")
    assert group.state != before


def test_a_new_group_has_no_acting_master_no_zone_and_nothing_else():
    group = Group("c", "a")
    assert (group.acting_master, group.zone_name, group.revision) == (False, None, 0)
    assert (group.addresses, group.topics, group.clusters) == ({}, {}, {})
