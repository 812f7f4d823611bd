"""Requests of a POP consumer to a broker on the loopback."""

from __future__ import annotations

from typing import Any

from orbitmq.client.consume.popped_messages import decode_popped
from orbitmq.model.message import StoredMessage
from orbitmq.wire.command import Command
from orbitmq.wire.headers import AckMessage, ChangeInvisibleTime, PopMessage
from orbitmq.wire.pop.handles import parse_handle


def pop_header(**fields: Any) -> PopMessage:
    settings: dict[str, Any] = {
        "consumer_group": "g", "topic": "t", "queue_id": -1, "count_max": 32, "invisible_ms": 60_000, "poll_ms": 0,
        "init_mode": 0,
    }  # fmt: skip
    return PopMessage(**settings | fields)


async def pop(harness: Any, **fields: Any) -> list[StoredMessage]:
    """Pop, and expect messages."""
    answer: Command = await harness.ask(pop_header(**fields))
    assert answer.code == 0, answer.remark
    return decode_popped(answer, fields.get("topic", "t"), "a")[0]


def handle_of(message: StoredMessage) -> str:
    return message.properties["POP_CK"]


def ack_header(message: StoredMessage, **fields: Any) -> AckMessage:
    handle = parse_handle(handle_of(message))
    settings: dict[str, Any] = {
        "consumer_group": "g", "topic": "t" if handle.retry == "0" else "%RETRY%g_t", "queue_id": handle.queue_id,
        "handle": handle_of(message), "queue_offset": handle.queue_offset,
    }  # fmt: skip
    return AckMessage(**settings | fields)


def change_header(message: StoredMessage, invisible_ms: int, **fields: Any) -> ChangeInvisibleTime:
    ack = ack_header(message)
    settings: dict[str, Any] = {
        "consumer_group": "g", "topic": ack.topic, "queue_id": ack.queue_id, "handle": ack.handle,
        "queue_offset": ack.queue_offset, "invisible_ms": invisible_ms,
    }  # fmt: skip
    return ChangeInvisibleTime(**settings | fields)
