"""Decisions about transactions, and how they travel. Pure."""

from __future__ import annotations

from enum import Enum

from orbitmq.client.send.result import SendResult
from orbitmq.model.message import SysFlag
from orbitmq.wire.headers.send import CheckTransactionState, EndTransaction
from orbitmq.wire.messages.message_id import parse_offset_message_id


class Decision(Enum):
    """How a transaction ends (Java: LocalTransactionState)."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    """Consumers get the message."""
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    """It is never delivered."""
    UNKNOWN = 0
    """Not known yet: the broker asks again later."""


JAVA_STATES = {
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
    Decision.UNKNOWN: "UNKNOW",
}
"""What traces call decisions (Java: LocalTransactionState)."""


def end_header(group: str, topic: str, sent: SendResult, decision: Decision) -> EndTransaction:
    """Return what tells a broker how the transaction of a message ends that was sent just now.

    Raises:
        InvalidArgument: the broker has not said where the message lies.

    Source: Java DefaultMQProducerImpl.endTransaction.
    """
    _, physical_offset = parse_offset_message_id(sent.offset_message_id)
    return EndTransaction(
        topic=topic,
        producer_group=group,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=physical_offset,
        commit_or_rollback=decision.value,
        message_id=sent.message_id,
        transaction_id=sent.message_id,
        broker_name=sent.queue.broker_name,
    )


def answer_header(group: str, question: CheckTransactionState, message_id: str, decision: Decision) -> EndTransaction:
    """Return what answers a broker that asks how a transaction has ended.

    Source: Java DefaultMQProducerImpl.checkTransactionState.
    """
    return EndTransaction(
        topic=question.topic,
        producer_group=group,
        tran_state_table_offset=question.tran_state_table_offset,
        commit_log_offset=question.commit_log_offset,
        commit_or_rollback=decision.value,
        from_transaction_check=True,
        message_id=message_id,
        transaction_id=question.transaction_id,
        broker_name=question.broker_name,
    )
