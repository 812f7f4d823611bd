"""Simulation runs of delayed messages over a disk in memory: power cuts and kills at any moment, and how far the levels were delivered.

A crash leaves a beginning of the log. What it must still do: each delayed message in it comes, none before its time; and a process that
was killed between two deliveries, not in one, repeats nothing that it had delivered.
`python -m crash.delay_cuts SEED` plays one run again and tells each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from crash.ledger import Loss, tell
from orbitmq.broker.delivery.delay import DelayQueues, parse_delay_offsets, schedule
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.topics.table import TopicTable, plain_topic
from orbitmq.model.delay_levels import parse_delay_levels
from orbitmq.model.message import Host
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.store.sync.delivery_progress import DeliveryProgress
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from orbitmq.wire.messages.record import Record, iter_records

ROOT = Path("/store")
OFFSETS = ROOT / "config" / "delayOffset.json"
START_MS = 1_700_000_000_000
LATER = "later"
LEVELS = parse_delay_levels("1s 3s 10s")
CRASHES = 8
STEPS = 40


class Heart:
    """The delivery of one process, with its store."""

    def __init__(self, simulation: Simulation) -> None:
        disk, wall, monotonic = simulation.disk, simulation.wall, simulation.monotonic
        self.store = Store.open(
            simulation.config, store_host=Host("127.0.0.1", 1), clock=wall, monotonic=monotonic, disk=disk
        )
        offsets: tuple[dict[int, int], DataVersion] | tuple[()] = ()
        if disk.exists(OFFSETS):
            offsets = parse_delay_offsets(disk.read(OFFSETS))
        topics = TopicRegistry(TopicTable([plain_topic(LATER, 1)]), lambda _: None, lambda _: None)
        notes = DeliveryProgress(disk, ROOT / "delivered")
        self.queues = DelayQueues(
            self.store, topics, LEVELS, *offsets, notes=notes, wall_ms=wall(), now_ms=monotonic()
        )  # fmt: skip


class Simulation:
    """Some starts and crashes on one disk.

    Args:
        seed: decides everything.
        say: told of every step.
    """

    def __init__(self, seed: int, say: Callable[[str], None] = lambda _: None) -> None:
        self.random = random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.disk = FakeDisk()
        self.wall, self.monotonic = FakeClock(START_MS), FakeClock(5_000)
        self.config = StoreConfig(
            path=ROOT,
            segment_size=random.choice([8_192, 65_536]),
            consume_queue_units=random.choice([8, 100]),
            flush=random.choice(list(FlushMode)),
            has_index=False,
        )
        self._say = say
        self._due_ms: dict[bytes, int] = {}
        self._ends: dict[bytes, int] = {}
        self._numbers = 0
        self._heart = Heart(self)
        # Messages that come again take each other's places in the log after a power cut: few bodies, many alike.
        self._is_alike = random.random() < 0.3
        self._steps = [self._send] * 6 + [self._other] * 2 + [self._deliver] * 6 + [self._wait] * 4 + [self._sync] * 2
        self._steps += random.choice([[], [self._save], [self._save] * 4])

    def run(self, crashes: int = CRASHES) -> None:
        """Live through so many crashes, then wait until everything has come. Raises Loss."""
        for _ in range(crashes):
            is_cut_short = False
            if self.random.random() < 0.4:
                self.disk.cut_at = self.disk.operation_count + self.random.choice([3, 10, 40])
            try:
                for _ in range(self.random.randrange(1, STEPS)):
                    self.random.choice(self._steps)()
            except PowerCut as cut:
                is_cut_short = True
                self._say(f"  the end comes at: {cut}")
            self._crash(is_cut_short)
        self._finish()

    def _send(self) -> None:
        """Send messages that wait."""
        for _ in range(self.random.randrange(1, 5)):
            self._numbers += 1
            body, level = b"%d" % self._numbers, self.random.randrange(1, len(LEVELS) + 1)
            self._say(f"send {body.decode()}, level {level}")
            properties = {} if self._is_alike else {"UNIQ_KEY": f"U{self._numbers}"}
            draft = schedule(Draft(LATER, 0, body.zfill(6)), properties, level)
            self._ends[draft.body] = self._heart.store.append(draft).end
            self._due_ms[draft.body] = self.wall() + LEVELS.delay_ms(level)
        self._heart.queues.note_arrivals(self.monotonic())

    def _other(self) -> None:
        """Send a message that does not wait: it may come to lie where a copy was before a power cut."""
        self._heart.store.append(Draft("other", 0, b"x" * self.random.choice([6, 100])))

    def _deliver(self) -> None:
        self._say("deliver")
        while self._heart.queues.deliver_due(self.monotonic()):
            pass

    def _wait(self) -> None:
        self._pass(self.random.choice([100, 1_000, 4_000]))

    def _sync(self) -> None:
        self._say("sync")
        self._heart.store.flush()

    def _save(self) -> None:
        content = self._heart.queues.take_durable(self.wall())
        if content is not None:
            self._say("save")
            other = OFFSETS.with_suffix(".tmp")
            self.disk.write(other, content)
            self.disk.move(other, OFFSETS)

    def _pass(self, duration_ms: int) -> None:
        self.wall.advance(duration_ms)
        self.monotonic.advance(duration_ms)

    def _crash(self, is_cut_short: bool) -> None:
        self.disk.cut_at = None
        is_kill, before = True, self._positions()
        while True:
            is_power_cut = self.random.random() < 0.5
            is_kill = is_kill and not is_power_cut
            self.counts["power cuts" if is_power_cut else "kills"] += 1
            self._say("power cut" if is_power_cut else "kill")
            self.disk = self.disk.after_power_cut(self.random) if is_power_cut else self.disk.after_kill(self.random)
            self.disk.cut_at = self.random.choice([None, None, self.random.randrange(1, 30)])
            try:
                self._heart = Heart(self)
                break
            except PowerCut as cut:
                self.counts["ends while starting"] += 1
                self._say(f"  the end comes while starting, at: {cut}")
        self.disk.cut_at = None
        end = self._heart.store.max_physical_offset
        self._due_ms = {body: due_ms for body, due_ms in self._due_ms.items() if self._ends[body] <= end}
        if is_kill and not is_cut_short:
            after = self._positions()
            if after != before:
                raise Loss(f"levels were delivered up to {before} before the kill, and go on at {after}")

    def _positions(self) -> dict[int, int]:
        """Return how far each level is delivered."""
        heart = self._heart
        waiting = heart.queues.backlog()
        return {level: heart.store.max_offset(SCHEDULE_TOPIC, level - 1) - waiting[level] for level in waiting}

    def _delivered(self) -> list[bytes]:
        return [bytes(record.body) for record in self._copies()]

    def _copies(self) -> list[Record]:
        self._heart.store.flush()
        found = self._heart.store.read(LATER, 0, 0, 10_000, 1 << 24)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []

    def _finish(self) -> None:
        self._say("finish")
        for _ in range(15):
            self._heart.store.flush()
            self._deliver()
            self._pass(1_000)
        times = Counter(self._delivered())
        waiting = self._heart.store.max_offset(SCHEDULE_TOPIC, 0)
        lost = self._due_ms.keys() - times.keys()
        if lost:
            raise Loss(f"{sorted(lost)[:5]} never came; level 1 has {waiting} messages")
        for record in self._copies():
            if record.stored_at_ms < self._due_ms.get(bytes(record.body), record.stored_at_ms):
                raise Loss(f"message {bytes(record.body)!r} came before its time")
        self.counts["delayed"] += len(self._due_ms)
        self.counts["again"] += sum(times.values()) - len(times)


if __name__ == "__main__":
    tell(Simulation)
