"""The records of saved messages, and the request that sends one into its queue again. Pure.

What its sender wrote stays: body as it was stored (compressed or not), flag, tag, keys, the unique key by which clients know
it, every property of its own, the time at which it was born, and how often it was delivered. What asks the broker to do
something with it, and was done, goes: a delay, a transaction, the broker's own marks.

Source: Java SendMessageProcessor, MessageConst; docs/formats/commit_log.md.
"""

from __future__ import annotations

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import PropertyName, SysFlag, TimerProperty
from orbitmq.model.topic import AUTO_CREATE_TOPIC
from orbitmq.wire.headers import SendMessageV2
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties
from orbitmq.wire.messages.record import Blank, Record, parse_record

PRODUCER_GROUP = "orbitmq-restore"
_NOT_SENT = frozenset(
    (
        # Requests that the broker would carry out once more.
        PropertyName.DELAY,
        PropertyName.TRAN_MSG,
        TimerProperty.DELAY_SEC,
        TimerProperty.DELAY_MS,
        TimerProperty.DELIVER_MS,
        TimerProperty.DELETE_KEY,
        # Its notes about carrying them out.
        TimerProperty.OUT_MS,
        TimerProperty.ENQUEUE_MS,
        TimerProperty.DEQUEUE_MS,
        TimerProperty.ROLL_TIMES,
        # What the broker writes into each message that it stores, and of this store alone.
        PropertyName.CLUSTER,
        PropertyName.MSG_REGION,
        PropertyName.TRACE_ON,
        PropertyName.CRC32,
        PropertyName.LMQ_OFFSETS,
        PropertyName.POP_CK,
        PropertyName.MIN_OFFSET,
        PropertyName.MAX_OFFSET,
    )
)
_NOT_SENT_FLAGS = SysFlag.FOR_THE_BROKER | SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.NEED_UNWRAP
_RETRIES_MAX = 2**31 - 1
"""So that a message in a retry topic does not become a dead letter on its way."""


def parse_message(view: bytes | memoryview, topic: str, queue_id: int, begin: int, end: int) -> Record:
    """Return the record that these bytes begin with: one of this queue, with an offset from `begin` up to `end`.

    Raises:
        CorruptRecord: they begin with something else.
    """
    record = parse_record(view)
    if isinstance(record, Blank):
        raise CorruptRecord(-1, "segment filler among messages")
    if record.topic != topic or record.queue_id != queue_id:
        reason = f"of queue {record.queue_id} of {record.topic!r:.80} among those of queue {queue_id} of {topic}"
        raise CorruptRecord(record.physical_offset, reason)
    if not begin <= record.queue_offset < end:
        reason = f"queue offset {record.queue_offset}, expected one from {begin} to {end - 1}"
        raise CorruptRecord(record.physical_offset, reason)
    return record


def message_key(record: Record) -> bytes:
    """Return what a message is known by in its old queue and in its new one: its unique key, or its birth and body."""
    found = find_property(record.properties, PropertyName.UNIQ_KEY.encode())
    return found or b"%d %d %d" % (record.born_at_ms, len(record.body), record.body_crc)


def sent_properties(encoded: bytes) -> dict[str, str]:
    """Return the properties that a message takes into its next store."""
    found = parse_properties(str(encoded, "utf-8", "replace"))
    return {name: value for name, value in found.items() if name not in _NOT_SENT}


def send_header(record: Record, broker_name: str) -> SendMessageV2:
    """Return the request that sends a record's message to the queue of the same number.

    Raises:
        InvalidArgument: its properties have more bytes than travel.
    """
    return SendMessageV2(
        producer_group=PRODUCER_GROUP,
        topic=record.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=record.queue_id,
        sys_flag=record.sys_flag & ~_NOT_SENT_FLAGS,
        born_at_ms=record.born_at_ms,
        flag=record.flag,
        properties=format_properties(sent_properties(record.properties)).decode(),
        reconsume_times=record.reconsume_times,
        unit_mode=False,
        max_reconsume_times=_RETRIES_MAX,
        batch=False,
        broker_name=broker_name,
    )
