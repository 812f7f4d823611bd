"""Plain reads of queues at their broker, without a group's offsets, routes or windows: for tools that copy whole queues.

Source: Java DefaultMQPullConsumer, as its tools use it; PullMessageProcessor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from orbitmq.client.consume.pull_request import plain_pull
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, RequestTimeout
from orbitmq.net.pool import expect
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.offsets import GetMaxOffset, GetMinOffset, OffsetResponse
from orbitmq.wire.headers.pull import PullResponse

PULL_COUNT = 256
RETRY_S = 10.0
"""How long a read is repeated while no answer comes: a broker may restart."""
_PAUSE_S = 0.2
NOTHING_THERE = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""Answers to a pull without messages."""


class QueueBounds(NamedTuple):
    """The first queue offset, and the one behind the last message."""

    begin: int
    end: int


class Pulled(NamedTuple):
    """Records of a queue as they are stored, and the offset behind them, or where the broker says that the queue goes on."""

    records: bytes
    next_offset: int


class QueueReader:
    """Reads queues at brokers by their addresses.

    Args:
        request: sends a request to an address, and returns the answer whatever its code.
    """

    def __init__(self, request: Callable[[str, object], Awaitable[Command]]) -> None:
        self._request = request

    async def bounds(self, address: str, topic: str, queue_id: int) -> QueueBounds:
        """Return where a queue begins and ends.

        Raises:
            RemoteRefused: the broker does not have the topic.
        """
        low = await self._ask(address, GetMinOffset(topic=topic, queue_id=queue_id))
        high = await self._ask(address, GetMaxOffset(topic=topic, queue_id=queue_id))
        begin, end = (decode_header(OffsetResponse, expect(found, address).ext_fields).offset for found in (low, high))
        return QueueBounds(max(0, begin), max(0, begin, end))

    async def pull(self, address: str, topic: str, queue_id: int, offset: int) -> Pulled:
        """Return records of a queue from an offset on; none where the broker has none there.

        Raises:
            RemoteRefused: the topic may not be read.
        """
        answer = await self._ask(address, plain_pull(topic, queue_id, offset, PULL_COUNT))
        is_empty = answer.code in NOTHING_THERE
        fields = (answer if is_empty else expect(answer, address)).ext_fields
        return Pulled(b"" if is_empty else answer.body, decode_header(PullResponse, fields).next_begin_offset)

    async def _ask(self, address: str, header: object) -> Command:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RETRY_S
        while True:
            try:
                return await self._request(address, header)
            except (ConnectionFailed, RequestTimeout):
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(_PAUSE_S)
