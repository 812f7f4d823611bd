"""An honest producer and an honest consumer of a broker under attack: how long a send, and how long a delivery takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hostile.broker_attacks import SUSPEND_MS
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PullMessage, PullResponse, PullSysFlag, SendMessageV2, SendResponse
from orbitmq.wire.messages.record import iter_records

TOPIC = "honest"
TIMEOUT_MS = 20_000


class HonestPair:
    """One producer, which sends small messages one after another, and one consumer that waits for them.

    Each keeps the connection that it began with: who comes during an attack may find that all connections are taken.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._producer, self._consumer = ConnectionPool(), ConnectionPool()
        self._offset = 0
        self.sends_ms: list[float] = []
        """From each send to its answer."""
        self.deliveries_ms: list[float] = []
        """From each send to its arrival at the consumer."""
        self.failures = 0

    def clear(self) -> None:
        """Forget what was measured so far."""
        self.sends_ms.clear()
        self.deliveries_ms.clear()

    async def prepare(self) -> None:
        """Make the topic."""
        self._offset = await self._send()
        self.clear()

    async def close(self) -> None:
        """Close the connections."""
        await self._producer.close()
        await self._consumer.close()

    async def work_while(self, goes_on: Callable[[], bool], *, pause_s: float = 0.01) -> None:
        """Send, and between two sends pause; consume meanwhile, until all that was sent has come."""
        consuming = asyncio.create_task(self._consume())
        try:
            sent = 0
            while goes_on():
                if await self._send():
                    sent += 1
                await asyncio.sleep(pause_s)
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                while len(self.deliveries_ms) < sent:
                    await asyncio.sleep(pause_s)
        finally:
            consuming.cancel()

    async def _send(self) -> int:
        """Send once; return the offset behind the message, 0 when it was refused."""
        header = SendMessageV2(
            producer_group="p", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
            sys_flag=0, born_at_ms=1, flag=0, properties="",
        )  # fmt: skip
        began = time.perf_counter()
        try:
            answer = await self._producer.request(self._address, header, b"%.9f" % began, timeout_ms=TIMEOUT_MS)
        except ClientError:
            self.failures += 1
            return 0
        if answer.code != ResponseCode.SUCCESS:
            self.failures += 1
            return 0
        self.sends_ms.append((time.perf_counter() - began) * 1000)
        return decode_header(SendResponse, answer.ext_fields).queue_offset + 1

    async def _consume(self) -> None:
        while True:
            header = PullMessage(
                consumer_group="honest", topic=TOPIC, queue_id=0, queue_offset=self._offset, count_max=32,
                sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND, commit_offset=0,
                suspend_timeout_ms=SUSPEND_MS, subscription="*", sub_version=0,
            )  # fmt: skip
            try:
                answer = await self._consumer.request(self._address, header, timeout_ms=2 * SUSPEND_MS)
            except ClientError:
                self.failures += 1
                continue
            now = time.perf_counter()
            if answer.code == ResponseCode.SUCCESS:
                self.deliveries_ms += [(now - float(bytes(found.body))) * 1000 for found in iter_records(answer.body)]
                self._offset = decode_header(PullResponse, answer.ext_fields).next_begin_offset
