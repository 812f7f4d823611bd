"""Transactions: end-transaction requests (37), and a discarded message that is taken up again (323).

A decision about no open half message is refused in Java's words where Java refuses it, and where Java would deliver a message
twice: a transaction ends once.

Source: Java EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage.
"""

from __future__ import annotations

from orbitmq.broker.sending.answers import refusal_of, when_safe
from orbitmq.broker.service import BrokerService
from orbitmq.broker.transactions.transactions import ENDS
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, StoreUnavailable
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.headers import EndTransaction, ResumeCheckHalfMessage
from orbitmq.wire.messages.message_id import parse_offset_message_id

handlers: Handlers[BrokerService] = Handlers()

_UNKNOWN = 0


@handlers.on(EndTransaction)
def end_transaction(broker: BrokerService, call: Call[EndTransaction]) -> Reply | Later:
    """Commit or roll back a half message; an undecided producer is asked later."""
    decision = call.header.commit_or_rollback
    if decision == _UNKNOWN:
        return Reply()
    if decision not in ENDS:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"commitOrRollback field wrong: {decision}, 0, 8 or 12 is allowed")
    try:
        result = broker.sends.transactions.end(call.header, call.now_ms)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return when_safe(broker.sends.sending.answers, call, result.end)


@handlers.on(ResumeCheckHalfMessage)
def resume_check_half_message(broker: BrokerService, call: Call[ResumeCheckHalfMessage]) -> Reply | Later:
    """Ask the producers again about a discarded message."""
    try:
        _, physical_offset = parse_offset_message_id(call.header.message_id or "")
        result = broker.sends.transactions.resume(physical_offset, call.now_ms)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    return when_safe(broker.sends.sending.answers, call, result.end)
