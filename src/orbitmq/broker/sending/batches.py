"""Batches: many messages for one queue in one request.

A frame has room for 190,000 messages, and storing them takes seconds. So a batch is checked in steps, all of it before
any of it is stored; a large one is then stored in parts, each in one append, and others have their turn between two steps.

Source: Java SendMessageProcessor.sendBatchMessage.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice

from orbitmq.broker.sending.answers import SendCall, refusal_of
from orbitmq.broker.sending.tables import SendTables, check_sizes, host_of
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.net.dispatch.work import Work
from orbitmq.store import AppendResult, Draft
from orbitmq.wire.messages.batch import iter_batch
from orbitmq.wire.messages.message_id import offset_message_id

PART_COUNT = 1_024
"""Messages that are stored in one append: no others come between them."""
_STEP_COUNT = 256
"""Messages that are checked in one step."""
_ROOM_COUNT = 2 * PART_COUNT


def store_batch(tables: SendTables, call: SendCall, topic: str, queue_id: int) -> Work:
    """Check a batch and store it: in one append, or in several when it is large.

    Raises:
        Rejected: nothing was stored, unless the disk failed or was filled by others between two parts.
    """
    drafts = _drafts(tables, call, topic, queue_id)
    messages: list[Draft] = []
    while len(messages) <= PART_COUNT:
        step = list(islice(drafts, _STEP_COUNT))
        messages += step
        if len(step) < _STEP_COUNT:
            break
        yield
    else:
        messages.clear()
        return (yield from _store_large(tables, call, topic, queue_id))
    if not messages:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
    results = _append(tables, messages)
    return tables.answers.when_durable(call, queue_id, _ids(tables, results), results[0].queue_offset, results[-1].end)


def _store_large(tables: SendTables, call: SendCall, topic: str, queue_id: int) -> Work:
    with tables.large_batches.entered() as place:
        while not place.is_next:
            yield
        yield from _make_room(tables, call, topic, queue_id)
        ids: list[str] = []
        first_offset, end = -1, 0
        for part in _parts(_drafts(tables, call, topic, queue_id)):
            if part is not None:
                # It may have been deleted since the part before: that part is gone with it.
                if tables.queue_resolver.topics.get(topic) is None:
                    raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] was deleted meanwhile")
                results = _append(tables, part)
                ids.append(_ids(tables, results))
                first_offset = results[0].queue_offset if first_offset < 0 else first_offset
                end = results[-1].end
            yield
    return tables.answers.when_durable(call, queue_id, ",".join(ids), first_offset, end)


def _make_room(tables: SendTables, call: SendCall, topic: str, queue_id: int) -> Generator[None]:
    """Check all messages, and make room for all of them: neither a bad message nor a full disk is to stop it halfway."""
    count = size = 0
    for count, draft in enumerate(_drafts(tables, call, topic, queue_id), 1):
        tables.store.check_properties(draft.properties)
        size += len(draft.body) + len(draft.properties)
        if not count % _STEP_COUNT:
            yield
    # The disk writes zeros there: a step for every so many messages, which are some 300 kB with a topic of usual length.
    for made in range(_ROOM_COUNT, count + _ROOM_COUNT, _ROOM_COUNT):
        try:
            tables.store.make_room(topic, min(made, count), size * min(made, count) // count)
        except StoreUnavailable as error:
            raise refusal_of(error) from None
        yield


def _parts(drafts: Iterator[Draft]) -> Iterator[list[Draft] | None]:
    """Yield one part after another, and None between them, where others may have their turn."""
    part: list[Draft] = []
    while step := list(islice(drafts, _STEP_COUNT)):
        part += step
        if len(part) >= PART_COUNT:
            yield part
            part = []
        else:
            yield None
    if part:
        yield part


def _append(tables: SendTables, messages: list[Draft]) -> list[AppendResult]:
    try:
        results = tables.store.append_batch(messages)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    tables.stats.put(messages[0].topic, len(results), sum(result.size for result in results))
    return results


def _ids(tables: SendTables, results: list[AppendResult]) -> str:
    return ",".join([offset_message_id(tables.answers.host, result.physical_offset) for result in results])


def _drafts(tables: SendTables, call: SendCall, topic: str, queue_id: int) -> Iterator[Draft]:
    header = call.header
    shared = tables.properties.shared_by_batch((header.properties or "").encode())
    born_host = host_of(call.connection.remote)
    for item in iter_batch(call.command.body):
        properties = tables.properties.of_batch_message(item.properties, shared)
        check_sizes(tables, len(item.body), len(properties))
        yield Draft(topic, queue_id, item.body, properties, item.flag, header.sys_flag, header.born_at_ms, born_host)
