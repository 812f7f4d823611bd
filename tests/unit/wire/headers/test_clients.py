"""Fields of the headers of requests to running clients."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from unit.wire.headers.support import travels_as


@each_case(
    (
        headers.ResetClientOffset(group="g", topic="t", timestamp_ms=7),
        {"group": "g", "topic": "t", "timestamp": "7", "isForce": "false", "queueId": "-1"},
    ),
    (headers.GetClientOffsets(group="g", topic="t"), {"group": "g", "topic": "t"}),
    (headers.GetClientsOffsets(group="g", topic="t"), {"group": "g", "topic": "t"}),
    (headers.GetClientsOffsets(group="g", topic="t", client_id="c"), {"group": "g", "topic": "t", "clientAddr": "c"}),
    (
        headers.GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True),
        {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"},
    ),
    (headers.ConsumeMessageDirectly(consumer_group="g"), {"consumerGroup": "g"}),
    (
        headers.ConsumeMessageDirectly(
            consumer_group="g", client_id="c", message_id="m", broker_name="b", topic="t", topic_sys_flag=1,
            group_sys_flag=2,
        ),
        {
            "consumerGroup": "g", "clientId": "c", "msgId": "m", "brokerName": "b", "topic": "t",
            "topicSysFlag": "1", "groupSysFlag": "2",
        },
    ),
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
