"""Fields of the headers about transactions."""

from __future__ import annotations

import pytest

from orbitmq.errors import HeaderError
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import CheckTransactionState, EndTransaction, ResumeCheckHalfMessage

from .support import travels_as

END = {
    "producerGroup": "p", "tranStateTableOffset": "1", "commitLogOffset": "2", "commitOrRollback": "8", "msgId": "m",
}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (
            EndTransaction(
                topic="t", producer_group="p", tran_state_table_offset=1, commit_log_offset=2, commit_or_rollback=8,
                from_transaction_check=True, message_id="m", transaction_id="x", broker_name="b",
            ),
            END | {"topic": "t", "fromTransactionCheck": "true", "transactionId": "x", "bname": "b"},
        ),
        (
            EndTransaction(
                producer_group="p", tran_state_table_offset=1, commit_log_offset=2, commit_or_rollback=8, message_id="m"
            ),
            END | {"fromTransactionCheck": "false"},
        ),
        (
            CheckTransactionState(tran_state_table_offset=1, commit_log_offset=2),
            {"tranStateTableOffset": "1", "commitLogOffset": "2"},
        ),
        (
            CheckTransactionState(
                topic="t", tran_state_table_offset=1, commit_log_offset=2, message_id="m", transaction_id="x",
                offset_message_id="o", broker_name="b",
            ),
            {
                "topic": "t", "tranStateTableOffset": "1", "commitLogOffset": "2", "msgId": "m", "transactionId": "x",
                "offsetMsgId": "o", "bname": "b",
            },
        ),
        (ResumeCheckHalfMessage(), {}),
        (ResumeCheckHalfMessage(topic="t", message_id="m"), {"topic": "t", "msgId": "m"}),
    ],
)  # fmt: skip
def test_these_fields_travel(header: object, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_who_says_nothing_was_not_asked() -> None:
    assert decode_header(EndTransaction, END).from_transaction_check is False


@pytest.mark.parametrize("missing", END)
def test_a_decision_needs_all_of_its_fields(missing: str) -> None:
    with pytest.raises(HeaderError, match=missing):
        decode_header(EndTransaction, {name: value for name, value in END.items() if name != missing})
