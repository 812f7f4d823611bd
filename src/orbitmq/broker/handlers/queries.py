"""Queries for messages: by key (12), by the physical offset of a record (33), and entries of consume queues (321).

Source: Java QueryMessageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreBusy, StoreError
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.wire.bodies.topics import QueueEntries, QueueEntry, encode_queue_entries
from orbitmq.wire.headers import QueryConsumeQueue, QueryMessage, QueryMessageResponse, ViewMessage

_ENTRIES_MAX = 10_000
"""Entries of a consume queue that one answer holds."""


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(ViewMessage)
def view_message(broker: BrokerService, call: Call[ViewMessage]) -> Reply:
    """Answer with the record at a physical offset."""
    header = call.header
    record = broker.store.record_at(header.physical_offset, is_for_slave=bool(header.for_slave))
    if record is None or not (header.for_slave or _is_shown(broker, header.physical_offset)):
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.physical_offset}")
    return Reply(body=record)


def _is_shown(broker: BrokerService, physical_offset: int) -> bool:
    """Return True if the message at a place of the log is not too old for its topic."""
    if not broker.store.hidden_topics:
        return True
    record = broker.store.parsed_at(physical_offset)
    if record is None:
        return False
    return broker.store.counted_at_ms(record) >= broker.store.hidden_topics.get(record.topic, 0)


@handlers.on(QueryMessage)
def query_message(broker: BrokerService, call: Call[QueryMessage]) -> Reply | Later:
    """Answer with the messages of a key, as soon as the index has what was stored before."""
    header = call.header
    wanted = broker.config.default_query_max_num if header.is_unique_key else header.count_max
    if wanted < 0:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"maxNum {wanted} is not allowed, expected 0 or more")
    begin_ms = max(header.begin_ms, broker.store.hidden_topics.get(header.topic, 0))
    question = IndexQuery(
        header.topic, header.key, min(wanted, broker.config.max_msgs_num_batch), begin_ms, header.end_ms
    )
    found: list[Reply] = []
    is_late = False

    def answer(outcome: IndexQueryResult | StoreError) -> None:
        reply = _reply_of(outcome)
        if is_late:
            call.answer(reply)
        else:
            found.append(reply)

    broker.store.query(question, answer)
    if found:
        return found[0]
    is_late = True
    return LATER


def _reply_of(outcome: IndexQueryResult | StoreError) -> Reply:
    if isinstance(outcome, StoreError):
        code = ResponseCode.SYSTEM_BUSY if isinstance(outcome, StoreBusy) else ResponseCode.SYSTEM_ERROR
        return Reply(code, str(outcome))
    header = QueryMessageResponse(index_end_ms=outcome.index_end_ms, index_end_offset=outcome.index_end_offset)
    if not outcome.message_count:
        remark = "can not find message, maybe time range not correct"
        return Reply(ResponseCode.QUERY_NOT_FOUND, remark, header)
    return Reply(header=header, body=outcome.body)


@handlers.on(QueryConsumeQueue)
def query_consume_queue(broker: BrokerService, call: Call[QueryConsumeQueue]) -> Reply:
    """Answer with entries of a queue, and with what a group subscribes to there."""
    header, store = call.header, broker.store
    count = min(max(header.count, 0), _ENTRIES_MAX)
    min_offset, max_offset = (
        store.min_offset(header.topic, header.queue_id),
        store.max_offset(header.topic, header.queue_id),
    )
    is_there = min_offset <= header.index < max_offset
    found = store.queue_entries(header.topic, header.queue_id, header.index, count if is_there else 0)
    if found is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic:.260} is not exist!")
    if not is_there:
        return Reply(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    entries = tuple(QueueEntry(*entry) for entry in found)
    return Reply(body=encode_queue_entries(_of_group(broker, header, QueueEntries(entries, min_offset, max_offset))))


def _of_group(broker: BrokerService, header: QueryConsumeQueue, found: QueueEntries) -> QueueEntries:
    """Add what the asker wants to know of a group."""
    group = header.consumer_group
    if group is None:
        return found
    consumers = broker.clients.members.find(group)
    subscription = None if consumers is None else consumers.subscriptions.get(header.topic)
    if subscription is None:
        return found._replace(filter_data=f"{group}@{header.topic} is not online!")
    return found._replace(subscription=subscription, filter_data="null")
