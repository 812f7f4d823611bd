"""Fields of the headers about topics."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cases import each_case
from orbitmq.wire import headers
from orbitmq.wire.header import decode_header, encode_header
from unit.wire.headers.support import travels_as

REQUIRED = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "8", "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}  # fmt: skip
OPTIONAL = {"topicSysFlag": "1", "order": "true", "attributes": "+a=b", "force": "true"}


@each_case(
    (
        headers.CreateTopic(
            topic="t", default_topic="TBW102", read_queue_nums=4, write_queue_nums=8, perm=6,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=1, order=True, attributes="+a=b", force=True,
        ),
        REQUIRED | OPTIONAL,
    ),
    (headers.DeleteTopicInBroker(topic="t"), {"topic": "t"}),
    (headers.GetTopicConfig(topic="t"), {"topic": "t"}),
    (headers.GetTopicStats(topic="t"), {"topic": "t"}),
    (headers.QueryTopicConsumers(topic="t"), {"topic": "t"}),
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_a_topic_is_not_ordered_unless_its_creator_says_so() -> None:
    found = decode_header(headers.CreateTopic, REQUIRED)
    assert found.order is False
    assert (found.topic_sys_flag, found.attributes, found.force) == (None, None, None)


FORWARDED = (
    headers.ForwardedGetEarliestStoreTime, headers.ForwardedGetMaxOffset, headers.ForwardedGetMinOffset, headers.ForwardedPullMessage,
    headers.ForwardedQueryConsumerOffset, headers.ForwardedSearchOffset, headers.ForwardedUpdateConsumerOffset,
)  # fmt: skip


def test_a_static_topic_is_made_with_the_fields_of_any_topic() -> None:
    header = headers.CreateStaticTopic(
        topic="t", default_topic="TBW102", read_queue_nums=4, write_queue_nums=8, perm=6,
        topic_filter_type="SINGLE_TAG", order=False, force=True,
    )  # fmt: skip
    expected = {
        "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "8", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "order": "false", "force": "true",
    }  # fmt: skip
    assert travels_as(header, expected)


@each_case(*FORWARDED)
def test_a_request_that_is_sent_on_says_that_it_is_about_a_queue_of_the_broker(header_type: type[Any]) -> None:
    values = {field.name: 1 if "int" in str(field.type).lower() else "x" for field in fields(header_type)}
    values = {name: value for name, value in values.items() if name not in ("lo", "committed", "set_zero_if_not_found")}
    sent = encode_header(header_type(**values))
    base = header_type.__mro__[1]
    assert sent == encode_header(base(**values)) | {"lo": "false"}
