"""The results of sends, and how they are read from a broker's answer. Pure.

Source: Java MQClientAPIImpl.processSendResponse.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from orbitmq.client.send.batch import EncodedBatch, Load
from orbitmq.codes import ResponseCode
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.send import SendResponse


class SendStatus(StrEnum):
    """What the broker had done when it answered (Java: SendStatus). Only SEND_OK keeps the broker's whole promise."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(NamedTuple):
    """Where a message went.

    `message_id` is the client's unique key, `offset_message_id` the broker's (empty when it gave none);
    `queue_offset` counts messages. `recall_handle` is what `Producer.recall` takes a message back with, None for one that
    does not wait for a time of its own.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus
    recall_handle: str | None = None


def is_stored(answer: Command) -> bool:
    """Return True if a broker has stored what it answers so, even where it has not kept its whole promise in time."""
    return answer.code in _STATUS


def decode_results(batch: Load, queue: MessageQueue, answer: Command) -> list[SendResult] | None:
    """Return the result of each message that a request carried, or None when the broker refused it.

    Messages that were encoded together have one result together, the first one's. The broker has the last word on the
    queue: a priority chooses it.

    Args:
        queue: where the request went.

    Raises:
        HeaderError: a success that does not say where the messages are.
    """
    status = _STATUS.get(answer.code)  # type: ignore[call-overload]
    if status is None:
        return None
    header = decode_header(SendResponse, answer.ext_fields)
    if header.queue_id != queue.queue_id:
        queue = queue._replace(queue_id=header.queue_id)
    if isinstance(batch, EncodedBatch):
        return [SendResult(batch.message_id, header.message_id.partition(",")[0], queue, header.queue_offset, status)]
    if len(batch) == 1:
        encoded = batch[0]
        return [
            SendResult(encoded.message_id, header.message_id, queue, header.queue_offset, status, header.recall_handle)
        ]
    # A batch is answered with the offset of its first message and the ids of all, joined by commas.
    offset_ids = header.message_id.split(",")
    if len(offset_ids) != len(batch):
        offset_ids = [""] * len(batch)
    return [
        SendResult(encoded.message_id, offset_id, queue, header.queue_offset + index, status)
        for index, (encoded, offset_id) in enumerate(zip(batch, offset_ids, strict=True))
    ]
