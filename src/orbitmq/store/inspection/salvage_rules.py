"""The judgement of a record that was set aside: is it brought back, and if not, why. Pure."""

from __future__ import annotations

from enum import Enum

from orbitmq.model.message import PropertyName
from orbitmq.store.dispatch import is_queued
from orbitmq.store.lmq import NUMBERS
from orbitmq.store.queues.consume_queues import is_directory_name
from orbitmq.store.values import Draft
from orbitmq.wire.messages.record import Record

SALVAGED_FROM = b"SALVAGED_FROM"
"""The property that holds the old place of a message that was brought back."""

_NOT_KEPT = (SALVAGED_FROM + b"\x01", f"{PropertyName.CRC32}\x01".encode(), NUMBERS + b"\x01")


class Classification(Enum):
    """What becomes of a record."""

    BRING_BACK = "brought back"
    BROUGHT_BACK = "was brought back before"
    TWICE = "is in an earlier file, too"
    IN_LOG = "is in the log"
    DELETED = "its topic was deleted"
    UNDECIDED = "half of a transaction, or one that was rolled back"
    NO_QUEUE = "its topic or queue is none that a broker gives"
    NO_TOPIC = "its topic is not there: its file stays until the topic is made"
    DOES_NOT_FIT = "does not fit into a record any more: its file stays"

    @property
    def keeps_file(self) -> bool:
        """Return True if the file is needed still."""
        return self in (Classification.NO_TOPIC, Classification.DOES_NOT_FIT)


def classify(
    record: Record,
    *,
    is_met: bool = False,
    is_brought_back: bool = False,
    is_in_log: bool = False,
    is_deleted: bool = False,
    has_topic: bool = True,
) -> Classification:
    """Judge a record.

    Args:
        is_met: an earlier file has it, too.
        is_brought_back: an interrupted salvage has appended it.
        is_in_log: the log has this very record at its old place.
        is_deleted: its topic was deleted after it was stored.
        has_topic: its topic exists, or that is unknown.
    """
    if is_in_log:
        return Classification.IN_LOG
    if is_met:
        return Classification.TWICE
    if is_brought_back:
        return Classification.BROUGHT_BACK
    if is_deleted:
        return Classification.DELETED
    if not is_queued(record.sys_flag):
        return Classification.UNDECIDED
    if not is_directory_name(record.topic) or record.queue_id < 0:
        return Classification.NO_QUEUE
    return Classification.BRING_BACK if has_topic else Classification.NO_TOPIC


def draft_of(record: Record, place: bytes) -> Draft:
    """Return the message to append: the same, with its old place as a property. Offsets and store time are new."""
    kept = [pair for pair in record.properties.split(b"\x02") if pair and not pair.startswith(_NOT_KEPT)]
    properties = b"".join(pair + b"\x02" for pair in (*kept, SALVAGED_FROM + b"\x01" + place))
    return Draft(
        topic=record.topic,
        queue_id=record.queue_id,
        body=bytes(record.body),
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_at_ms=record.born_at_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )
