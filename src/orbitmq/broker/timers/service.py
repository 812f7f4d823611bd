"""Timers in a running broker: what is asked at the door, a task that works while any wait, and what it keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.broker.timers.timers import Timers, TimerSnapshot
from orbitmq.broker.timers.times import AskedTime, TimerRules, due_step_ms, is_congested, step_in_time_ms, wait_form
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, SyncFailed
from orbitmq.files import replace_file
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft, Store
from orbitmq.store.disk import DiskFile
from orbitmq.store.timers.checkpoint import TimerCheckpoint
from orbitmq.store.timers.files import TimerFiles
from orbitmq.wire.messages.properties import find_property, format_properties
from orbitmq.wire.messages.recall_handle import RecallHandle, format_recall_handle

log = logging.getLogger(__name__)

CLEAN_MS = 30_000
"""How often files of the timer log are deleted whose messages are gone."""
_RETRY_S = 0.1


class TimerService:
    """Delivers messages at their time.

    Args:
        timers: what waits.
        files: where it waits.
        rules: what messages may ask for.
        metrics_path: `config/timermetrics`.
        broker_name: this broker's, as recall handles carry it.
        save_ms: how often it is kept how far everything is (timerFlushIntervalMs).
        clock: the wall clock.
        monotonic: for pauses.
        random: chooses which to refuse where too many are due at the same time.
    """

    def __init__(
        self,
        store: Store,
        timers: Timers,
        files: TimerFiles,
        rules: TimerRules,
        metrics_path: Path,
        *,
        broker_name: str,
        save_ms: int,
        clock: Clock,
        monotonic: Clock,
        random: Random,
    ) -> None:
        self.timers = timers
        self.rules = rules
        self.failure = RepeatedFailure(log, "delivering timers failed, it is tried again")
        """Why timers are not delivered now."""
        self.save_failure: str | None = None
        """Why it is not kept how far they are."""
        self._store = store
        self._files = files
        self._metrics_path = metrics_path
        self._broker_name = broker_name
        self._save_ms = save_ms
        self._clock = clock
        self._monotonic = monotonic
        self._random = random
        self._arrived = asyncio.Event()
        self._saved_at_ms = monotonic()
        self._cleaned_at_ms = monotonic()
        self._snapshot: tuple[TimerSnapshot, int] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._is_fenced = False
        self._is_taken_over = False

    @property
    def warnings(self) -> list[str]:
        """What an operator should know: why nothing is delivered or kept, what was moved aside, and what is lost."""
        said = (
            [] if self.failure.text is None else [f"timers are not delivered, it is tried again: {self.failure.text}"]
        )
        if self.save_failure is not None:
            said.append(self.save_failure)
        said += [f"the timers' files were damaged and rebuilt; the old ones are {path}" for path in self._files.aside]
        return said

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """How far everything is, as far as it is on the disk."""
        return self._files.checkpoint

    def live_checkpoint(self) -> TimerCheckpoint:
        """Return how far everything is, what is not on the disk yet included."""
        checkpoint = self.timers.snapshot(self._clock()).checkpoint
        return checkpoint if self.timers.is_waiting else checkpoint._replace(read_ms=self._clock())

    async def take_over(self, checkpoint: TimerCheckpoint) -> bool:
        """Keep how far a master has delivered: a slave that becomes the master passes over what was due before.

        Returns:
            Whether there are timers at all.

        Raises:
            OSError: the disk does not take it.
        """
        if not self._store.max_offset(TIMER_TOPIC, 0):
            return False
        own = self._files.checkpoint
        queue_offset = max(checkpoint.queue_offset, checkpoint.master_queue_offset)
        taken = own._replace(read_ms=checkpoint.read_ms, master_queue_offset=queue_offset, version=checkpoint.version)
        self._is_taken_over = True
        if taken != own:
            await asyncio.to_thread(self._files.write_checkpoint, taken)
            self._files.checkpoint_written(taken)
        return True

    @property
    def metrics(self) -> TimerMetrics:
        """How many messages wait, by topic."""
        return self.timers.metrics

    @property
    def behind_ms(self) -> int:
        """How late the delivery is: 0 while nothing that is due waits."""
        step = self._clock() // self.rules.precision_ms * self.rules.precision_ms
        return max(0, step - self.timers.read_ms) if self.timers.is_waiting else 0

    @property
    def enqueue_behind_ms(self) -> int:
        """How long the first message has waited that is not in the wheel yet; 0 without one."""
        first_ms = self.timers.first_behind_ms
        return 0 if first_ms is None else max(0, self._clock() - first_ms)

    def due_counts(self, bounds_s: Sequence[int]) -> Iterator[tuple[int, int] | None]:
        """See `Timers.due_counts`."""
        return self.timers.due_counts(self._clock(), bounds_s)

    def stats(self) -> dict[str, int]:
        """Return how far everything is, under Java's names."""
        return {
            "timerReadBehind": self.behind_ms // 1000,
            "timerOffsetBehind": self.timers.queue_behind,
            "timerCongestNum": self.timers.pending_count,
        }

    def waiting(self, draft: Draft, properties: Mapping[str, str]) -> Draft:
        """Return the form in which a message that asks for a time is stored now.

        Args:
            properties: the message's, parsed; they replace `draft.properties`.

        Raises:
            Rejected: 13, the time is none that this broker takes; 1, there are no timers, or too many are due then.
            InvalidArgument: the properties do not fit a record.
        """
        rules = self.rules
        due_ms = due_step_ms(properties, rules, self._clock())
        if due_ms is None:
            return draft._replace(properties=format_properties(properties))
        count = self.timers.slot_count(due_ms)
        if is_congested(count, rules.slot_count_max, self._random.random()):
            raise Rejected(
                ResponseCode.SYSTEM_ERROR,
                f"timer message is under flow control: {count} messages are due at {due_ms}, "
                f"timerCongestNumEachSlot is {rules.slot_count_max}",
            )
        return wait_form(draft, properties, due_ms)

    def step_for(self, asked: AskedTime) -> int | None:
        """Return the step for a message that asks for a time now; None where `waiting` has to say what becomes of it."""
        due_ms = step_in_time_ms(asked, self.rules, self._clock())
        if due_ms is None or self.timers.slot_count(due_ms) > self.rules.slot_count_max:
            return None
        return due_ms

    def recall_handle(self, topic: str, stored: Draft) -> str | None:
        """Return what the sender of a stored timer may take it back with; None where the message has no unique key."""
        unique_key = find_property(stored.properties, b"UNIQ_KEY")
        due_ms = find_property(stored.properties, b"TIMER_OUT_MS")
        if unique_key is None or due_ms is None:
            return None
        return self.handle_of(topic, int(due_ms), unique_key.decode())

    def handle_of(self, topic: str, due_ms: int, unique_key: str) -> str:
        """Return what the sender of a timer may take it back with."""
        # One more than the step, so that rounding leads to the same step again.
        return format_recall_handle(RecallHandle(topic, self._broker_name, str(due_ms + 1), unique_key))

    def wake(self) -> None:
        """Look again as soon as the message that was just stored can be read."""
        # Not immediately: with SYNC_FLUSH it is invisible until its sync, and a check before would go back to sleep.
        if self._store.wait_durable(self._store.max_physical_offset, lambda is_durable: self._arrived.set()):
            self._arrived.set()

    async def run(self) -> None:
        """Put into the wheel and deliver; sleeps until the next step of time. Ends when it is cancelled."""
        try:
            while True:
                self._arrived.clear()
                is_busy = self._turn()
                if self.failure.text is not None:
                    await asyncio.sleep(_RETRY_S)
                elif is_busy:
                    await asyncio.sleep(0)
                else:
                    await self._sleep()
        finally:
            if self._saving is not None:
                await asyncio.wait((self._saving,))

    def close(self) -> None:
        """Keep how far everything is; the store is closed, and what it could sync is on the disk.

        A slave keeps what it took over.
        """
        if (
            not self._is_taken_over
            and not self._is_fenced
            and self.timers.is_changed
            and self._store.durable_offset >= self._store.max_physical_offset
        ):
            snapshot, count = self.timers.snapshot(self._clock()), self.timers.delivered_count
            try:
                _write(self._files, self._files.unsynced(), snapshot, self._metrics_path, self.metrics.format())
                self.timers.note_saved(snapshot, count)
            except (OSError, SyncFailed) as error:  # the next start reads more of it again
                log.warning("the timers' checkpoint cannot be written: %s", error)
        self._files.close()

    def _turn(self) -> bool:
        """Do a slice of everything; say whether there is more."""
        now_ms = self._clock()
        is_busy, failure = False, None
        for work in (self.timers.enqueue, self.timers.deliver_due):
            try:
                is_busy |= work(now_ms)
            except Exception as error:  # the other one goes on: what is due does not wait for room in the wheel
                failure = error
        try:
            self._save_in_time()
            self._clean_in_time()
        except OSError as error:
            failure = failure or error
        self.failure.note(failure)
        return is_busy

    async def _sleep(self) -> None:
        """Sleep until the next step of time, or a message; without timers until the first one comes."""
        step_ms = self.rules.precision_ms
        timeout: float | None = (step_ms - self._clock() % step_ms) / 1000
        if not self.timers.is_waiting and not self.timers.is_changed:
            timeout = None
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            pass

    def _save_in_time(self) -> None:
        """Keep from time to time how far everything is, as soon as the messages that came of it are on the disk."""
        now = self._monotonic()
        if self._saving is not None or self._is_fenced:
            return
        if self._snapshot is not None and self._snapshot[0].reset_count != self.timers.reset_count:
            self._snapshot = None
        if self._snapshot is None:
            if now - self._saved_at_ms < self._save_ms or not self.timers.is_changed:
                return
            self._saved_at_ms = now
            self._snapshot = self.timers.snapshot(self._clock()), self.timers.delivered_count
        snapshot, count = self._snapshot
        if snapshot.log_end <= self._store.durable_offset:
            self._snapshot = None
            self.timers.is_being_saved = True
            self._saving = asyncio.get_running_loop().create_task(self._save(snapshot, count))

    async def _save(self, snapshot: TimerSnapshot, delivered_count: int) -> None:
        """Sync the files, then write the checkpoint: on a thread, so that a slow disk stops no request."""
        files, metrics = self._files, self.metrics.format()
        try:
            await asyncio.to_thread(_write, files, files.unsynced(), snapshot, self._metrics_path, metrics)
            self.timers.note_saved(snapshot, delivered_count)
            self.save_failure = None
        except SyncFailed as error:
            # The kernel tells of a lost write once: a later sync would succeed without the lost bytes. The next start reads
            # everything again that came after the last checkpoint.
            self._is_fenced = True
            self.save_failure = f"the timers' files are not kept any more until a restart: {error}"
            log.error("%s", self.save_failure)
        except OSError as error:
            if self.save_failure is None:
                log.exception("how far timers are cannot be kept, it is tried again")
            self.save_failure = f"the timers' checkpoint cannot be written: {error}"
        finally:
            self._saving = None
            self.timers.is_being_saved = False

    def _clean_in_time(self) -> None:
        now = self._monotonic()
        if now - self._cleaned_at_ms >= CLEAN_MS and self._saving is None:
            self._cleaned_at_ms = now
            self._files.log.delete_before(self._store.min_physical_offset)


def _write(
    files: TimerFiles, unsynced: list[DiskFile], snapshot: TimerSnapshot, metrics_path: Path, metrics: bytes
) -> None:
    """Sync what a checkpoint covers, then write it. Raises SyncFailed, OSError."""
    try:
        for file in unsynced:
            file.sync()
    except OSError as error:
        raise SyncFailed(error) from error
    files.write_checkpoint(snapshot.checkpoint)
    replace_file(metrics_path, metrics)
