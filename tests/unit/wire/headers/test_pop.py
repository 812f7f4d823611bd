"""Fields of the headers for popping."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from orbitmq.wire.header import decode_header
from unit.wire.headers.support import travels_as

PLACE: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 3}
PLACE_FIELDS = {"consumerGroup": "g", "topic": "t", "queueId": "3"}
POP: dict[str, Any] = {**PLACE, "count_max": 5, "invisible_ms": 6, "poll_ms": 7, "born_at_ms": 8, "init_mode": 1}
POP_FIELDS = {
    **PLACE_FIELDS, "maxMsgNums": "5", "invisibleTime": "6", "pollTime": "7", "bornTime": "8", "initMode": "1",
}  # fmt: skip


@each_case(
    (headers.PopMessage(**POP), POP_FIELDS),
    (
        headers.PopMessage(
            **POP, expression_type="TAG", expression="a", order=True, attempt_id="x", broker_name="b"
        ),
        POP_FIELDS | {"expType": "TAG", "exp": "a", "order": "true", "attemptId": "x", "bname": "b"},
    ),
    (
        headers.PopResponse(
            pop_time_ms=1, invisible_ms=2, revive_queue_id=3, rest_count=4, start_offset_info="0 1 2",
            message_offset_info="0 1 2", order_count_info="0 1 0",
        ),
        {
            "popTime": "1", "invisibleTime": "2", "reviveQid": "3", "restNum": "4", "startOffsetInfo": "0 1 2",
            "msgOffsetInfo": "0 1 2", "orderCountInfo": "0 1 0",
        },
    ),
    (headers.AckMessage(**PLACE, handle="h", queue_offset=9), PLACE_FIELDS | {"extraInfo": "h", "offset": "9"}),
    (headers.BatchAckMessages(), {}),
    (
        headers.ChangeInvisibleTime(**PLACE, handle="h", queue_offset=9, invisible_ms=6, broker_name="b"),
        PLACE_FIELDS | {"extraInfo": "h", "offset": "9", "invisibleTime": "6", "bname": "b"},
    ),
    (
        headers.ChangeInvisibleTimeResponse(pop_time_ms=1, invisible_ms=2, revive_queue_id=3),
        {"popTime": "1", "invisibleTime": "2", "reviveQid": "3"},
    ),
    (headers.PopNotification(**PLACE, poll_ms=7, born_at_ms=8), PLACE_FIELDS | {"pollTime": "7", "bornTime": "8"}),
    (headers.PopNotificationResponse(has_message=True), {"hasMsg": "true", "pollingFull": "false"}),
    (headers.GetPollingCount(**PLACE), PLACE_FIELDS),
    (headers.PollingCountResponse(polling_count=2), {"pollingNum": "2"}),
)  # fmt: skip
def test_the_fields_travel_under_javas_names(header: object, fields: dict[str, str]):
    assert travels_as(header, fields)


def test_a_pop_without_a_birth_is_born_when_it_comes():
    fields = {name: value for name, value in POP_FIELDS.items() if name != "bornTime"}
    assert decode_header(headers.PopMessage, fields).born_at_ms == 0
