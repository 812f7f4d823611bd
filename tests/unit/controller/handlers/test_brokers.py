"""Requests of brokers to a controller, and its answers in the form that Java's brokers read."""

from typing import Any

import orjson
import pytest

from golden import golden
from orbitmq.codes import ResponseCode
from orbitmq.controller.values import Standing
from orbitmq.wire.bodies.controller import SyncSet, encode_sync_set
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import (
    AlterSyncStateSet,
    AlterSyncStateSetResponse,
    ApplyBrokerId,
    BrokerHeartbeat,
    ElectMaster,
    ElectMasterResponse,
    GetNextBrokerId,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    RegisterBrokerToController,
)
from unit.controller.talk import Talk

NAMES: Any = {"cluster_name": "c", "broker_name": "orders"}
ALL = [
    GetNextBrokerId(**NAMES),
    ApplyBrokerId(**NAMES, applied_broker_id=1, register_check_code="a:1;1"),
    RegisterBrokerToController(**NAMES, broker_id=1, broker_address="a:1"),
    GetReplicaInfo(broker_name="orders"),
    ElectMaster(broker_name="orders", broker_id=1),
]


def command_of(name):
    (frame,) = FrameDecoder().feed(golden(name).data)
    return decode_command(frame)


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.mark.parametrize("request_", ALL, ids=lambda header: type(header).__name__)
async def test_who_does_not_lead_sends_brokers_away(request_, talk: Talk):
    talk.consensus.lead(False)
    reply = await talk.ask(request_)
    assert (reply.code, reply.remark) == (2007, "The controller is not in leader state")


async def test_an_id_is_asked_for_taken_and_counted(talk: Talk):
    assert encode_header((await talk.ask(ALL[0])).header)["nextBrokerId"] == "1"
    taken = await talk.ask(ALL[1])
    assert encode_header(taken.header) == {"clusterName": "c", "brokerName": "orders"}
    assert talk.group.address_of(1) == "a:1"
    assert encode_header((await talk.ask(ALL[0])).header)["nextBrokerId"] == "2"
    refused = await talk.ask(ApplyBrokerId(**NAMES, applied_broker_id=1, register_check_code="b:1;1"))
    java = command_of("1013-controller-apply-broker-id-answer-2014")
    assert refused.code == java.code
    assert set(encode_header(refused.header)) == set(java.ext_fields)


async def test_a_registration_tells_of_a_master_that_is_alive(talk: Talk):
    await talk.led(1, 2)
    talk.service.disconnect(2)
    register = RegisterBrokerToController(**NAMES, broker_id=2, broker_address="new:1")
    reply = await talk.ask(register)
    assert encode_header(reply.header) == {
        "clusterName": "c",
        "brokerName": "orders",
        "masterBrokerId": "1",
        "masterAddress": "10.0.0.1:1",
        "masterEpoch": "1",
        "syncStateSetEpoch": "2",
    }
    assert orjson.loads(reply.body) == {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}
    assert talk.group.address_of(2) == "new:1"
    talk.service.liveness.disconnect(1)
    assert set(encode_header((await talk.ask(register)).header)) == {"clusterName", "brokerName"}


async def test_only_members_register():
    reply = await Talk().ask(ALL[2])
    assert (reply.code, reply.body) == (2010, b"")


async def test_the_answer_about_replicas_is_javas(talk: Talk):
    await talk.led(1, 2)
    reply = await talk.ask(ALL[3])
    java = command_of("1004-controller-get-replica-info-answer")
    assert reply.header == GetReplicaInfoResponse(master_broker_id=1, master_address="10.0.0.1:1", master_epoch=1)
    assert set(encode_header(reply.header)) == set(java.ext_fields)
    assert orjson.loads(reply.body).keys() == orjson.loads(java.body).keys()
    missing = await talk.ask(GetReplicaInfo(broker_name="no-such-broker"))
    java = command_of("1004-controller-get-replica-info-answer-2008")
    assert (missing.code, missing.remark) == (java.code, java.remark)


async def test_the_first_broker_that_asks_leads_and_all_are_told(talk: Talk):
    await talk.join(1, 2)
    reply = await talk.ask(ALL[4])
    java = command_of("1002-controller-elect-master-answer")
    assert set(encode_header(reply.header)) == set(java.ext_fields)
    assert reply.header == ElectMasterResponse(
        master_broker_id=1, master_address="10.0.0.1:1", master_epoch=1, sync_state_set_epoch=1
    )
    assert reply.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"10.0.0.1:1",2:"10.0.0.2:1"},"brokerName":"orders","cluster":"c"},'
        b'"syncStateSet":[1]}'
    )
    assert [group.master for group, _ in talk.told] == [1]


