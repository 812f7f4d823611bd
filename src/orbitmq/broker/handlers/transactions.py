"""Transactions: end-transaction requests (37), and a discarded message that is taken up again (323).

A decision about no open half message is refused in Java's words where Java refuses it, and where Java would deliver a message
twice: a transaction ends once.

Source: Java EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.sending.answers import SendAnswers, refusal_of, when_safe
from orbitmq.broker.transactions.transactions import ENDS, Transactions
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, StoreUnavailable
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.headers import EndTransaction, ResumeCheckHalfMessage
from orbitmq.wire.messages.message_id import parse_offset_message_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTables:
    """What it takes to end transactions."""

    answers: SendAnswers
    transactions: Transactions


handlers: Handlers[TransactionTables] = Handlers()

_UNKNOWN = 0


@handlers.on(EndTransaction)
def end_transaction(tables: TransactionTables, call: Call[EndTransaction]) -> Reply | Later:
    """Commit or roll back a half message; an undecided producer is asked later."""
    decision = call.header.commit_or_rollback
    if decision == _UNKNOWN:
        return Reply()
    if decision not in ENDS:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"commitOrRollback field wrong: {decision}, 0, 8 or 12 is allowed")
    try:
        result = tables.transactions.end(call.header, call.now_ms)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return when_safe(tables.answers, call, result.end)


@handlers.on(ResumeCheckHalfMessage)
def resume_check_half_message(tables: TransactionTables, call: Call[ResumeCheckHalfMessage]) -> Reply | Later:
    """Ask the producers again about a discarded message."""
    try:
        _, physical_offset = parse_offset_message_id(call.header.message_id or "")
        result = tables.transactions.resume(physical_offset, call.now_ms)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    return when_safe(tables.answers, call, result.end)
