"""Fields of the headers for sending and for transactions."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.wire import headers
from orbitmq.wire.header import decode_header

from .support import travels_as

SEND: dict[str, Any] = {
    "producer_group": "g", "topic": "t", "default_topic": "TBW102", "default_topic_queue_nums": 4, "queue_id": -1,
    "sys_flag": 0, "born_at_ms": 1, "flag": 2,
}  # fmt: skip
OPTIONAL: dict[str, Any] = {
    "properties": "p", "reconsume_times": 5, "unit_mode": False, "max_reconsume_times": 6, "batch": True,
    "broker_name": "b",
}  # fmt: skip
LONG = {
    "producerGroup": "g", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "-1",
    "sysFlag": "0", "bornTimestamp": "1", "flag": "2",
}  # fmt: skip
LONG_OPTIONAL = {
    "properties": "p", "reconsumeTimes": "5", "unitMode": "false", "maxReconsumeTimes": "6", "batch": "true",
    "bname": "b",
}  # fmt: skip
SHORT = dict(zip("abcdefgh", LONG.values(), strict=True))
SHORT_OPTIONAL = dict(zip("ijklmn", LONG_OPTIONAL.values(), strict=True))


@each_case(
    (headers.SendMessage(**SEND), LONG),
    (headers.SendMessage(**SEND, **OPTIONAL), LONG | LONG_OPTIONAL),
    (headers.SendMessageV2(**SEND), SHORT),
    (headers.SendMessageV2(**SEND, **OPTIONAL), SHORT | SHORT_OPTIONAL),
    (headers.SendBatch(**SEND, **OPTIONAL), SHORT | SHORT_OPTIONAL),
    (headers.SendResponse(message_id="m", queue_id=1, queue_offset=2), {"msgId": "m", "queueId": "1", "queueOffset": "2"}),
    (
        headers.SendResponse(
            message_id="m", queue_id=1, queue_offset=2, transaction_id="x", batch_uniq_id="u", region_id="r",
            trace_on="true",
        ),
        {
            "msgId": "m", "queueId": "1", "queueOffset": "2", "transactionId": "x", "batchUniqId": "u",
            "MSG_REGION": "r", "TRACE_ON": "true",
        },
    ),
    (
        headers.ConsumerSendBack(physical_offset=1, group="g", delay_level=-1),
        {"offset": "1", "group": "g", "delayLevel": "-1"},
    ),
    (
        headers.ConsumerSendBack(
            physical_offset=1, group="g", delay_level=0, origin_msg_id="m", origin_topic="t", unit_mode=False,
            max_reconsume_times=16,
        ),
        {
            "offset": "1", "group": "g", "delayLevel": "0", "originMsgId": "m", "originTopic": "t",
            "unitMode": "false", "maxReconsumeTimes": "16",
        },
    ),
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


END = {
    "producerGroup": "p", "tranStateTableOffset": "1", "commitLogOffset": "2", "commitOrRollback": "8", "msgId": "m",
}  # fmt: skip


@each_case(
    (
        headers.EndTransaction(
            topic="t", producer_group="p", tran_state_table_offset=1, commit_log_offset=2, commit_or_rollback=8,
            from_transaction_check=True, message_id="m", transaction_id="x", broker_name="b",
        ),
        END | {"topic": "t", "fromTransactionCheck": "true", "transactionId": "x", "bname": "b"},
    ),
    (
        headers.EndTransaction(
            producer_group="p", tran_state_table_offset=1, commit_log_offset=2, commit_or_rollback=8, message_id="m"
        ),
        END | {"fromTransactionCheck": "false"},
    ),
    (
        headers.CheckTransactionState(tran_state_table_offset=1, commit_log_offset=2),
        {"tranStateTableOffset": "1", "commitLogOffset": "2"},
    ),
    (
        headers.CheckTransactionState(
            topic="t", tran_state_table_offset=1, commit_log_offset=2, message_id="m", transaction_id="x",
            offset_message_id="o", broker_name="b",
        ),
        {
            "topic": "t", "tranStateTableOffset": "1", "commitLogOffset": "2", "msgId": "m", "transactionId": "x",
            "offsetMsgId": "o", "bname": "b",
        },
    ),
    (headers.ResumeCheckHalfMessage(), {}),
    (headers.ResumeCheckHalfMessage(topic="t", message_id="m"), {"topic": "t", "msgId": "m"}),
)  # fmt: skip
def test_these_fields_travel(header: object, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_who_says_nothing_was_not_asked() -> None:
    assert decode_header(headers.EndTransaction, END).from_transaction_check is False


@each_case(*END)
def test_a_decision_needs_all_of_its_fields(missing: str) -> None:
    with pytest.raises(HeaderError, match=missing):
        decode_header(headers.EndTransaction, {name: value for name, value in END.items() if name != missing})
