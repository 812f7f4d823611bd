"""The rules of redelivery: from where, after how long, how often; and messages as sends to the retry topic. Pure.

Source: Java ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orbitmq.model.message import PropertyName, StoredMessage, SysFlag
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC, RETRY_PREFIX
from orbitmq.wire.headers import SendMessageV2
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import format_properties

MAX_ATTEMPTS: Final = 16
RETRY_DELAY_MS: Final = 1_000
RETRY_DELAY_MAX_MS: Final = 30_000
RECONSUME_TIMES_MAX: Final = 2**31 - 1
"""Java's Integer.MAX_VALUE: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """What a consumer does with messages that were not done.

    Args:
        is_in_place: they come again from here, before anything else of their queue; otherwise their broker gets them
            back, stores them once more for the group, and delivers them later.
        max_attempts: deliveries of a message, the first one included; None for no limit.
        retry_delay_ms: before the second delivery in place; doubles up to half a minute.
    """

    is_in_place: bool = False
    max_attempts: int | None = MAX_ATTEMPTS
    retry_delay_ms: int = RETRY_DELAY_MS

    @property
    def max_reconsume_times(self) -> int:
        """The limit as brokers are told it: deliveries after the first one (Java: maxReconsumeTimes)."""
        return RECONSUME_TIMES_MAX if self.max_attempts is None else self.max_attempts - 1

    def is_last(self, message: StoredMessage) -> bool:
        """True when a message that fails now has failed for the last time."""
        return message.reconsume_times >= self.max_reconsume_times

    def delay_ms(self, message: StoredMessage) -> int:
        """Return how long to wait before a message that fails now comes again in place."""
        # 16 doublings are beyond every maximum; more of them would only make large numbers.
        delay_ms = self.retry_delay_ms << min(message.reconsume_times, 16)
        return min(delay_ms, max(self.retry_delay_ms, RETRY_DELAY_MAX_MS))


PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""The group that Java's consumers send under."""
FIRST_RETRY_LEVEL = 3
_BROKERS_MAX = 3
_NOT_KEPT = (
    PropertyName.TRAN_MSG,
    PropertyName.RECONSUME_TIME,
    PropertyName.MAX_RECONSUME_TIMES,
    PropertyName.CRC32,
)

_OF_THE_BODY = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
"""Of a body that is as it was stored; every other one is decompressed."""


def one_queue_each(queues: Sequence[MessageQueue], message: StoredMessage) -> list[MessageQueue]:
    """Return a queue of each of some brokers, in the order in which they are tried: another one for each message."""
    start = message.queue_offset % len(queues) if queues else 0
    of_brokers: dict[str, MessageQueue] = {}
    for queue in (*queues[start:], *queues[:start]):
        of_brokers.setdefault(queue.broker_name, queue)
    return list(of_brokers.values())[:_BROKERS_MAX]


def plain_send(
    message: StoredMessage, group: str, queue: MessageQueue, *, delay_level: int, max_reconsume_times: int, now_ms: int
) -> SendMessageV2:
    """Return the header of a message on its way to the retry topic.

    Args:
        delay_level: one of the broker's; 0 for one level longer with each attempt; less: to the dead letters.
        max_reconsume_times: after so many attempts it is a dead letter.
    """
    properties = {name: value for name, value in message.properties.items() if name not in _NOT_KEPT}
    properties.setdefault(
        PropertyName.ORIGIN_MESSAGE_ID, offset_message_id(message.store_host, message.physical_offset)
    )
    properties[PropertyName.RETRY_TOPIC] = message.topic
    if message.decode_error is not None:
        properties[PropertyName.DECODE_ERROR] = message.decode_error
    properties[PropertyName.DELAY] = str(
        delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + message.reconsume_times
    )
    return SendMessageV2(
        producer_group=PRODUCER_GROUP,
        topic=RETRY_PREFIX + group,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=queue.queue_id,
        sys_flag=0 if message.decode_error is None else message.sys_flag & _OF_THE_BODY,
        born_at_ms=now_ms,
        flag=message.flag,
        properties=format_properties(properties).decode(),
        reconsume_times=message.reconsume_times + 1,
        unit_mode=False,
        # A broker gives up what has more attempts than this.
        max_reconsume_times=message.reconsume_times if delay_level < 0 else max_reconsume_times,
        batch=False,
        broker_name=queue.broker_name,
    )
