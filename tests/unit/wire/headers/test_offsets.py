"""Fields of the headers about offsets."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers

from .support import travels_as

QUEUE = {"topic": "t", "queueId": "3"}


@each_case(
    (
        headers.QueryConsumerOffset(
            consumer_group="g", topic="t", queue_id=3, set_zero_if_not_found=False, broker_name="b"
        ),
        {**QUEUE, "consumerGroup": "g", "setZeroIfNotFound": "false", "bname": "b"},
    ),
    (headers.QueryConsumerOffset(consumer_group="g", topic="t", queue_id=3), {**QUEUE, "consumerGroup": "g"}),
    (
        headers.UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=3, commit_offset=2**40, broker_name="b"),
        {**QUEUE, "consumerGroup": "g", "commitOffset": str(2**40), "bname": "b"},
    ),
    (headers.OffsetResponse(offset=-1), {"offset": "-1"}),
    (headers.QueryConsumeTimeSpan(topic="t", group="g"), {"topic": "t", "group": "g"}),
    (
        headers.QueryCorrectionOffset(compare_group="g", topic="t", filter_groups="a,b"),
        {"compareGroup": "g", "topic": "t", "filterGroups": "a,b"},
    ),
    (
        headers.ResetGroupOffset(group="g", topic="t", timestamp_ms=-1, is_force=True, queue_id=2, offset=9),
        {"group": "g", "topic": "t", "timestamp": "-1", "isForce": "true", "queueId": "2", "offset": "9"},
    ),
    (
        headers.SearchOffset(topic="t", queue_id=3, timestamp_ms=9, boundary_type="upper", broker_name="b"),
        {**QUEUE, "timestamp": "9", "boundaryType": "upper", "bname": "b"},
    ),
    (headers.GetMaxOffset(topic="t", queue_id=3, committed=True), {**QUEUE, "committed": "true"}),
    (headers.GetMaxOffset(topic="t", queue_id=3, broker_name="b"), {**QUEUE, "bname": "b"}),
    (headers.GetMinOffset(topic="t", queue_id=3, broker_name="b"), {**QUEUE, "bname": "b"}),
    (headers.GetEarliestStoreTime(topic="t", queue_id=3, broker_name="b"), {**QUEUE, "bname": "b"}),
    (headers.EarliestStoreTimeResponse(timestamp_ms=-1), {"timestamp": "-1"}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
