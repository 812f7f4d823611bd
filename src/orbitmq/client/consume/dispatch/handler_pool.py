"""The tasks that call a consumer's handler, several batches at the same time, each of another queue.

Source: Java ConsumeMessageOrderlyService: one batch per queue is handed out at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.dispatch.failure_log import FailureLog
from orbitmq.client.consume.dispatch.handler_call import call_handler
from orbitmq.client.consume.dispatch.ready_queues import ReadyQueues
from orbitmq.client.session.background_tasks import BackgroundTasks

Handler = Callable[[Batch], Awaitable[object] | object]


class HandlerPool:
    """Calls a handler with batch after batch: one that returns has done its batch, one that raises gets it again.

    What the handler itself has settled stays settled, and what it has deferred stays open. A message that cannot be decoded
    goes to the dead letters instead.

    Args:
        group: the consumer group, for the log.
        ready: where the batches come from.
        handler: is called with each one.
        concurrency: batches that are handled at the same time.
        timeout_ms: a handler that takes longer is cancelled, and has failed.
        tasks: where the handlers run.
    """

    def __init__(
        self,
        group: str,
        ready: ReadyQueues,
        handler: Handler,
        *,
        concurrency: int,
        timeout_ms: int,
        tasks: BackgroundTasks,
    ) -> None:
        self._failures = FailureLog(group)
        self._ready = ready
        self._handler = handler
        self._concurrency = concurrency
        self._timeout_ms = timeout_ms
        self._tasks = tasks
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Handle batches from now on."""
        self._workers = [self._tasks.spawn(self._work(), "handler") for _ in range(self._concurrency)]

    async def drain(self, timeout_ms: int) -> None:
        """Wait until running handlers have ended, `timeout_ms` at most; the queues were closed before."""
        if self._workers:
            await asyncio.wait(self._workers, timeout=timeout_ms / 1000)

    async def _work(self) -> None:
        while (batch := await self._ready.next_batch()) is not None:
            if batch.decode_error is not None:
                self._failures.undecodable(batch[0], batch.queue)
                batch.reject()
                continue
            try:
                await call_handler(self._handler, batch, self._timeout_ms)
            except Exception as error:
                self._failures.failed(error, "%r, attempt %d", batch, batch.attempt)
                batch.retry()
            else:
                batch.finish()