async def test_a_member_that_asks_while_a_master_lives_is_told_which(talk: Talk):
    await talk.led(1, 2)
    reply = await talk.ask(ElectMaster(broker_name="orders", broker_id=2))
    java = command_of("1002-controller-elect-master-answer-2011")
    assert reply.code == java.code == 2011
    assert set(encode_header(reply.header)) == set(java.ext_fields)
    assert reply.body == b'{"syncStateSet":[1,2]}'
    assert not talk.told


async def test_an_administrator_chooses_the_master(talk: Talk):
    await talk.led(1, 2)
    await talk.ask(ElectMaster(broker_name="orders", broker_id=2, designate_elect=True))
    assert talk.group.master == 2
    refused = await talk.ask(ElectMaster(broker_name="orders", broker_id=1, designate_elect=True))
    assert refused.code == 2012, "the new master is alone in the set"
    assert encode_header(refused.header) == {}


async def test_an_election_without_a_candidate_deposes_no_master(talk: Talk):
    await talk.led(1, 2)
    assert (await talk.ask(ElectMaster(broker_name="orders", designate_elect=True))).code == 2005
    assert talk.group.master == 1


async def test_any_client_may_ask_for_an_election_which_changes_nothing_while_the_master_lives(talk: Talk):
    await talk.led(1, 2)
    assert (await talk.ask(ElectMaster(broker_name="orders"))).code == 2011


def alter(*ids, epoch=2):
    header = AlterSyncStateSet(broker_name="orders", master_broker_id=1, master_epoch=1)
    return header, encode_sync_set(SyncSet(frozenset(ids), epoch))


async def test_a_master_changes_the_sync_set(talk: Talk):
    await talk.led(1, 2)
    reply = await talk.ask(*alter(1))
    assert reply.header == AlterSyncStateSetResponse(new_sync_state_set_epoch=3)
    assert reply.body == b'{"syncStateSet":[1],"syncStateSetEpoch":3}'
    fenced = await talk.ask(*alter(1, 2))
    assert (fenced.code, fenced.body) == (2001, b"")
    java = command_of("1001-controller-alter-sync-state-set-answer-2002")
    assert encode_header(fenced.header) == dict(java.ext_fields)


async def test_the_set_of_an_unknown_group_and_a_body_that_is_none_are_refused(talk: Talk):
    assert (await talk.ask(*alter(1))).code == 2013
    assert (await talk.ask(alter(1)[0], b"no json")).code == 1


async def test_a_heartbeat_is_heard_by_leaders_and_followers(talk: Talk):
    await talk.join(1)
    talk.consensus.lead(False)
    reply = await talk.heartbeat_received(1, epoch=3, max_offset=70, election_priority=5)
    assert (reply.code, reply.remark) == (0, "Heart beat success")
    assert talk.service.living(talk.group).alive == {1: Standing(3, 70, 5)}


async def test_a_heartbeat_names_its_broker():
    reply = await Talk().ask(BrokerHeartbeat(**NAMES, broker_addr="a:1"))
    assert (reply.code, reply.remark) == (2005, "Heart beat with empty brokerId")


@pytest.mark.parametrize("change", [{"broker_id": 9}, {"broker_name": "other"}, {"cluster_name": "other"}])
async def test_of_strangers_nothing_is_kept(change, talk: Talk):
    await talk.join(1)
    values: Any = {"cluster_name": "c", "broker_name": "orders", "broker_addr": "a:1", "broker_id": 1}
    talk.service.liveness.disconnect(1)
    assert (await talk.ask(BrokerHeartbeat(**(values | change)))).code == 0
    assert talk.service.liveness.count == 0


async def test_a_broker_that_comes_is_connected_to(talk: Talk):
    await talk.join(1)
    await talk.heartbeat_received(1)
    assert talk.newcomers == ["10.0.0.1:1"]


async def test_a_living_members_id_is_not_given_to_another_address():
    talk = Talk()
    await talk.led(1)
    taken = RegisterBrokerToController(**NAMES, broker_id=1, broker_address="10.0.0.7:1")
    refused = await talk.ask(taken)
    assert refused.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "member 1 of orders is alive at 10.0.0.1:1: 10.0.0.7:1 has a copy" in (refused.remark or "")
    talk.service.disconnect(1)
    assert (await talk.ask(taken)).code == ResponseCode.SUCCESS
    assert talk.group.address_of(1) == "10.0.0.7:1"
