"""Answers to sends: where the messages went, given when the flush mode's promise is kept."""

from __future__ import annotations

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreBusy, StoreUnavailable
from orbitmq.model.message import Host, PropertyName
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.store import Store
from orbitmq.wire.headers import SendBatch, SendMessage, SendMessageV2, SendResponse
from orbitmq.wire.messages.properties import find_property

SendCall = Call[SendMessage] | Call[SendMessageV2] | Call[SendBatch]

NOT_DURABLE = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk refused to keep the message: it is not acknowledged")

UNIQUE_KEY = PropertyName.UNIQ_KEY.encode()
"""The property that a send's answer repeats as the transaction's id, whether there is a transaction or not."""
FLUSH_TIMEOUT_REMARK = "the disk has not kept the message within syncFlushTimeout; it may still do so"


def refusal_of(error: StoreUnavailable) -> Rejected:
    """Return what a sender is told whom the store refuses: that it is busy, or that it takes nothing."""
    code = ResponseCode.SYSTEM_BUSY if isinstance(error, StoreBusy) else ResponseCode.SERVICE_NOT_AVAILABLE
    return Rejected(code, str(error))


class SendAnswers:
    """Answers sends of one broker.

    Args:
        host: this broker's address, as message ids carry it.
        region_id: for trace consoles, as `trace_on`.
    """

    def __init__(self, store: Store, *, host: Host, region_id: str, trace_on: bool) -> None:
        self.host = host
        self._store = store
        self._region_id = region_id
        self._trace_on = str(trace_on).lower()

    def header(
        self,
        message_id: str,
        queue_id: int,
        queue_offset: int,
        transaction_id: str | None = None,
        recall_handle: str | None = None,
    ) -> SendResponse:
        """Return the header that says where a message went."""
        return SendResponse(
            message_id=message_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            region_id=self._region_id,
            trace_on=self._trace_on,
            recall_handle=recall_handle,
        )

    def when_durable(
        self,
        call: SendCall,
        queue_id: int,
        message_id: str,
        queue_offset: int,
        end: int,
        recall_handle: str | None = None,
    ) -> Reply | Later:
        """Answer now, or after the group commit that covers the last message.

        Args:
            message_id: of a batch, those of all messages with commas between them.
            queue_offset: the first message's.
            end: where the last one ends, in bytes.
            recall_handle: what a timer can be taken back with.
        """
        key = find_property((call.header.properties or "").encode(), UNIQUE_KEY)
        transaction_id = None if key is None else key.decode()
        reply = Reply(header=self.header(message_id, queue_id, queue_offset, transaction_id, recall_handle))

        def synced(is_durable: bool | None) -> None:
            if is_durable is None:
                call.answer(reply._replace(code=ResponseCode.FLUSH_DISK_TIMEOUT, remark=FLUSH_TIMEOUT_REMARK))
            else:
                call.answer(reply if is_durable else NOT_DURABLE)

        return reply if self._store.wait_durable(end, synced) else LATER
