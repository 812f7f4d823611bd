"""Messages as consumers see them, decoded from the records of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.wire.messages.compression import decompress as decompress_body
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import (
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX,
    RECORD_SIZE_MIN,
    Blank,
    Record,
    parse_record,
)


def to_stored_message(record: Record, broker_name: str = "", *, decompress: bool = True) -> StoredMessage:
    """Decode a record into the value that consumers see; one that was parsed without a look at its checksum, too.

    A body that cannot be decoded stays as it is stored, and the message says why (`decode_error`). Of properties that are
    no UTF-8, each wrong byte becomes U+FFFD, as in Java.
    """
    properties = parse_properties(str(record.properties, "utf-8", "replace"))
    body, error = bytes(record.body), properties.get(PropertyName.DECODE_ERROR)
    if crc32(body) & CRC_MASK != record.body_crc:
        error = "the body's checksum does not match"
    elif decompress:
        try:
            body = decompress_body(body, record.sys_flag)
        except InvalidArgument as reason:
            error = str(reason)
    return StoredMessage(
        topic=record.topic,
        body=body,
        properties=properties,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        store_size=record.size,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_at_ms=record.born_at_ms,
        born_host=record.born_host,
        stored_at_ms=record.stored_at_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        body_crc=record.body_crc,
        broker_name=broker_name,
        decode_error=error,
    )


class DecodedMessages(NamedTuple):
    """The messages of a pull or query answer, why each other record cannot be read, and the bytes behind the last of these."""

    messages: list[StoredMessage]
    errors: list[CorruptRecord]
    unread: int


def decode_answer(
    view: bytes | memoryview, broker_name: str = "", *, body_size_max: int | None = None
) -> DecodedMessages:
    """Decode the records of an answer, each by itself: one that cannot be read is passed over.

    Its size leads to the next record; where there is none, nothing behind it can be read.

    Args:
        body_size_max: bytes of each body that are kept, for tables: one body at a time is whole in memory then.
    """
    messages: list[StoredMessage] = []
    errors: list[CorruptRecord] = []
    rest = memoryview(view)
    while rest:
        try:
            record = parse_record(rest, check_crc=False)
            if isinstance(record, Blank):
                raise CorruptRecord(-1, "segment filler in an answer")
            message = to_stored_message(record, broker_name)
            if body_size_max is not None:
                message = replace(message, body=message.body[:body_size_max])
            messages.append(message)
            rest = rest[record.size :]
        except CorruptRecord as error:
            errors.append(error)
            size = _size_to_next(rest)
            if size is None:
                return DecodedMessages(messages, errors, len(rest))
            rest = rest[size:]
    return DecodedMessages(messages, errors, 0)


def _size_to_next(view: memoryview) -> int | None:
    """Return the size that a damaged record says it has where it ends the answer, or another record begins behind it."""
    if len(view) < PREFIX.size:
        return None
    size = int.from_bytes(view[:4], "big")
    if size == len(view):
        return size
    is_inside = RECORD_SIZE_MIN <= size <= len(view) - PREFIX.size
    return size if is_inside and PREFIX.unpack_from(view, size)[1] in (MAGIC_V1, MAGIC_V2) else None
