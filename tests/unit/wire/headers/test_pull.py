"""Fields of the headers for pulling."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from unit.wire.headers.support import travels_as

REQUIRED = {
    "consumerGroup": "g", "topic": "t", "queueId": "3", "queueOffset": "4", "maxMsgNums": "5", "sysFlag": "6",
    "commitOffset": "7", "suspendTimeoutMillis": "8", "subVersion": "9",
}  # fmt: skip
PULL: dict[str, Any] = {
    "consumer_group": "g", "topic": "t", "queue_id": 3, "queue_offset": 4, "count_max": 5, "sys_flag": 6,
    "commit_offset": 7, "suspend_timeout_ms": 8, "sub_version": 9,
}  # fmt: skip
OPTIONAL = {"subscription": "a", "expressionType": "TAG", "maxMsgBytes": "10", "requestSource": "2", "bname": "b"}


@each_case(
    (headers.PullMessage(**PULL), REQUIRED),
    (headers.LitePullMessage(**PULL), REQUIRED),
    (
        headers.PullMessage(
            **PULL, subscription="a", expression_type="TAG", size_max=10, request_source=2, broker_name="b"
        ),
        REQUIRED | OPTIONAL,
    ),
    (
        headers.PullResponse(suggest_which_broker_id=0, next_begin_offset=1, min_offset=2, max_offset=3),
        {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "2", "maxOffset": "3"},
    ),
    (
        headers.PullResponse(
            suggest_which_broker_id=0, next_begin_offset=1, min_offset=2, max_offset=3, offset_delta=4,
            topic_sys_flag=5, group_sys_flag=6, forbidden_type=7,
        ),
        {
            "suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "2", "maxOffset": "3",
            "offsetDelta": "4", "topicSysFlag": "5", "groupSysFlag": "6", "forbiddenType": "7",
        },
    ),
    (
        headers.QueryMessage(topic="t", key="k", count_max=3, begin_ms=4, end_ms=5),
        {"topic": "t", "key": "k", "maxNum": "3", "beginTimestamp": "4", "endTimestamp": "5"},
    ),
    (
        headers.QueryMessage(topic="t", key="k", count_max=3, begin_ms=4, end_ms=5, is_unique_key=True, broker_name="b"),
        {
            "topic": "t", "key": "k", "maxNum": "3", "beginTimestamp": "4", "endTimestamp": "5",
            "_UNIQUE_KEY_QUERY": "true", "bname": "b",
        },
    ),
    (
        headers.QueryMessageResponse(index_end_ms=1, index_end_offset=2),
        {"indexLastUpdateTimestamp": "1", "indexLastUpdatePhyoffset": "2"},
    ),
    (
        headers.QueryConsumeQueue(topic="t", queue_id=1, index=2, count=3, consumer_group="g", broker_name="b"),
        {"topic": "t", "queueId": "1", "index": "2", "count": "3", "consumerGroup": "g", "bname": "b"},
    ),
    (headers.ViewMessage(physical_offset=1), {"offset": "1"}),
    (headers.ViewMessage(physical_offset=1, topic="t"), {"offset": "1", "topic": "t"}),
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_the_bits_of_a_pull_are_javas() -> None:
    flags = (
        headers.PullSysFlag.COMMIT_OFFSET, headers.PullSysFlag.SUSPEND, headers.PullSysFlag.SUBSCRIPTION, headers.PullSysFlag.CLASS_FILTER,
        headers.PullSysFlag.LITE_PULL,
    )  # fmt: skip
    assert flags == (1, 2, 4, 8, 16)
