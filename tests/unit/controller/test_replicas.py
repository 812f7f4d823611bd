"""The replicated state machine, and the choice of a master."""

from itertools import chain, combinations, product

import orjson
import pytest

from cases import each_case
from orbitmq.controller.commands import ApplyBrokerId, CleanBrokers, ElectMaster, encode_command
from orbitmq.controller.decisions import elect
from orbitmq.controller.replicas import Replicas
from orbitmq.errors import UnreadableState
from unit.controller.groups import group, living

JOIN = ApplyBrokerId(cluster="c", name="orders", broker_id=1, address="a:1", check_code="a:1;9")
ELECT = ElectMaster(name="orders", asker=1, living=living(1), now_ms=7)


def machine(*commands):
    made = Replicas()
    for command in commands:
        made.apply(encode_command(command))
    return made


def test_a_decision_changes_nothing_until_it_is_applied():
    state = machine(JOIN)
    assert state.decide(ELECT).group.master == 1
    assert state.find("orders").master is None
    assert state.apply(encode_command(ELECT)).group is state.find("orders")
    assert state.find("orders").master == 1


def test_an_entry_without_a_command_changes_nothing():
    state = machine(JOIN)
    assert state.apply(b"").code == 0
    assert list(state.groups) == ["orders"]


def test_a_group_without_members_is_kept_but_not_found():
    state = machine(JOIN, CleanBrokers(name="orders", is_forced=True, living=living(), now_ms=1))
    assert state.find("orders") is None
    assert state.groups["orders"].next_id == 2


def test_a_snapshot_brings_the_whole_state_back():
    state, other = machine(JOIN, ELECT), machine()
    other.restore(state.snapshot())
    assert other.groups == state.groups
    assert other.snapshot() == state.snapshot()


def test_a_snapshot_of_too_many_groups_is_refused_though_each_is_one(monkeypatch):
    state = machine(JOIN)
    monkeypatch.setattr("orbitmq.controller.replicas.GROUPS_MAX", 0)
    with pytest.raises(UnreadableState, match="more than 0 groups"):
        machine().restore(state.snapshot())


@each_case(
    {"v": 2}, {"groups": 5}, {"groups": [{}]}, {"groups": [{"replicas": {}, "name": ""}]}, {"groups": [None] * 10_001}
)
def test_a_snapshot_that_is_none_leaves_the_state_alone(change):
    state = machine(JOIN)
    with pytest.raises(UnreadableState):
        state.restore(orjson.dumps({**orjson.loads(state.snapshot()), **change}))
    assert list(state.groups) == ["orders"]


@each_case(
    ("master", "1"),
    ("next_id", -1),
    ("was_led", 1),
    ("sync_set", 1),
    ("replicas", {"x": ["a", "b"]}),
    ("replicas", {"1": ["a"]}),
    ("replicas", {str(key): ["a", "b"] for key in range(65)}),
)
def test_a_group_with_a_value_outside_of_its_limits_is_no_snapshot(field, value):
    document = orjson.loads(machine(JOIN).snapshot())
    document["groups"][0][field] = value
    with pytest.raises(UnreadableState):
        machine().restore(orjson.dumps(document))


def test_what_is_no_command_stops_the_node():
    with pytest.raises(UnreadableState):
        machine().apply(b"nonsense")


IDS = (1, 2, 3)
SUBSETS = [frozenset(subset) for subset in chain.from_iterable(combinations(IDS, size) for size in range(4))]
STANDINGS = {"m1": (1, 100), "m2": (2, 50), "m3": (2, 70)}
BEST_FIRST = (3, 2, 1)


def expected(alive, sync_set, master, designated, is_unclean):
    """The rule in one sentence each, apart from the code: who may lead, who is kept, who is chosen."""
    for eligible in (alive & sync_set, alive if is_unclean else frozenset()):
        if designated is not None:
            if designated in eligible:
                return designated
        elif master in eligible:
            return master
        elif eligible:
            return next(one for one in BEST_FIRST if one in eligible)
    return None


@each_case(*product([None, *IDS], [None, *IDS], [False, True]))
def test_apache_rocketmq_8380_9717_10416_10875_alive_in_set_and_role_decide_together(master, designated, is_unclean):
    for alive, sync_set in product(SUBSETS, SUBSETS):
        orders = group(IDS, master=master, sync_set=sync_set)
        heard = living(**{key: value for key, value in STANDINGS.items() if int(key[1:]) in alive})
        elected = elect(orders, heard, designated=designated, is_unclean=is_unclean)
        assert elected == expected(alive, sync_set, master, designated, is_unclean), (alive, sync_set)


def test_no_member_outside_the_sync_set_leads_unless_that_is_wanted():
    orders = group(master=1, sync_set=[1, 2])
    assert elect(orders, living(3)) is None
    assert elect(orders, living(3), is_unclean=True) == 3
    assert elect(orders, living(2, 3), is_unclean=True) == 2


def test_the_newer_epoch_wins_before_the_longer_log():
    assert elect(group(sync_set=IDS), living(m1=(7, 10), m2=(6, 1000))) == 1


def test_logs_that_differ_by_three_gibibytes_are_compared_whole():
    assert elect(group(sync_set=IDS), living(m1=(1, 3 << 30), m2=(1, 0))) == 1
    assert elect(group(sync_set=IDS), living(m1=(1, 0), m2=(1, 4 << 30))) == 2


def test_of_equal_logs_the_lower_priority_wins_and_then_the_lower_id():
    assert elect(group(sync_set=IDS), living(m1=(1, 5, 10), m2=(1, 5, 9))) == 2
    assert elect(group(sync_set=IDS), living(m3=(1, 5, 9), m2=(1, 5, 9))) == 2


def test_a_master_that_a_new_controller_has_not_heard_yet_is_kept():
    orders = group(master=1, sync_set=[1, 2])
    assert elect(orders, living(2, unheard=[1])) == 1
    assert elect(orders, living(2, unheard=[1]), designated=2) == 2
    assert elect(orders, living(2)) == 2


def test_a_slave_that_was_not_heard_yet_is_not_elected():
    assert elect(group(master=1, sync_set=[1, 2]), living(unheard=[2])) is None
