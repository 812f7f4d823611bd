"""A model of the store: random histories of everything that happens to it, next to a plain account of what it promised.

A run is one store: it is written, read, synced, closed, killed, loses power in the middle of any call, its disk fills up
and fails, its topics are deleted and made again. Loop and flusher's thread are moved by hand, so a seed is a history.
After every restart nothing that was acknowledged, or shown to a reader, may be missing, and nothing may be there that
was not sent. `python -m crash.model SEED` plays one run again and tells each step.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest import mock

from crash.hand_loop import HandFlusher, HandLoop
from crash.ledger import Ledger, Loss, Truth, check_beginning, tell
from orbitmq.errors import StoreBusy, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.store.log.clock_jumps import is_future
from orbitmq.store.retention.rules import RetentionRules
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

T = TypeVar("T")
HOST = Host("127.0.0.1", 10911)
TOPICS = ["orders", "bills", "%RETRY%clerks", "made-again"]
QUEUES = 3
STEPS = 300
"""Of one run: what a store holds stays small, so that each restart compares all of it."""
FAILURES = {
    "open": (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EROFS),
    "reserve": (errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EROFS),
    "sync": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "write": (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS),
    "remove": (errno.EIO, errno.EROFS),
    "move": (errno.EIO, errno.EROFS),
    "unlink": (errno.EIO, errno.EROFS),
    "pwrite": (errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EDQUOT),
}


class StepClock(FakeClock):
    """A clock that sometimes moves on at a look, so that the checkpoint's three seconds of margin are a few messages."""

    def __init__(self, random: Random, step_max_ms: int) -> None:
        super().__init__()
        self._random = random
        self._step_max_ms = step_max_ms

    @property
    def time_ms(self) -> int:
        """The time, without moving it."""
        return self.advance(0)

    def __call__(self) -> int:
        return self.advance(self._random.randrange(self._step_max_ms))


