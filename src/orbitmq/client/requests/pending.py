"""The requests of one producer that wait for their replies, by correlation id.

State: a future for each request. In: replies, the end of a request's time, closing. Out: replies to those who wait.

Source: Java RequestFutureHolder, which has one table for a whole process and no limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from orbitmq.errors import ClientError, OrbitError, RequestTimeout
from orbitmq.model.message import StoredMessage


class PendingRequest:
    """One request that waits.

    Args:
        deadline: when its time is over, by the loop's clock.
    """

    def __init__(self, deadline: float) -> None:
        self.correlation_id = str(uuid4())
        self.deadline = deadline
        self.reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()

    @property
    def left_ms(self) -> int:
        """What is left of its time."""
        return max(0, int((self.deadline - asyncio.get_running_loop().time()) * 1000))


class PendingRequests:
    """A table of requests that wait, with room for so many.

    Args:
        count_max: requests that wait at the same time; who asks beyond waits for a place.
    """

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._requests: dict[str, PendingRequest] = {}
        self._places = asyncio.Semaphore(count_max)
        self._is_closed = False

    @property
    def count(self) -> int:
        """Requests that wait."""
        return len(self._requests)

    @asynccontextmanager
    async def open(self, timeout_ms: int) -> AsyncIterator[PendingRequest]:
        """Take a place for a request. It is free again when the block ends, however it ends.

        Raises:
            RequestTimeout: there was no place in time.
            ClientError: closed meanwhile.
        """
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"a request was not sent within {timeout_ms} ms: {self.count_max} others (requests_max) wait for replies"
            ) from None
        try:
            if self._is_closed:
                raise _closed()
            request = PendingRequest(deadline)
            self._requests[request.correlation_id] = request
            try:
                yield request
            finally:
                self._requests.pop(request.correlation_id, None)
                if not request.reply.cancel() and not request.reply.cancelled():
                    request.reply.exception()  # seen, although nobody may wait for it any more
        finally:
            self._places.release()

    def resolve(self, correlation_id: str, reply: StoredMessage | OrbitError) -> bool:
        """Hand a reply, or what is wrong with it, to whoever waits; False when nobody does (any more)."""
        request = self._requests.pop(correlation_id, None)
        if request is None or request.reply.done():
            return False
        if isinstance(reply, OrbitError):
            request.reply.set_exception(reply)
        else:
            request.reply.set_result(reply)
        return True

    def close(self) -> None:
        """End all waiting."""
        self._is_closed = True
        for correlation_id in tuple(self._requests):
            self.resolve(correlation_id, _closed())


def _closed() -> ClientError:
    return ClientError("the producer was closed before the reply came")
