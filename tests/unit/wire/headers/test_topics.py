"""Fields of the headers about topics."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import CreateTopic, DeleteTopicInBroker, GetTopicConfig, GetTopicStats, QueryTopicConsumers

from .support import travels_as

REQUIRED = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "8", "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}  # fmt: skip
OPTIONAL = {"topicSysFlag": "1", "order": "true", "attributes": "+a=b", "force": "true"}


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (
            CreateTopic(
                topic="t", default_topic="TBW102", read_queue_nums=4, write_queue_nums=8, perm=6,
                topic_filter_type="SINGLE_TAG", topic_sys_flag=1, order=True, attributes="+a=b", force=True,
            ),
            REQUIRED | OPTIONAL,
        ),
        (DeleteTopicInBroker(topic="t"), {"topic": "t"}),
        (GetTopicConfig(topic="t"), {"topic": "t"}),
        (GetTopicStats(topic="t"), {"topic": "t"}),
        (QueryTopicConsumers(topic="t"), {"topic": "t"}),
    ],
    ids=repr,
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_a_topic_is_not_ordered_unless_its_creator_says_so() -> None:
    found = decode_header(CreateTopic, REQUIRED)
    assert found.order is False
    assert (found.topic_sys_flag, found.attributes, found.force) == (None, None, None)
