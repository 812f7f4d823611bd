"""PEEK_MESSAGE (200052), which shows messages and gives them to nobody, and POP_ROLLBACK (200056).

Source: Java PeekMessageProcessor, AdminBrokerProcessor.transferPopToFsStore.
"""

from __future__ import annotations

from orbitmq.broker.handlers.popping.tables import PopTables, with_group
from orbitmq.codes import ResponseCode
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.headers import PeekMessage, PopResponse, RollBackPops
from orbitmq.wire.pop.revive_log import COUNT_MAX

handlers: Handlers[PopTables] = Handlers()


@handlers.on(PeekMessage)
def peek(tables: PopTables, call: Call[PeekMessage]) -> Reply | Later:
    """Answer with messages that wait for a group; `restNum` counts all that do."""
    header = call.header

    def answer() -> Reply:
        count_max = min(header.count_max, COUNT_MAX)
        peeked = tables.pop.pops.peek(header.topic, header.consumer_group, header.queue_id, count_max)
        response = PopResponse(pop_time_ms=0, invisible_ms=0, revive_queue_id=0, rest_count=peeked.rest_count)
        if not peeked.count:
            return Reply(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", response)
        return Reply(remark="FOUND", header=response, body=b"".join(peeked.records))

    return with_group(tables, call, answer)


@handlers.on(RollBackPops)
def roll_back_pops(tables: PopTables, call: Call[RollBackPops]) -> Reply:
    """Do as a Java broker without the key-value store of its popConsumerKVServiceInit: everything is in the topic already."""
    return Reply()