class Simulation:
    """One store, from its making on.

    Args:
        seed: decides everything.
        say: told of every step.
    """

    def __init__(self, seed: int, say: Callable[[str], None] = lambda _: None) -> None:
        self.random = random = Random(seed)
        self.counts: Counter[str] = Counter()
        self._say = say
        self._ledger = Ledger()
        self._disk = FakeDisk()
        self._clock = StepClock(random, random.choice([2, 1000]))
        self._config = StoreConfig(
            path=Path("/store"),
            segment_size=random.choice([1024, 2048, 8192]),
            consume_queue_units=random.choice([1, 3, 8, 100]),
            flush=random.choice(list(FlushMode)),
            record_crc=random.random() < 0.3,
        )
        self._retention = RetentionRules(
            reserved_ms=random.choice([0, 20_000, 10**9]), segment_pause_ms=0, queue_pause_ms=0, batch_max=3
        )
        self._cleaning: Coroutine[Any, Any, None] | None = None
        self._round_ms = 0
        self._body_size_max = random.choice([50, 700])
        self._is_attached = random.random() < 0.6
        self._loop, self._flusher = HandLoop(), HandFlusher(HandLoop())
        self._steps = self._choose_steps()
        self._last: tuple[Truth, int, int] | None = None
        """What was sent last, by its queue offset and its end, without a waiter."""
        self._store = self._open()

    def run(self, steps: int = STEPS) -> None:
        """Take so many steps. Raises Loss."""
        for _ in range(steps):
            self.step()
        self._crash(is_power_cut=True)

    def step(self) -> None:
        """Take one step, with the power going in the middle of it now and then."""
        random = self.random
        name = random.choice(self._steps)
        self.counts[name] += 1
        cut_after = random.randrange(1, 12) if random.random() < 0.03 else None
        self._say(f"{name}{f', and the end comes at operation {cut_after}' if cut_after else ''}")
        if cut_after is not None:
            self._disk.cut_at = self._disk.operation_count + cut_after
        try:
            getattr(self, f"_{name}")()
        except PowerCut as cut:
            self._say(f"  the end comes at: {cut}")
            self._crash(is_power_cut=random.random() < 0.7)
        self._disk.cut_at = None

    def _choose_steps(self) -> list[str]:
        """Give every run its own habits: what happens often in one is rare in another."""
        weights = {
            "append": 40, "batch": 5, "flush": 3, "acknowledge": 15, "read": 8, "turn": 8, "work": 8, "wait": 3,
            "delete": 2, "clean": 6, "jump": 1, "restart": 1, "kill": 2, "lose_power": 2, "fail": 1, "mend": 3,
        }  # fmt: skip
        return [
            name
            for name, weight in weights.items()
            for _ in range(max(1 if weight else 0, round(weight * self.random.choice([0.3, 1, 2])) if weight else 0))
        ]

    def _key(self) -> tuple[str, int]:
        return self.random.choice(TOPICS), self.random.randrange(QUEUES)

    def _body(self) -> bytes:
        return self.random.randbytes(self.random.randrange(self._body_size_max))

    def _append(self) -> None:
        key, body = self._key(), self._body()
        try:
            result = self._store.append(Draft(*key, body, self.random.choice([b"", b"TAGS\x01t\x02"])))
        except (StoreUnavailable, StoreBusy):
            self.counts["refused"] += 1
            return
        self._ledger.take(key, body, result.queue_offset, result.physical_offset, result.stored_at_ms)
        self._last = self._ledger.queue(key), result.queue_offset, result.end

    def _batch(self) -> None:
        key = self._key()
        bodies = [self._body()[:100] for _ in range(self.random.randrange(1, 6))]
        truth = self._ledger.queue(key)
        before = len(truth.sent)
        try:
            results = self._store.append_batch([Draft(*key, body) for body in bodies])
        except (StoreUnavailable, StoreBusy):
            self.counts["refused"] += 1
            # Those before the one that found no room are there.
            for body in bodies[: self._appended(key) - before]:
                self._ledger.take(key, body, len(truth.sent), -1, self._clock.time_ms)
            return
        except PowerCut:
            for body in bodies:
                self._ledger.take(key, body, len(truth.sent), -1, self._clock.time_ms)
            raise
        for body, result in zip(bodies, results, strict=True):
            self._ledger.take(key, body, result.queue_offset, result.physical_offset, result.stored_at_ms)
        self._last = truth, results[-1].queue_offset, results[-1].end

    def _appended(self, key: tuple[str, int]) -> int:
        queue = self._store._queues.get(*key)
        return queue.next_offset if queue else 0

    def _acknowledge(self) -> None:
        """Wait for what was sent last, as a send does."""
        if self._last is None:
            return
        truth, queue_offset, end = self._last
        self._last = None

        def answered(is_durable: bool | None) -> None:
            if is_durable:  # of a topic that was deleted meanwhile: that account is not used any more
                self.counts["acknowledged"] += 1
                truth.acknowledged = max(truth.acknowledged, queue_offset + 1)

        if self._store.wait_durable(end, answered) and self._config.flush is FlushMode.SYNC:
            answered(True)

    def _flush(self) -> None:
        self._store.flush()
        if self._store.is_writable:
            self._note_durable()

    def _note_durable(self) -> None:
        """What the store says is durable must be there after a power cut, acknowledged or not."""
        for truth in self._ledger.queues.values():
            durable = [0 <= sent.physical_offset < self._store.durable_offset for sent in truth.sent]
            truth.acknowledged = max(truth.acknowledged, sum(durable) if all(durable) else durable.index(False))

    def _read(self) -> None:
        key = self._key()
        truth = self._ledger.queues.get(key, Truth())
        start = self.random.randrange(len(truth.sent) + 2)
        try:
            found = self._store.read(*key, start, self.random.randrange(1, 20))
        except OSError:  # a file that cannot be opened now
            if not self._disk.failures:
                raise
            return
        if found.status is ReadStatus.FOUND:
            if not found.next_offset <= len(truth.sent):
                raise Loss(f"{key}: read up to {found.next_offset}, sent were {len(truth.sent)}")
            bodies = [sent.body for sent in truth.sent[start : found.next_offset]]
            if not all(body in found.body for body in bodies):
                raise Loss(f"{key}: messages from {start} on are not those that were sent")
            if self._config.flush is FlushMode.SYNC:
                truth.seen = max(truth.seen, found.next_offset)

    def _turn(self) -> None:
        self._loop.turn()

    def _work(self) -> None:
        self._flusher.work()

    def _wait(self) -> None:
        self._clock.advance(self.random.choice([0, 100, 3000]))
        self._loop.advance(self.random.choice([0.2, 0.6, 2.5]))

    def _jump(self) -> None:
        """Set the clock."""
        self._clock.set(self._clock.time_ms + self.random.choice([-3_600_000, -1000, 3_600_000]))

    def _delete(self) -> None:
        topic = self.random.choice(TOPICS[-2:])
        self._ledger.deleting.add(topic)
        try:
            self._store.delete_topic(topic)
        except (OSError, StoreUnavailable):  # the disk refused it: who asked was told so, and asks again
            self._disk.failures.clear()
            self._store.delete_topic(topic)
        self._ledger.delete(topic)

    def _clean(self) -> None:
        """Go on with a round of retention by one turn, or begin one."""
        if self._cleaning is None:
            self._round_ms = self._clock.time_ms
            self._disk.usage = self.random.choice([0.1, 0.8, 0.8, 0.87, 0.95])
            self._cleaning = self._store.retention.do_round()
        log_min = self._store.min_physical_offset
        try:
            with (
                mock.patch("orbitmq.store.retention.retention._in_thread", in_turns),
                mock.patch("orbitmq.store.retention.retention.ask_aside", in_turns),
            ):
                self._cleaning.send(None)
        except StopIteration:
            self._cleaning = None
        except OSError:  # the broker logs it, and tries again in the next round
            self._cleaning = None
        if self._store.min_physical_offset > log_min:
            self.counts["files cleaned away"] += 1
            self._look_at_what_went()

    def _look_at_what_went(self) -> None:
        """Nothing goes before its time, unless the disk is nearly full; each queue begins with what is still there."""
        for key, truth in self._ledger.queues.items():
            first = self._store.min_offset(*key)
            went = truth.sent[truth.first : first]
            # A round judges ages by the clock that it began with; it may have been set back between its turns.
            now_ms = max(self._clock.time_ms, self._round_ms)
            # Messages of the future count as stored when the clock was set back: that is before now.
            times_ms = [sent.stored_at_ms for sent in went if not is_future(sent.stored_at_ms, now_ms)]
            age_ms = now_ms - max(times_ms, default=0)
            if went and age_ms < self._retention.reserved_ms and self._disk.usage <= self._retention.forcing_ratio:
                raise Loss(f"{key}: {len(went)} messages went {age_ms} ms after they were stored")
            truth.first = max(first, truth.first)
            check_beginning(key, truth, self._store)

    def _fail(self) -> None:
        operation = self.random.choice(list(FAILURES))
        number = self.random.choice(FAILURES[operation])
        self._disk.failures[operation] = OSError(number, os.strerror(number))

    def _mend(self) -> None:
        self._disk.failures.clear()

    def _restart(self) -> None:
        self._store.close()
        self._disk.failures.clear()
        self._disk = self._disk.after_power_cut(self.random) if self.random.random() < 0.3 else self._disk.after_kill()
        self._reopen(is_exact=not self._disk.exists(self._config.path / "abort"))

    def _kill(self) -> None:
        self._crash(is_power_cut=False)

    def _lose_power(self) -> None:
        self._crash(is_power_cut=True)

    def _crash(self, *, is_power_cut: bool) -> None:
        self.counts["power cuts" if is_power_cut else "kills"] += 1
        self._disk = self._disk.after_power_cut(self.random) if is_power_cut else self._disk.after_kill(self.random)
        self._reopen(is_exact=not is_power_cut)

    def _reopen(self, *, is_exact: bool) -> None:
        """Start again, with ends in the middle of that, too; then compare."""
        random = self.random
        while True:
            self._disk.cut_at = random.choice([None, None, random.randrange(1, 30)])
            try:
                self._store = self._open()
                break
            except PowerCut as cut:
                self.counts["ends while starting"] += 1
                self._say(f"  the end comes while starting, at: {cut}")
                is_power_cut = random.random() < 0.7
                is_exact = is_exact and not is_power_cut
                self._disk = self._disk.after_power_cut(random) if is_power_cut else self._disk.after_kill(random)
        self._disk.cut_at = None
        self._ledger.compare(self._store, TOPICS, is_exact=is_exact)

    def _open(self) -> Store:
        self._last = None
        if self._cleaning is not None:
            self._cleaning.close()
            self._cleaning = None
        self._loop = loop = HandLoop()
        self._flusher = flusher = HandFlusher(loop)
        clock = self._clock
        store = Store.open(
            self._config, store_host=HOST, clock=clock, monotonic=clock, disk=self._disk, retention=self._retention
        )
        if self._is_attached:
            with mock.patch("orbitmq.store.sync.syncing.Flusher", return_value=flusher):
                store.attach(loop)  # type: ignore[arg-type]
        return store


async def in_turns(work: Callable[[], T]) -> T:
    """Stand where `_in_thread` and `ask_aside` would: others may have a turn before the work and after it."""
    await asyncio.sleep(0)
    done = work()
    await asyncio.sleep(0)
    return done


def play(steps: int, seed: int) -> Counter[str]:
    """Play runs of together so many steps, each from a seed of its own; count what happened in them.

    Raises:
        Loss: tells how to play that run again.
    """
    counts: Counter[str] = Counter()
    while counts["steps"] < steps:
        try:
            simulation = Simulation(seed)
            simulation.run(STEPS)
        except Exception as error:
            raise Loss(
                f"run {seed}: {error!r}; PYTHONPATH=tests python -m crash.model {seed} tells each step"
            ) from error
        counts += simulation.counts
        counts["steps"] += STEPS
        counts["runs"] += 1
        seed += 1
    return counts


if __name__ == "__main__":
    tell(Simulation)
