"""Answers to sends: where the messages went, given when the flush mode's promise is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreBusy, StoreUnavailable
from orbitmq.ha.replica_acks import ReplicaAckResult
from orbitmq.ha.replica_acks import Waiter as CopyWaiter
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
_REMARKS = {
    ResponseCode.FLUSH_DISK_TIMEOUT: FLUSH_TIMEOUT_REMARK,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "too few slaves have confirmed the message within slaveTimeout; they may still get it",
    ResponseCode.SLAVE_NOT_AVAILABLE: "the message is on the master alone: too few slaves follow, or they are too far behind",
}
_OF_SLAVES = {
    ReplicaAckResult.DONE: ResponseCode.SUCCESS,
    ReplicaAckResult.LATE: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ReplicaAckResult.NO_SLAVE: ResponseCode.SLAVE_NOT_AVAILABLE,
}
_SEVEREST_LAST = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.SERVICE_NOT_AVAILABLE,
)
"""As Java: what slaves say counts for more than a slow disk. That the message is not kept counts for most."""

Safe = Callable[[ResponseCode], None]
"""Told what a send is answered with, whose message is as safe as it will be."""
WaitReplicated = Callable[[int, CopyWaiter], ReplicaAckResult | None]
"""SlaveListener.wait_copied."""


def refusal_of(error: StoreUnavailable) -> Rejected:
    """Return the answer to a send that the store refuses: it is busy, or takes nothing."""
    code = ResponseCode.SYSTEM_BUSY if isinstance(error, StoreBusy) else ResponseCode.SERVICE_NOT_AVAILABLE
    return Rejected(code, str(error))


class SendAnswers:
    """Answers sends of one broker.

    Args:
        host: this broker's address, as message ids carry it.
        region_id: for trace consoles, as `trace_on`.
        wait_replicated: SYNC_MASTER: asks for slaves that have a place of the log; None: sends do not wait for them.
    """

    def __init__(
        self, store: Store, *, host: Host, region_id: str, trace_on: bool, wait_replicated: WaitReplicated | None = None
    ) -> None:
        self.host = host
        self._store = store
        self._wait_replicated = wait_replicated
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

        def safe(code: ResponseCode) -> None:
            call.answer(NOT_DURABLE if code == NOT_DURABLE.code else reply._replace(code=code, remark=remark_of(code)))

        return reply if self.wait_safe(end, safe) else LATER

    def wait_safe(self, end: int, safe: Safe) -> bool:
        """Ask for an answer when the log up to `end` is as safe as flush mode and role promise.

        Returns:
            True: it is. False: `safe` is called with what a send is to be answered, immediately or later.
        """
        if self._wait_replicated is None:
            return self._store.wait_durable(end, lambda is_durable: safe(_of_disk(is_durable)))
        codes: list[ResponseCode] = []

        def part(code: ResponseCode) -> None:
            codes.append(code)
            if len(codes) == 2:
                safe(max(codes, key=_SEVEREST_LAST.index))

        is_durable = self._store.wait_durable(end, lambda is_durable: part(_of_disk(is_durable)))
        ack_result = self._wait_replicated(end, lambda ack_result: part(_OF_SLAVES[ack_result]))
        if is_durable and ack_result is ReplicaAckResult.DONE:
            return True
        if is_durable:
            part(ResponseCode.SUCCESS)
        if ack_result is not None:
            part(_OF_SLAVES[ack_result])
        return False


def when_safe(
    answers: SendAnswers,
    call: Call[Any],
    end: int,
    reply: Reply = Reply(),  # noqa: B008 - frozen
) -> Reply | Later:
    """Answer a request that stored something: now, or when that is as safe as a send would be.

    What is not safe in time is refused (14) with the reason: its client asks again, and storing it twice does no harm.

    Args:
        end: where the last record of it ends.
    """

    def safe(code: ResponseCode) -> None:
        if code == ResponseCode.SUCCESS:
            call.answer(reply)
        else:
            is_lost = code == NOT_DURABLE.code
            call.answer(NOT_DURABLE if is_lost else Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark_of(code)))

    return reply if answers.wait_safe(end, safe) else LATER


def remark_of(code: ResponseCode) -> str | None:
    """Return the remark for the code of a message that was stored."""
    return _REMARKS.get(code)


def _of_disk(is_durable: bool | None) -> ResponseCode:
    if is_durable is None:
        return ResponseCode.FLUSH_DISK_TIMEOUT
    return ResponseCode.SUCCESS if is_durable else ResponseCode.SERVICE_NOT_AVAILABLE
