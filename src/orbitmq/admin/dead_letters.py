"""Dead letters as values: where each lies, where it came from, which ones are meant, how one is sent again. Pure.

Source: Java AbstractSendMessageProcessor.consumerSendMsgBack, SendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, PropertyName, StoredMessage, priority_of
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import is_reserved_topic
from orbitmq.wire.messages.message_id import offset_message_id

ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
_OF_ROCKETMQ = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_") and isinstance(value, str)
)
_OF_A_DELIVERY = frozenset(
    (
        ORIGIN_TOPIC, "CONSUME_START_TIME", "1ST_POP_TIME", "POP_CK", "POP_CK_OFFSET", "TIMER_DELAY_SEC", "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL", "__transactionId__", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET",
        "CHECK_IMMUNITY_TIME_IN_SECONDS", "INSTANCE_ID", "EXTEND_UNIQ_INFO", "INNER_BASE", "DUP_INFO",
        "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "BORN_TIMESTAMP",
    )
)  # fmt: skip
"""Properties that tell of one delivery, which a message does not take into the next (Java: MessageConst)."""


class DeadLetterPosition(NamedTuple):
    """The place of a dead letter in its topic, written `broker:queue:offset`. Places sort as the letters are read."""

    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.broker_name}:{self.queue_id}:{self.queue_offset}"

    @property
    def next(self) -> DeadLetterPosition:
        """The place behind this one."""
        return self._replace(queue_offset=self.queue_offset + 1)


def parse_place(text: str) -> DeadLetterPosition:
    """Parse `broker:queue:offset`.

    Raises:
        InvalidArgument: it is not of that form.
    """
    broker_name, *numbers = text.split(":")
    if not broker_name or len(numbers) != 2 or not all(part.isascii() and part.isdecimal() for part in numbers):
        raise InvalidArgument("place", text, "broker:queue:offset")
    return DeadLetterPosition(broker_name, int(numbers[0]), int(numbers[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSelection:
    """Which of a group's dead letters are meant; all of them, when nothing is said.

    Args:
        start: begin at this place; everything that sorts before it is left out.
        offset_min: of each queue, the first offset that is meant.
        offset_end: of each queue, the first offset that is not meant any more.
        broker_name: only the letters of this broker.
        ids: only letters with one of these ids: their own, their origin's, or the one that the client gave them.
        count_max: only so many.
    """

    start: DeadLetterPosition | None = None
    offset_min: int = 0
    offset_end: int | None = None
    broker_name: str | None = None
    ids: frozenset[str] = frozenset()
    count_max: int | None = None

    def cut(self, queue: MessageQueue, begin: int, end: int) -> range:
        """Return the offsets of a queue, which holds `begin` up to `end`, that may be meant."""
        if self.broker_name not in (None, queue.broker_name):
            return range(0)
        first = max(begin, self.offset_min)
        if self.start is not None:
            if (queue.broker_name, queue.queue_id) < self.start[:2]:
                return range(0)
            if (queue.broker_name, queue.queue_id) == self.start[:2]:
                first = max(first, self.start.queue_offset)
        return range(first, end if self.offset_end is None else min(end, self.offset_end))

    @property
    def is_from_the_beginning(self) -> bool:
        """True when neither a place to begin nor single letters are named."""
        return self.start is None and not self.offset_min and not self.ids

    def takes(self, letter: DeadLetter) -> bool:
        """True when the ids name the letter, or there are no ids."""
        return not self.ids or not self.ids.isdisjoint(letter.ids)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group could not process, as it lies in the group's dead-letter topic."""

    message: StoredMessage

    @property
    def place(self) -> DeadLetterPosition:
        """Where it lies."""
        return DeadLetterPosition(self.message.broker_name, self.message.queue_id, self.message.queue_offset)

    @property
    def queue(self) -> MessageQueue:
        """The queue that it lies in."""
        return MessageQueue(self.message.topic, self.message.broker_name, self.message.queue_id)

    @property
    def origin_topic(self) -> str | None:
        """The topic that it was sent to; None when nothing tells it."""
        found = self.message.properties
        return found.get(ORIGIN_TOPIC) or found.get(PropertyName.RETRY_TOPIC)

    @property
    def origin_id(self) -> str | None:
        """The broker's id of the message that was sent; None when nothing tells it."""
        found = self.message.properties
        return found.get(ORIGIN_MESSAGE_ID) or found.get(PropertyName.ORIGIN_MESSAGE_ID)

    @property
    def ids(self) -> frozenset[str]:
        """Every id by which it may be known."""
        own = offset_message_id(self.message.store_host, self.message.physical_offset)
        return frozenset(text for text in (own, self.origin_id, self.message.message_id) if text)

    def again(self, topic: str | None = None) -> Message:
        """Return the message to send: as it was once sent, with the id that it had then as DLQ_ORIGIN_MESSAGE_ID.

        Args:
            topic: where to, instead of the topic that it came from.

        Raises:
            InvalidArgument: nothing tells where it came from, or it names a topic that RocketMQ keeps for itself, as any
                sender could; or its body cannot be decoded.
        """
        if (reason := self.message.decode_error) is not None:
            body = f"a body of {len(self.message.body)} bytes"
            raise InvalidArgument(f"the dead letter {self.place}", body, f"one that can be decoded ({reason})")
        target = topic or self.origin_topic
        if target is None:
            raise InvalidArgument(f"the dead letter {self.place}", "no origin topic", "a topic to send it to")
        if topic is None and is_reserved_topic(target):
            allowed = "an origin that RocketMQ does not keep for itself, or a topic to send it to"
            raise InvalidArgument(f"the dead letter {self.place}", target, allowed)
        found = self.message.properties
        own = own_properties(found)
        if self.origin_id is not None:
            own[ORIGIN_MESSAGE_ID] = self.origin_id
        return Message(
            target,
            self.message.body,
            self.message.tag,
            self.message.keys,
            own,
            self.message.flag,
            sharding_key=found.get(PropertyName.SHARDING_KEY),
            priority=priority_of(found),
        )


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a message takes into its next sending: its sender's own ones."""
    return {
        name: value for name, value in properties.items() if name not in _OF_ROCKETMQ and name not in _OF_A_DELIVERY
    }
