"""Fields of the headers for a broker's administration."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from unit.wire.headers.support import travels_as


@each_case(
    (headers.GetBrokerConfigResponse(version="{}"), {"version": "{}"}),
    (headers.GetConsumeStats(consumer_group="g"), {"consumerGroup": "g"}),
    (
        headers.GetConsumeStats(consumer_group="g", topic="t", topic_list="a;b"),
        {"consumerGroup": "g", "topic": "t", "topicList": "a;b"},
    ),
    (headers.GetAllConsumerOffsets(), {}),
    (headers.GetBrokerRuntimeInfo(), {}),
    (headers.GetBrokerConsumeStats(is_order=True), {"isOrder": "true"}),
    (headers.ViewBrokerStats(stats_name="n", stats_key="k"), {"statsName": "n", "statsKey": "k"}),
    (headers.ResetMasterFlushOffset(master_flush_offset=7), {"masterFlushOffset": "7"}),
    (headers.SetCommitLogReadMode(mode=1), {"READ_AHEAD_MODE": "1"}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
