"""The LMQs (light message queues) that a message names, and its offset in each: properties of the message. Pure.

`INNER_MULTI_DISPATCH` is a sender's: names with commas between them. `INNER_MULTI_QUEUE_OFFSET` is the broker's: for each
name the message's queue offset there. Both are in the record, so that every rebuild of queues from the log writes
these as well.

Source: docs/formats/consume_queue.md; Java LmqDispatch, MultiDispatchUtils.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from orbitmq.model.message import PropertyName
from orbitmq.model.topic import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from orbitmq.store.dispatch import is_queued
from orbitmq.store.values import Dispatched
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

Message = TypeVar("Message", Dispatched, Record)

NAMES = PropertyName.LMQ_QUEUES.encode()
NUMBERS = PropertyName.LMQ_OFFSETS.encode()
LMQ_QUEUE_ID = 0
"""An LMQ is the one queue of a topic that needs no creation."""

_WAITING = (RETRY_PREFIX, "rmq_sys_")
_DIGITS_MAX = 18
_NAME_SIZE_MAX = 255


def allows_lmq(topic: str) -> bool:
    """Return True if messages of a topic are put into LMQs: not while they wait (Java: MixAll.topicAllowsLMQ)."""
    return topic != SCHEDULE_TOPIC and not topic.startswith(_WAITING)


def is_lmq(name: str) -> bool:
    """Return True if a name is an LMQ's, and can name its directory."""
    is_directory = "/" not in name and "\0" not in name and len(name.encode(errors="replace")) <= _NAME_SIZE_MAX
    return name.startswith(LMQ_PREFIX) and is_directory


def named_queues(properties: bytes) -> list[str]:
    """Return the names that a message's properties give, good or bad."""
    names = find_property(properties, NAMES)
    return names.decode("utf-8", "replace").split(",") if names else []


def with_numbers(properties: bytes, numbers: Sequence[int | None]) -> bytes:
    """Return properties that say the message's number in each queue it names, in place of what they said; None: in none."""
    kept = [pair for pair in properties.split(b"\x02") if pair and not pair.startswith(NUMBERS + b"\x01")]
    text = ",".join("" if number is None else str(number) for number in numbers).encode()
    return b"".join(pair + b"\x02" for pair in (*kept, NUMBERS + b"\x01" + text))


def lmq_offsets(topic: str, properties: bytes) -> dict[str, int]:
    """Return the LMQs that a stored message is in, and its number in each."""
    if NUMBERS not in properties or not allows_lmq(topic):
        return {}
    names = named_queues(properties)
    numbers = (find_property(properties, NUMBERS) or b"").split(b",")
    if len(names) != len(numbers):
        return {}
    places: dict[str, int] = {}
    for name, number in zip(names, numbers, strict=True):
        if is_lmq(name) and number.isdigit() and len(number) <= _DIGITS_MAX:
            places.setdefault(name, int(number))
    return places


def lmq_forms(message: Message) -> list[Message]:
    """Return a stored message as each of its LMQs has it: the same record under another queue and number."""
    if NUMBERS not in message.properties or not is_queued(message.sys_flag):
        return []
    places = lmq_offsets(message.topic, message.properties)
    return [message._replace(topic=name, queue_id=LMQ_QUEUE_ID, queue_offset=number) for name, number in places.items()]
