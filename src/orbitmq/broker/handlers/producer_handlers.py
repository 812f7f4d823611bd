"""The handlers for what producers ask, each family with the part of the broker that it works on."""

from __future__ import annotations

from orbitmq.broker.handlers import recall, replies, send, send_back, timers, transactions
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()


def _replies(broker: BrokerService) -> replies.ReplyTables:
    config = broker.config
    return replies.ReplyTables(
        sending=broker.sends.sending,
        pushes=broker.sends.reply_pushes,
        is_storing=config.store_reply_message_enable,
        region_id=config.region_id,
        trace_on=config.trace_on,
    )


def _transactions(broker: BrokerService) -> transactions.TransactionTables:
    return transactions.TransactionTables(answers=broker.sends.sending.answers, transactions=broker.sends.transactions)


def _recall(broker: BrokerService) -> recall.RecallTables:
    config = broker.config
    return recall.RecallTables(
        sending=broker.sends.sending,
        timers=broker.sends.timers,
        broker_name=config.broker_name,
        region_id=config.region_id,
        is_recalling=config.recall_message_enable,
        is_recalling_unwritable=config.allow_recall_when_broker_not_writeable,
    )


def _send_back(broker: BrokerService) -> send_back.SendBackTables:
    return send_back.SendBackTables(
        store=broker.store,
        answers=broker.sends.sending.answers,
        topics=broker.tables.topics,
        groups=broker.tables.groups,
        delays=broker.sends.delays,
        ip=broker.address.host.ip,
        is_writable=broker.is_writable,
        random=broker.context.random,
        stats=broker.monitoring.stats,
    )


HANDLERS.include(send.handlers, lambda broker: broker.sends.sending)
HANDLERS.include(replies.handlers, _replies)
HANDLERS.include(transactions.handlers, _transactions)
HANDLERS.include(recall.handlers, _recall)
HANDLERS.include(timers.handlers, lambda broker: broker.sends.timers)
HANDLERS.include(send_back.handlers, _send_back)
