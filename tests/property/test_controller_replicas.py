"""Rules of the controllers' state machine that hold for every sequence of commands."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.controller.commands import (
    AlterSyncSet,
    ApplyBrokerId,
    CleanBrokers,
    ElectMaster,
    RegisterBroker,
    decode_command,
    encode_command,
)
from orbitmq.controller.replicas import Replicas
from orbitmq.controller.values import LiveMembers, Standing
from orbitmq.errors import UnreadableState

IDS = st.integers(0, 5)
SETS = st.frozensets(st.integers(1, 4), max_size=4)
NAMES = st.sampled_from(["a", "b"])
CODES = st.sampled_from(["x;1", "x;2", "x;3"])
LIVING = st.builds(
    LiveMembers,
    st.dictionaries(
        IDS, st.builds(Standing, st.integers(-1, 9), st.integers(-1, 2**40), st.integers(0, 3)), max_size=4
    ),
    SETS,
)
EPOCHS = st.integers(0, 6)
COMMANDS = st.one_of(
    st.builds(
        ApplyBrokerId,
        cluster=st.sampled_from(["c", "d"]),
        name=NAMES,
        broker_id=IDS,
        address=st.just("x:1"),
        check_code=CODES,
    ),
    st.builds(RegisterBroker, name=NAMES, broker_id=IDS, address=st.sampled_from(["x:1", "y:1"])),
    st.builds(
        ElectMaster,
        name=NAMES,
        asker=st.none() | IDS,
        designated=st.none() | IDS,
        is_unclean=st.booleans(),
        living=LIVING,
        now_ms=st.integers(0, 100),
    ),
    st.builds(
        AlterSyncSet, name=NAMES, master=IDS, master_epoch=EPOCHS, sync_set=SETS, sync_set_epoch=EPOCHS, living=LIVING
    ),
    st.builds(
        CleanBrokers,
        name=NAMES,
        broker_ids=st.none() | SETS,
        is_forced=st.booleans(),
        living=LIVING,
        now_ms=st.integers(0, 100),
    ),
)


@given(COMMANDS)
def test_a_command_survives_the_log(command):
    assert decode_command(encode_command(command)) == command


@given(st.lists(COMMANDS, max_size=40))
def test_ids_are_given_once_epochs_only_grow_and_masters_are_members_of_their_sets(commands):
    state = Replicas()
    owners: dict[tuple[str, int], str] = {}
    for command in commands:
        before = dict(state.groups)
        announced = state.decide(command)
        outcome = state.apply(encode_command(command))
        assert outcome == announced
        assert outcome.is_change == (before != state.groups)
        for name, group in state.groups.items():
            old = before.get(name)
            for broker_id, member in group.replicas.items():
                assert broker_id < group.next_id
                assert owners.setdefault((name, broker_id), member.check_code) == member.check_code
            assert group.sync_set <= group.replicas.keys()
            assert group.master is None or group.master in group.sync_set
            if old is None:
                continue
            assert group.next_id >= old.next_id
            assert (group.master_epoch > old.master_epoch) == (group.master != old.master)
            assert group.master_epoch >= old.master_epoch
            assert (group.sync_set_epoch > old.sync_set_epoch) or group.sync_set == old.sync_set
            if group.master not in (None, old.master) and old.was_led and not command.is_unclean:
                assert group.master in old.sync_set, "nobody outside of the set leads"


@given(st.lists(COMMANDS, max_size=20), st.lists(COMMANDS, max_size=20))
def test_a_node_that_begins_with_a_snapshot_decides_as_those_that_saw_everything(first, rest):
    whole, restored = Replicas(), Replicas()
    for command in first:
        whole.apply(encode_command(command))
    restored.restore(whole.snapshot())
    for command in rest:
        data = encode_command(command)
        assert whole.apply(data) == restored.apply(data)
    assert whole.snapshot() == restored.snapshot()


@given(COMMANDS, st.integers(0, 10_000), st.binary(max_size=3))
def test_injured_commands_are_unreadable_or_commands_and_nothing_else(command, place, bytes_):
    data = bytearray(encode_command(command))
    place %= len(data)
    data[place : place + len(bytes_)] = bytes_
    with contextlib.suppress(UnreadableState):
        decode_command(bytes(data))


@given(st.lists(COMMANDS, max_size=10), st.integers(0, 10_000), st.binary(max_size=3))
def test_injured_snapshots_are_unreadable_or_states_and_nothing_else(commands, place, bytes_):
    state = Replicas()
    for command in commands:
        state.apply(encode_command(command))
    data = bytearray(state.snapshot())
    place %= len(data)
    data[place : place + len(bytes_)] = bytes_
    with contextlib.suppress(UnreadableState):
        Replicas().restore(bytes(data))
