"""The replicated state machine: commands in, equal states and outcomes out."""

import orjson
import pytest

from orbitmq.controller.replicas.commands import ApplyBrokerId, CleanBrokers, ElectMaster, encode_command
from orbitmq.controller.replicas.replicas import Replicas
from orbitmq.errors import UnreadableState
from unit.controller.replicas.groups import living

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


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"groups": 5},
        {"groups": [{}]},
        {"groups": [{"replicas": {}, "name": ""}]},
        {"groups": [None] * 10_001},
    ],
    ids=["version", "no list", "no group", "no name", "too many"],
)
def test_a_snapshot_that_is_none_leaves_the_state_alone(change):
    state = machine(JOIN)
    with pytest.raises(UnreadableState):
        state.restore(orjson.dumps({**orjson.loads(state.snapshot()), **change}))
    assert list(state.groups) == ["orders"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("master", "1"),
        ("next_id", -1),
        ("was_led", 1),
        ("sync_set", 1),
        ("replicas", {"x": ["a", "b"]}),
        ("replicas", {"1": ["a"]}),
        ("replicas", {str(key): ["a", "b"] for key in range(65)}),
    ],
)
def test_a_group_with_a_value_outside_of_its_limits_is_no_snapshot(field, value):
    document = orjson.loads(machine(JOIN).snapshot())
    document["groups"][0][field] = value
    with pytest.raises(UnreadableState):
        machine().restore(orjson.dumps(document))


def test_what_is_no_command_stops_the_node():
    with pytest.raises(UnreadableState):
        machine().apply(b"nonsense")
