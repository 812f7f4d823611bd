"""The delivery of delayed messages in a running broker: a task that looks while any wait, and keeps how far it is."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from orbitmq.broker.delivery.delay import DelayQueues
from orbitmq.clock import Clock
from orbitmq.files import replace_file

log = logging.getLogger(__name__)

TICK_MS = 100
"""How often delayed messages are looked at while some wait."""
SAVE_MS = 1_000


class DelayService:
    """Delivers what waits in `queues`.

    Args:
        path: delayOffset.json, which says after a restart how far each level has been delivered.
    """

    def __init__(self, queues: DelayQueues, path: Path, clock: Clock) -> None:
        self._queues = queues
        self._path = path
        self._clock = clock
        self._arrived = asyncio.Event()

    def wake(self) -> None:
        """Look again: a message was stored that waits for its time."""
        self._arrived.set()

    async def run(self) -> None:
        """Send on what has waited long enough; sleeps while nothing waits. Ends when it is cancelled."""
        queues = self._queues
        saved_at_ms = 0
        while True:
            if not queues.are_waiting and not queues.is_changed:
                await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(TICK_MS / 1000)
            now = self._clock()
            try:
                queues.deliver_due(now)
                if now - saved_at_ms >= SAVE_MS:
                    self.save()
                    saved_at_ms = now
            except Exception:
                log.exception("delivering delayed messages failed, trying again")

    def save(self) -> None:
        """Write how far the levels have been delivered, when that has changed and is durable."""
        if (content := self._queues.take_durable(self._clock())) is not None:
            replace_file(self._path, content)
