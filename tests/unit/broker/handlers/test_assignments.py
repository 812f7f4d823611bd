"""QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.broker.groups.request_modes import RequestModes
from orbitmq.broker.groups.topic_routes import Found
from orbitmq.broker.handlers import assignments as handlers
from orbitmq.broker.topics.table import plain_topic
from orbitmq.errors import Rejected
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.wire.headers import GetAllRequestModes, QueryAssignment, SetRequestMode
from unit.broker.parts import FakePeer, Registries, broker_of, call

QUEUES = [MessageQueue("t", broker, number) for broker in ("b", "a") for number in range(2)]


class Routes:
    """Answers immediately."""

    def __init__(self, found: Found) -> None:
        self.found = found

    def find(self, topic: str, then: Callable[[Found], None]) -> None:
        then(self.found)


def broker_with(tmp_path: Path, *members: str, found: Found = QUEUES) -> Any:
    registries = Registries()
    registries.topics.update(plain_topic("t", 2), 0)
    groups: GroupMembers[Any] = GroupMembers()
    for member in members:
        beat = Heartbeat(client_id=member, consumers=(ConsumerInfo(group="g"),))
        groups.heartbeat(beat, HeartbeatSource(FakePeer(), "JAVA", 479), 0)
    modes = RequestModes(tmp_path / "messageRequestMode.json", default="PULL", share_queue_count=-1)
    broker = broker_of(
        registries, clients_routes=Routes(found), clients_members=groups, config=SimpleNamespace(broker_name="here")
    )
    broker.tables.request_modes = modes
    return broker


def query(parts: Any, client: str = "m", **fields: str) -> Any:
    document = {
        "topic": "t", "consumerGroup": "g", "clientId": client, "strategyName": "AVG", "messageModel": "CLUSTERING",
    }  # fmt: skip
    peer = FakePeer()
    asked = call(QueryAssignment(), orjson.dumps(document | fields), peer=peer)
    assert handlers.query_assignment(parts, asked) is LATER
    found = orjson.loads(peer.replies[0].body).get("messageQueueAssignments")
    if found is None:
        return None
    return [(one["messageQueue"]["brokerName"], one["messageQueue"]["queueId"], one["mode"]) for one in found]


def set_mode(parts: Any, topic: str = "t", group: str = "g") -> Any:
    document = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
    return handlers.set_request_mode(parts, call(SetRequestMode(), orjson.dumps(document)))


def test_who_pulls_gets_a_share_of_the_queues(tmp_path: Path) -> None:
    parts = broker_with(tmp_path, "m", "n")
    assert query(parts, "m") == [("a", 0, "PULL"), ("a", 1, "PULL")]
    assert query(parts, "n", strategyName="AVG_BY_CIRCLE") == [("a", 1, "PULL"), ("b", 1, "PULL")]
    assert query(parts, "stranger") == []
    assert len(query(parts, "m", messageModel="BROADCASTING")) == 4


def test_who_pops_gets_any_queue_of_every_broker(tmp_path: Path) -> None:
    parts = broker_with(tmp_path, "m", "n")
    assert set_mode(parts).code == 0
    assert query(parts) == [("a", -1, "POP"), ("b", -1, "POP")]
    assert query(parts, topic="u") == [("a", 0, "PULL"), ("a", 1, "PULL")]


def test_all_modes_that_were_set_are_told(tmp_path: Path) -> None:
    parts = broker_with(tmp_path)
    assert handlers.get_all_request_modes(parts, call(GetAllRequestModes())).body == b'{"messageRequestModeMap":{}}'
    set_mode(parts)
    assert handlers.get_all_request_modes(parts, call(GetAllRequestModes())).body == (
        b'{"messageRequestModeMap":{"t":{"g":{"consumerGroup":"g","mode":"POP","popShareQueueNum":0,"topic":"t"}}}}'
    )


@each_case(((), QUEUES, {}), (("m",), None, {}), (("m",), [], {}), (("m",), QUEUES, {"strategyName": "MINE"}))
def test_what_cannot_be_told_changes_nothing(
    members: Any, found: Found, fields: dict[str, str], tmp_path: Path
) -> None:
    assert query(broker_with(tmp_path, *members, found=found), **fields) is None


def test_a_mode_needs_a_topic_and_a_group(tmp_path: Path) -> None:
    for topic, group, code in (("%RETRY%g", "g", 16), ("nowhere", "g", 17)):
        with pytest.raises(Rejected) as refused:
            set_mode(broker_with(tmp_path), topic, group)
        assert refused.value.code == code
    parts = broker_with(tmp_path)
    parts.tables.groups = Registries(auto_create_groups=False).groups
    with pytest.raises(Rejected) as refused:
        set_mode(parts)
    assert refused.value.code == 26


def test_an_lmq_needs_no_route(tmp_path: Path) -> None:
    parts = broker_with(tmp_path, "m", "n", found=None)
    assert query(parts, topic="%LMQ%a") == [("here", 0, "PULL")]
    assert query(parts, client="n", topic="%LMQ%a") == []
    assert query(parts, topic="%LMQ%a", messageModel="BROADCASTING") is None
