"""Fields of the headers about client groups."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers

from .support import travels_as


@each_case(
    (headers.HeartbeatResponse(), {}),
    (
        headers.HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=False),
        {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"},
    ),
    (headers.UnregisterClient(client_id="c"), {"clientID": "c"}),
    (
        headers.UnregisterClient(client_id="c", producer_group="p", consumer_group="g"),
        {"clientID": "c", "producerGroup": "p", "consumerGroup": "g"},
    ),
    (headers.GetConsumerList(consumer_group="g"), {"consumerGroup": "g"}),
    (headers.GetConsumerList(consumer_group="g", broker_name="b"), {"consumerGroup": "g", "bname": "b"}),
    (headers.NotifyConsumerIdsChanged(consumer_group="g"), {"consumerGroup": "g"}),
    (headers.GetSubscriptionGroup(group="g"), {"group": "g"}),
    (headers.DeleteSubscriptionGroup(group_name="g"), {"groupName": "g"}),
    (headers.DeleteSubscriptionGroup(group_name="g", clean_offset=True), {"groupName": "g", "cleanOffset": "true"}),
    (headers.GetConsumerConnections(consumer_group="g"), {"consumerGroup": "g"}),
    (headers.GetProducerConnections(producer_group="g"), {"producerGroup": "g"}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
