"""Fields of the headers for a broker's administration."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetBrokerConfigResponse,
    GetBrokerConsumeStats,
    GetBrokerRuntimeInfo,
    GetConsumeStats,
    ResetMasterFlushOffset,
    SetCommitLogReadMode,
    ViewBrokerStats,
)
from unit.wire.headers.support import travels_as


@each_case(
    (GetBrokerConfigResponse(version="{}"), {"version": "{}"}),
    (GetConsumeStats(consumer_group="g"), {"consumerGroup": "g"}),
    (
        GetConsumeStats(consumer_group="g", topic="t", topic_list="a;b"),
        {"consumerGroup": "g", "topic": "t", "topicList": "a;b"},
    ),
    (GetAllConsumerOffsets(), {}),
    (GetBrokerRuntimeInfo(), {}),
    (GetBrokerConsumeStats(is_order=True), {"isOrder": "true"}),
    (ViewBrokerStats(stats_name="n", stats_key="k"), {"statsName": "n", "statsKey": "k"}),
    (ResetMasterFlushOffset(master_flush_offset=7), {"masterFlushOffset": "7"}),
    (SetCommitLogReadMode(mode=1), {"READ_AHEAD_MODE": "1"}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
