"""Bodies of controllers, as Java 5.3.3 writes them."""

from itertools import product

import orjson
import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.wire.bodies import controller as controller


@each_case(
    "1001-controller-alter-sync-state-set-request",
    "1001-controller-alter-sync-state-set-answer",
    "1003-controller-register-broker-answer",
    "1004-controller-get-replica-info-answer",
    "1008-notify-broker-role-changed-request",
)
def test_a_sync_set_is_written_as_java_writes_it(name):
    body = golden(name).body
    assert controller.encode_sync_set(controller.decode_sync_set(body)) == body


@each_case(b"", b"{}", b'{"syncStateSet":[1]}', b'{"syncStateSet":1,"syncStateSetEpoch":1}')
def test_a_body_that_is_no_sync_set_is_told(body):
    with pytest.raises(HeaderError, match="SyncStateSet"):
        controller.decode_sync_set(body)


def test_an_election_is_written_as_java_writes_it():
    body = golden("1002-controller-elect-master-answer").body
    members = orjson.loads(body.replace(b"{1:", b'{"1":').replace(b",2:", b',"2":'))
    group = members["brokerMemberGroup"]
    addresses = {int(key): value for key, value in group["brokerAddrs"].items()}
    written = controller.encode_election(members["syncStateSet"], (group["cluster"], group["brokerName"], addresses))
    assert written == body


def test_an_election_that_changed_nothing_is_written_as_java_writes_it():
    body = golden("1002-controller-elect-master-answer-2011").body
    assert controller.encode_election(orjson.loads(body)["syncStateSet"], None) == body


def test_names_are_read_as_java_writes_them():
    body = golden("1006-controller-get-sync-state-data-request").body
    assert controller.decode_broker_names(body) == ["broker-c"]
    assert controller.encode_broker_names(["broker-c"]) == body
    assert controller.decode_broker_names(b"") == []


@each_case(b"{", b"{}", b"[1]", orjson.dumps(["a"] * 10_001))
def test_names_that_are_none_are_refused(body):
    with pytest.raises(HeaderError, match="broker names"):
        controller.decode_broker_names(body)


def test_members_are_written_as_java_writes_them():
    body = golden("1006-controller-get-sync-state-data-answer").body
    assert controller.encode_sync_states(controller.decode_sync_states(body)) == body


def test_without_a_master_its_fields_are_left_out():
    state = controller.SyncState(None, None, 3, 4, (), (controller.BrokerMember("b", 1, "a:1", is_alive=False),))
    body = controller.encode_sync_states({"b": state})
    assert b"master" in body
    assert b"masterBrokerId" not in body
    assert controller.decode_sync_states(body) == {"b": state}


def test_epochs_are_written_as_java_writes_them():
    body = golden("1007-get-broker-epoch-cache-answer").body
    epochs = controller.decode_epochs(body)
    assert epochs.epochs[-1].end_offset == 2**63 - 1
    assert controller.encode_epochs(epochs) == body


@each_case(
    *product(
        [controller.decode_sync_states, controller.decode_epochs],
        [b"{}", b"[]", b'{"replicasInfoTable":{"b":5},"epochList":[5]}'],
    )
)
def test_other_bodies_are_refused(decode, body):
    with pytest.raises(HeaderError):
        decode(body)
