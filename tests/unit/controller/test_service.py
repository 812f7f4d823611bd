"""The service: agreement, elections of their own accord, and what is told to whom."""

import asyncio

import pytest

from orbitmq.controller import service as service_module
from orbitmq.controller.commands import RegisterBroker, encode_command
from orbitmq.errors import LogDiverged, NotLeader, ProposalsFull, Rejected
from unit.controller.talk import Talk

MOVE = RegisterBroker(name="orders", broker_id=1, address="new:1")
STAY = RegisterBroker(name="orders", broker_id=1, address="10.0.0.1:1")


@pytest.fixture
def talk() -> Talk:
    return Talk()


async def test_a_command_that_changes_nothing_costs_a_read_and_no_entry(talk: Talk):
    await talk.join(1)
    talk.consensus.proposed.clear()
    outcome = await talk.service.change(STAY)
    assert (outcome.code, outcome.group) == (0, talk.group)
    assert (len(talk.consensus.proposed), talk.consensus.reads) == (0, 1)
    assert (await talk.service.change(MOVE)).group.address_of(1) == "new:1"
    assert len(talk.consensus.proposed) == 1


async def test_a_command_that_turns_out_to_change_something_after_the_read_is_proposed(talk: Talk):
    await talk.join(1)
    await talk.service.change(MOVE)
    read = talk.consensus.read

    async def catch_up():
        await read()
        talk.replicas.apply(encode_command(STAY))

    talk.consensus.read = catch_up  # type: ignore[method-assign]
    talk.consensus.proposed.clear()
    assert (await talk.service.change(MOVE)).is_change
    assert len(talk.consensus.proposed) == 1


@pytest.mark.parametrize("command", [MOVE, STAY], ids=["change", "none"])
@pytest.mark.parametrize(
    ("failure", "code"),
    [(NotLeader(2), 2007), (ProposalsFull("too much"), 2), (LogDiverged("broken"), 1)],
    ids=["leader", "full", "other"],
)
async def test_what_the_log_refuses_is_an_answer(failure, code, command, talk: Talk):
    await talk.join(1)
    talk.consensus.failure = failure
    with pytest.raises(Rejected) as refused:
        await talk.service.change(command)
    assert refused.value.code == code


@pytest.mark.parametrize("command", [MOVE, STAY], ids=["change", "none"])
async def test_a_node_that_does_not_lead_asks_no_member(command, talk: Talk):
    await talk.join(1)
    talk.consensus.lead(False)
    talk.consensus.failure = AssertionError("asked")
    for work in (talk.service.change(command), talk.service.read()):
        with pytest.raises(Rejected) as refused:
            await work
        assert refused.value.code == 2007


async def test_without_a_majority_there_is_an_answer_in_time(monkeypatch):
    monkeypatch.setattr(service_module, "AGREEMENT_TIMEOUT_S", 0.01)
    talk = Talk()
    await talk.join(1)

    async def never(*_):
        await asyncio.Event().wait()

    talk.consensus.propose = never  # type: ignore[method-assign]
    with pytest.raises(Rejected, match="no majority"):
        await talk.service.change(MOVE)


async def test_the_end_of_a_task_is_not_taken_for_a_missing_majority(talk: Talk):
    await talk.join(1)

    async def never(*_):
        await asyncio.Event().wait()

    talk.consensus.propose = never  # type: ignore[method-assign]
    task = asyncio.create_task(talk.service.change(MOVE))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Elections of their own accord.


async def test_a_closed_connection_of_the_master_is_an_election_immediately(talk: Talk):
    await talk.led(1, 2)
    talk.service.disconnect(1)
    await talk.settle()
    assert (talk.group.master, talk.group.master_epoch) == (2, 2)
    ((group, living),) = talk.told
    assert (group.master, sorted(living.alive)) == (2, [2])
    assert talk.decisions == [0]


async def test_a_slave_that_is_lost_changes_no_role(talk: Talk):
    await talk.led(1, 2)
    talk.service.disconnect(2)
    await talk.settle()
    assert talk.group.master == 1
    assert not talk.told


