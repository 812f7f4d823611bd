import pytest

from cases import each_case
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.client.transactions.decision import Decision, answer_header, end_header
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Host
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import CheckTransactionState, EndTransaction
from orbitmq.wire.messages.message_id import offset_message_id

QUEUE = MessageQueue("t", "a", 2)


@each_case((Decision.COMMIT, 8), (Decision.ROLLBACK, 12), (Decision.UNKNOWN, 0))
def test_a_decision_names_the_half_message_by_both_of_its_places(decision, value):
    sent = SendResult("K1", offset_message_id(Host("10.0.0.1", 5), 77), QUEUE, 3, SendStatus.SEND_OK)
    assert end_header("g", "t", sent, decision) == EndTransaction(
        topic="t",
        producer_group="g",
        tran_state_table_offset=3,
        commit_log_offset=77,
        commit_or_rollback=value,
        message_id="K1",
        transaction_id="K1",
        broker_name="a",
    )


def test_a_broker_that_does_not_say_where_the_message_lies_cannot_be_told():
    with pytest.raises(InvalidArgument, match="offset message id"):
        end_header("g", "t", SendResult("K1", "", QUEUE, 3, SendStatus.SEND_OK), Decision.COMMIT)


def test_an_answer_repeats_the_places_of_the_question():
    question = CheckTransactionState(
        topic="h", tran_state_table_offset=3, commit_log_offset=77, transaction_id="T", broker_name="a"
    )
    assert answer_header("g", question, "K1", Decision.ROLLBACK) == EndTransaction(
        topic="h",
        producer_group="g",
        tran_state_table_offset=3,
        commit_log_offset=77,
        commit_or_rollback=12,
        from_transaction_check=True,
        message_id="K1",
        transaction_id="T",
        broker_name="a",
    )
