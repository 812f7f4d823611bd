"""Requests of administrators to a controller."""

from typing import Any

import orjson
import pytest

from golden import golden
from orbitmq.wire.bodies.controller import decode_sync_states, encode_broker_names
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import CleanBrokerData, GetControllerMetadata, GetHealth, GetSyncStates
from unit.controller.talk import Talk

THREE: Any = {"controller_d_leger_peers": "n0-a:1;n1-b:2;n2-c:3", "controller_d_leger_group": "g"}


def command_of(name):
    (frame,) = FrameDecoder().feed(golden(name).data)
    return decode_command(frame)


async def test_every_controller_tells_who_leads():
    talk = Talk(**THREE)
    reply = await talk.ask(GetControllerMetadata())
    assert encode_header(reply.header) == {
        "group": "g",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": "a:1",
        "isLeader": "true",
        "peers": "n0:a:1;n1:b:2;n2:c:3;",
    }
    assert set(encode_header(reply.header)) == set(command_of("1005-controller-get-metadata-info-answer").ext_fields)
    talk.consensus.lead(False)
    reply = await talk.ask(GetControllerMetadata())
    assert encode_header(reply.header) == {"group": "g", "isLeader": "false", "peers": "n0:a:1;n1:b:2;n2:c:3;"}


async def test_members_in_and_out_of_the_sync_set_are_listed():
    talk = Talk()
    await talk.led(1, 2)
    await talk.join(3)
    talk.service.liveness.disconnect(2)
    reply = await talk.ask(GetSyncStates(), encode_broker_names(["orders", "unknown", "orders"]))
    ((name, state),) = decode_sync_states(reply.body).items()
    assert (name, state.master, state.master_address, state.master_epoch) == ("orders", 1, "10.0.0.1:1", 1)
    assert [(member.broker_id, member.is_alive) for member in state.in_sync] == [(1, True), (2, False)]
    assert [(member.broker_id, member.address) for member in state.not_in_sync] == [(3, "10.0.0.3:1")]
    java = orjson.loads(command_of("1006-controller-get-sync-state-data-answer").body)["replicasInfoTable"]["broker-c"]
    assert orjson.loads(reply.body)["replicasInfoTable"]["orders"].keys() == java.keys()


async def test_a_request_for_no_group_gets_an_empty_answer():
    for body in (b"", b"[]"):
        reply = await Talk().ask(GetSyncStates(), body)
        assert (reply.code, reply.body) == (0, b"")


@pytest.mark.parametrize(
    ("request_", "body"), [(GetSyncStates(), b'["orders"]'), (CleanBrokerData(broker_name="a"), b"")]
)
async def test_who_does_not_lead_sends_administrators_away(request_, body):
    talk = Talk()
    talk.consensus.lead(False)
    assert (await talk.ask(request_, body)).code == 2007


async def test_a_dead_member_is_cleaned_away_and_forgotten():
    talk = Talk()
    await talk.led(1, 2)
    clean = CleanBrokerData(broker_name="orders", broker_controller_ids_to_clean="2")
    refused = await talk.ask(clean)
    assert (refused.code, refused.remark) == (2009, "Broker [orders,  2] is still alive, clean up failure")
    talk.service.liveness.disconnect(2)
    assert (await talk.ask(clean)).code == 0
    assert sorted(talk.group.replicas) == [1]


async def test_a_living_member_goes_by_force_and_is_not_alive_any_more():
    talk = Talk()
    await talk.led(1, 2)
    by_force: Any = {"broker_controller_ids_to_clean": "2", "is_clean_living_broker": True}
    assert (await talk.ask(CleanBrokerData(broker_name="orders", **by_force))).code == 0
    assert (sorted(talk.group.replicas), talk.service.liveness.count) == ([1], 1)
    java = command_of("1011-clean-broker-data-answer-2009")
    refused = await talk.ask(CleanBrokerData(broker_name="orders"))
    assert (refused.code, refused.remark) == (java.code, java.remark.replace("broker-c", "orders"))


@pytest.mark.parametrize("ids", ["a", "1;", "-1", "1,2", "9" * 20])
async def test_ids_that_are_none_clean_nothing(ids):
    talk = Talk()
    await talk.led(1)
    reply = await talk.ask(CleanBrokerData(broker_name="orders", broker_controller_ids_to_clean=ids))
    assert reply.code == 2009
    assert sorted(talk.group.replicas) == [1]


async def test_an_unknown_group_is_not_cleaned():
    assert (await Talk().ask(CleanBrokerData(broker_name="unknown"))).code == 2009


async def test_health_is_a_document():
    assert orjson.loads((await Talk().ask(GetHealth())).body) == {"ready": True}