async def test_a_silent_master_is_replaced_and_its_connection_closed():
    talk, closed = Talk(), []
    await talk.led(1, 2)
    await talk.heartbeat_received(1, heartbeat_timeout_mills=1_000)
    talk.now_ms = 1_001
    talk.service.expire(closed.append)
    await talk.settle()
    assert (talk.group.master, closed) == (2, [1])


async def test_apache_rocketmq_5712_6382_10812_a_new_leader_replaces_a_master_that_was_lost_before_it_led(talk: Talk):
    await talk.led(1, 2)
    talk.consensus.lead(False)
    talk.service.disconnect(1)
    await talk.settle()
    assert talk.group.master == 1, "it is the leader's to elect"
    talk.consensus.lead(True)
    talk.service.scan()
    await talk.settle()
    assert talk.group.master == 2


async def test_a_follower_elects_no_leader(talk: Talk):
    await talk.led(1, 2)
    talk.consensus.lead(False)
    talk.service.disconnect(1)
    talk.service.scan()
    await talk.settle()
    assert not talk.decisions


async def test_a_controller_that_has_just_started_waits_for_the_masters_heartbeat():
    before, talk = Talk(), Talk()
    await before.led(1, 2)
    talk.replicas.restore(before.replicas.snapshot())
    await talk.heartbeat_received(2)
    talk.service.scan()
    await talk.settle()
    assert talk.group.master == 1
    talk.now_ms = 10_000
    talk.service.scan()
    await talk.settle()
    assert talk.group.master == 2


async def test_when_no_member_can_lead_the_first_of_the_set_that_returns_does(talk: Talk):
    await talk.led(1, 2)
    await talk.join(3)
    for broker_id in (2, 1):
        talk.service.disconnect(broker_id)
    await talk.settle()
    assert talk.group.master is None
    assert talk.group.sync_set == {1, 2}
    assert not talk.told
    talk.service.scan()
    await talk.settle()
    assert talk.decisions == [2004], "broker 3 lacks messages, and nobody asks for it again"
    await talk.heartbeat_received(2)
    talk.service.scan()
    await talk.settle()
    assert talk.group.master == 2


async def test_while_no_member_is_alive_the_master_stays(talk: Talk):
    await talk.led(1)
    talk.service.disconnect(1)
    talk.service.scan()
    await talk.settle()
    assert (talk.group.master, talk.group.master_epoch) == (1, 1)


async def test_with_unclean_elections_any_member_takes_over():
    talk = Talk(enable_elect_unclean_master=True)
    await talk.led(1)
    await talk.join(2)
    talk.service.disconnect(1)
    await talk.settle()
    assert talk.group.master == 2


async def test_one_election_of_a_group_is_enough_at_a_time(talk: Talk):
    await talk.led(1, 2)
    talk.service.disconnect(1)
    talk.service.scan()
    talk.service.scan()
    await talk.settle()
    assert talk.decisions == [0]


async def test_an_election_that_failed_is_tried_again(talk: Talk):
    await talk.led(1, 2)
    talk.consensus.failure = ProposalsFull("too much")
    talk.service.disconnect(1)
    await talk.settle()
    assert talk.group.master == 1
    talk.consensus.failure = None
    talk.service.scan()
    await talk.settle()
    assert talk.group.master == 2


async def test_a_group_that_never_had_a_master_is_left_alone(talk: Talk):
    await talk.join(1, 2)
    talk.service.scan()
    await talk.settle()
    assert not talk.decisions


async def test_brokers_may_be_left_to_find_their_master_themselves():
    talk = Talk(notify_broker_role_changed=False)
    await talk.led(1, 2)
    talk.service.disconnect(1)
    await talk.settle()
    assert talk.group.master == 2
    assert not talk.told


async def test_the_end_of_the_service_ends_its_work(talk: Talk):
    await talk.led(1, 2)

    async def never(*_):
        await asyncio.Event().wait()

    talk.consensus.propose = never  # type: ignore[method-assign]
    talk.service.disconnect(1)
    await talk.service.close()
    assert talk.group.master == 1
