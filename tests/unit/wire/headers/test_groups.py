"""Fields of the headers about client groups."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire.headers import (
    DeleteSubscriptionGroup,
    GetConsumerConnections,
    GetConsumerList,
    GetProducerConnections,
    GetSubscriptionGroup,
    HeartbeatResponse,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)

from .support import travels_as


@each_case(
    (HeartbeatResponse(), {}),
    (
        HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=False),
        {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"},
    ),
    (UnregisterClient(client_id="c"), {"clientID": "c"}),
    (
        UnregisterClient(client_id="c", producer_group="p", consumer_group="g"),
        {"clientID": "c", "producerGroup": "p", "consumerGroup": "g"},
    ),
    (GetConsumerList(consumer_group="g"), {"consumerGroup": "g"}),
    (GetConsumerList(consumer_group="g", broker_name="b"), {"consumerGroup": "g", "bname": "b"}),
    (NotifyConsumerIdsChanged(consumer_group="g"), {"consumerGroup": "g"}),
    (GetSubscriptionGroup(group="g"), {"group": "g"}),
    (DeleteSubscriptionGroup(group_name="g"), {"groupName": "g"}),
    (DeleteSubscriptionGroup(group_name="g", clean_offset=True), {"groupName": "g", "cleanOffset": "true"}),
    (GetConsumerConnections(consumer_group="g"), {"consumerGroup": "g"}),
    (GetProducerConnections(producer_group="g"), {"producerGroup": "g"}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
