"""The delivery of delayed messages in a running broker: a task that looks while any wait, and keeps how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from orbitmq.broker.delivery.delay import DelayQueues, format_delay_offsets, parse_delay_offsets, schedule
from orbitmq.broker.delivery.delivered_copies import DeliveredCopies
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.errors import StoreError
from orbitmq.files import read_table, replace_file
from orbitmq.model.delay_levels import DelayLevels
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion
from orbitmq.store import Draft, Store
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.delivery_progress import DeliveryProgress

log = logging.getLogger(__name__)

TICK_MS = 100
"""How often delayed messages are looked at while some wait."""
SAVE_MS = 1_000
"""How often it is kept how far they are delivered: a crash repeats what was sent on since, and since the last sync."""


class DelayService:
    """Delivers what waits in `queues`.

    Args:
        path: delayOffset.json, which says after a restart how far each level has been delivered.
        clock: the wall clock, for versions of tables.
        monotonic: the clock that delays are counted on.
    """

    def __init__(self, queues: DelayQueues, path: Path, clock: Clock, monotonic: Clock) -> None:
        self._queues = queues
        self._path = path
        self._clock = clock
        self._monotonic = monotonic
        self._arrived = asyncio.Event()
        self._saved_at_ms = -SAVE_MS
        self._unsaved: bytes | None = None
        self._failure = RepeatedFailure(log, "delivering delayed messages failed, it is tried again")
        self._saving: asyncio.Task[None] | None = None

    def backlog(self) -> dict[int, int]:
        """Return how many messages wait, by level."""
        return self._queues.backlog()

    @property
    def undeliverable_count(self) -> int:
        """Messages that were passed over, for they cannot be read or stored again."""
        return self._queues.undeliverable_count

    def offsets(self) -> bytes:
        """Return up to where each level was delivered, as delayOffset.json tells it after the next sync."""
        return self._queues.offsets()

    def progress(self) -> dict[int, tuple[int, int]]:
        """Return, of each level that was ever used, up to where it was delivered, and where its queue ends."""
        return self._queues.progress()

    async def take_over(self, content: bytes) -> bool:
        """Keep how far a master has delivered: a slave that becomes the master goes on there.

        Args:
            content: the master's delayOffset.json.

        Returns:
            Whether there are delayed messages at all.

        Raises:
            HeaderError: it is none.
            OSError: the disk does not take it.
        """
        if self._queues.take_over(*parse_delay_offsets(content)):
            await asyncio.to_thread(replace_file, self._path, self._queues.offsets())
        return bool(self._queues.progress())

    def waiting(self, draft: Draft, properties: Mapping[str, str], level: int) -> Draft:
        """Return the form in which a message waits (see `delay.schedule`), at most at the highest level."""
        return schedule(draft, properties, self._queues.levels.nearest(level))

    def wake(self) -> None:
        """Look again as soon as the message that was just stored can be read: it waits for its time."""
        # Not immediately: with SYNC_FLUSH it is invisible until its sync, and a check before would go back to sleep.
        self._queues.when_readable(self._arrived.set)

    async def run(self) -> None:
        """Send on what has waited long enough; sleeps while nothing waits. Ends when it is cancelled."""
        queues = self._queues
        try:
            while True:
                if not queues.are_waiting and not queues.is_changed and self._unsaved is None:
                    await self._arrived.wait()
                self._arrived.clear()
                queues.note_arrivals(self._monotonic())
                await asyncio.sleep(TICK_MS / 1000)
                try:
                    await self._deliver()
                except Exception as error:
                    self._failure.note(error)
                else:
                    self._failure.note(None)
                self._save_in_time()
        finally:
            if self._saving is not None:  # the stop writes the file once more, after this
                await asyncio.wait((self._saving,))

    def save(self) -> None:
        """Write how far the levels have been delivered, when that has changed and is durable."""
        if (content := self._take_unsaved()) is not None:
            replace_file(self._path, content)
            self._unsaved = None

    def close(self) -> None:
        """Close what is open, after the last delivery."""
        self._queues.close()

    async def _deliver(self) -> None:
        while self._queues.deliver_due(self._monotonic()):
            self._save_in_time()
            await asyncio.sleep(0)

    def _save_in_time(self) -> None:
        """Write the file from time to time. A thread syncs it, so that a slow disk stops no request."""
        now = self._monotonic()
        is_time = self._saving is None and now - self._saved_at_ms >= SAVE_MS
        if is_time and (content := self._take_unsaved()) is not None:
            self._saved_at_ms = now
            self._saving = asyncio.get_running_loop().create_task(self._save_aside(content))

    def _take_unsaved(self) -> bytes | None:
        self._unsaved = self._queues.take_durable(self._clock()) or self._unsaved
        return self._unsaved

    async def _save_aside(self, content: bytes) -> None:
        try:
            await asyncio.to_thread(replace_file, self._path, content)
            self._unsaved = None
        except OSError:
            log.exception("how far delayed messages are delivered cannot be kept, trying again")
        finally:
            self._saving = None


def open_delays(
    store: Store,
    topics: TopicRegistry,
    files: ConfigFiles,
    levels: DelayLevels,
    copies: DeliveredCopies,
    clock: Clock,
    monotonic: Clock,
) -> DelayService:
    """Go on with the delayed messages where the broker's files say, behind what a former master has delivered.

    Raises:
        StoreError: delayOffset.json cannot be read, or written.
    """
    delivered = read_table(files.delays_path, parse_delay_offsets) or ()
    if delivered:
        _keep_cut(*delivered, store, files.delays_path)
    notes = DeliveryProgress(LocalDisk(), files.delivered_path)
    queues = DelayQueues(
        store, topics, levels, *delivered, notes=notes, copies=copies, wall_ms=clock(), now_ms=monotonic()
    )
    return DelayService(queues, files.delays_path, clock, monotonic)


def _keep_cut(offsets: Mapping[int, int], version: DataVersion, store: Store, path: Path) -> None:
    """Write offsets behind their queues' ends as those ends: a new master's messages come to the place of those that were cut.

    Raises:
        StoreError: the disk does not take it.
    """
    cut = {level: min(offset, store.max_offset(SCHEDULE_TOPIC, level - 1)) for level, offset in offsets.items()}
    if cut != offsets:
        log.warning("%s tells of messages behind the end of their queues", path)
        try:
            replace_file(path, format_delay_offsets(cut, version))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error}") from error
