"""Requests that bring messages and replies to a broker, its answer, the push of a reply, and the ends of transactions."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "CheckTransactionState",
    "ConsumerSendBack",
    "EndTransaction",
    "PushReply",
    "RecallMessage",
    "RecallResponse",
    "ResumeCheckHalfMessage",
    "SendBatch",
    "SendMessage",
    "SendMessageV2",
    "SendReply",
    "SendReplyV2",
    "SendResponse",
]


@request(RequestCode.SEND_MESSAGE)
class SendMessage:
    """One message, with the long field names that old clients use."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_at_ms: int = wire("bornTimestamp")
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.SEND_MESSAGE_V2)
class SendMessageV2:
    """The short-name form of SEND_MESSAGE: one letter per field on the wire, words here."""

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c")
    default_topic_queue_nums: Int32 = wire("d")
    queue_id: Int32 = wire("e")
    sys_flag: Int32 = wire("f")
    born_at_ms: int = wire("g")
    flag: Int32 = wire("h")
    properties: str | None = wire("i", default=None)
    reconsume_times: Int32 | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: Int32 | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)


@request(RequestCode.SEND_BATCH_MESSAGE)
class SendBatch(SendMessageV2):
    """Many messages of one queue in one body; the fields of SendMessageV2, `batch` is true."""


@request(RequestCode.SEND_REPLY_MESSAGE)
class SendReply(SendMessage):
    """The reply to a request, which its properties name; the fields of SendMessage."""


@request(RequestCode.SEND_REPLY_MESSAGE_V2)
class SendReplyV2(SendMessageV2):
    """The short-name form of SEND_REPLY_MESSAGE; the fields of SendMessageV2."""


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class PushReply:
    """Broker to client: the reply to one of your requests; hosts are written `ip:port`."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_at_ms: int = wire("bornTimestamp")
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    stored_at_ms: int = wire("storeTimestamp")


@header
class SendResponse:
    """The id and the offset that the message got. Java's client also reads the ext fields MSG_REGION and TRACE_ON."""

    message_id: str = wire("msgId")
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    region_id: str | None = wire("MSG_REGION", default=None)
    trace_on: str | None = wire("TRACE_ON", default=None)
    recall_handle: str | None = None


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendBack:
    """A consumer could not process a message: deliver it to the group again later."""

    physical_offset: int = wire("offset")
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None


@request(RequestCode.END_TRANSACTION)
class EndTransaction:
    """A producer has decided about one of its half messages, or says that it does not know yet.

    `tran_state_table_offset` is the message's queue offset in the half topic; `commit_or_rollback` is a value of sys_flag's
    transaction bits: 8 commit, 12 rollback, 0 unknown.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    message_id: str = wire("msgId")
    transaction_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionState:
    """Broker to producer: how did this transaction end? The body is the half message's record, under its own topic."""

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    message_id: str | None = wire("msgId", default=None)
    transaction_id: str | None = None
    offset_message_id: str | None = wire("offsetMsgId", default=None)
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessage:
    """Take a discarded half message up again; `message_id` is the offset id of its record."""

    topic: str | None = None
    message_id: str | None = wire("msgId", default=None)


@request(RequestCode.RECALL_MESSAGE)
class RecallMessage:
    """Take back a message that waits for its time; the handle came with the answer to its send."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = wire("bname", default=None)


@header
class RecallResponse:
    """The unique key of the message that is taken back."""

    message_id: str = wire("msgId")
    region_id: str | None = wire("MSG_REGION", default=None)
