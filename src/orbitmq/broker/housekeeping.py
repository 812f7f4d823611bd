"""What a broker does beside answering: time-outs, silent clients, delayed messages, and its small files.

Two tasks on the loop: one looks after everything once a second, one delivers delayed messages while any wait. Neither
ends because of a failure; both end with `stop`, and `save` writes down what they had not yet.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from orbitmq.broker.delivery.delay import DelayQueues, parse_delay_offsets
from orbitmq.broker.handlers.pull import retry_parked
from orbitmq.broker.persistence import format_offsets
from orbitmq.broker.service import BrokerService
from orbitmq.files import read_generations, replace_file

log = logging.getLogger(__name__)

TURN_MS = 1_000
SWEEP_MS = 5_000
"""How often parked pulls (Java: PullRequestHoldService), accounts and certificates are looked through."""
CLIENT_SCAN_MS = 10_000
DELAY_TICK_MS = 100
"""How often delayed messages are looked at while some wait."""
DELAY_SAVE_MS = 1_000


class Housekeeping:
    """Keeps a running broker's house.

    Raises:
        StoreError: delayOffset.json cannot be read.
    """

    def __init__(self, service: BrokerService) -> None:
        self._service = service
        self._saved_change_count = 0
        found = read_generations(service.files.delays_path, parse_delay_offsets)
        self._delays = DelayQueues(service.store, service.topics.get, *(found or ()))
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_house()), loop.create_task(self._deliver_delayed())]

    async def stop(self) -> None:
        """End both tasks."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def save(self) -> None:
        """Write what has changed since it was written; the store is closed by now, so all of it is durable."""
        service = self._service
        if service.offsets.change_count != self._saved_change_count:
            replace_file(service.files.offsets_path, format_offsets(service.offsets))
        self._save_delays()

    async def _keep_house(self) -> None:
        interval_ms = self._service.config.flush_consumer_offset_interval
        elapsed_ms = 0
        while True:
            await asyncio.sleep(TURN_MS / 1000)
            elapsed_ms += TURN_MS
            try:
                self._sweep(elapsed_ms)
                if elapsed_ms % interval_ms < TURN_MS:
                    await self._save_offsets()
            except Exception:
                log.exception("housekeeping failed, going on")

    def _sweep(self, elapsed_ms: int) -> None:
        service = self._service
        now = service.clock()
        service.stats.sample(now)
        for pull in service.polls.take_expired(now):
            retry_parked(service, pull)
        if elapsed_ms % SWEEP_MS == 0:
            for pull in service.polls.take_overtaken(service.store.max_offset):
                retry_parked(service, pull)
            service.guard.reload_if_changed()
        if elapsed_ms % CLIENT_SCAN_MS == 0:
            service.tell_members(service.clients.expire(now, service.config.channel_expired_timeout))
            service.locks.expire(now)

    async def _save_offsets(self) -> None:
        """Write the offsets when they changed. A thread syncs the bytes, so that a slow disk stops nobody."""
        offsets = self._service.offsets
        if offsets.change_count == self._saved_change_count:
            return
        change_count = offsets.change_count
        offsets.version = offsets.version.next(self._service.clock())
        await asyncio.to_thread(replace_file, self._service.files.offsets_path, format_offsets(offsets))
        self._saved_change_count = change_count

    async def _deliver_delayed(self) -> None:
        """Send on what waited long enough; sleeps while nothing waits."""
        delays = self._delays
        arrived = asyncio.Event()
        self._service.delay_wake = arrived.set
        saved_at_ms = 0
        while True:
            if not delays.are_waiting and not delays.is_changed:
                await arrived.wait()
            arrived.clear()
            await asyncio.sleep(DELAY_TICK_MS / 1000)
            now = self._service.clock()
            try:
                delays.deliver_due(now)
                if now - saved_at_ms >= DELAY_SAVE_MS:
                    self._save_delays()
                    saved_at_ms = now
            except Exception:
                log.exception("delivering delayed messages failed, trying again")

    def _save_delays(self) -> None:
        if (content := self._delays.take_durable(self._service.clock())) is not None:
            replace_file(self._service.files.delays_path, content)
