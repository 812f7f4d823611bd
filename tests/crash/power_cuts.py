"""Simulation runs of a store whose power goes at any moment: whatever was not synced may be lost, sector by sector."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from orbitmq.wire.messages.record import iter_records

HOST = Host("127.0.0.1", 10911)
TOPICS = ("orders", "bills")


class RunningClock(FakeClock):
    """A clock that each look moves on, so that the checkpoint's three seconds of margin are a few messages."""

    def __call__(self):
        return self.advance(700)


class Simulation:
    """One broker on a disk: what was sent to which queue, what was acknowledged, what a reader saw."""

    def __init__(self, random, flush):
        self.random = random
        self.config = StoreConfig(
            path=Path("/store"),
            segment_size=random.choice([1024, 4096, 16384]),
            consume_queue_units=random.choice([3, 64]),
            flush=flush,
            record_crc=random.random() < 0.3,
        )
        self.body_size_max = random.choice([10, 300, min(1500, self.config.segment_size // 3)])
        self.disk = FakeDisk()
        self.clock = RunningClock()
        self.sent = {}
        self.acknowledged = {}
        self.store = None

    def open(self):
        self.store = Store.open(self.config, store_host=HOST, clock=self.clock, disk=self.disk)

    def send(self):
        queue = (self.random.choice(TOPICS), self.random.randrange(2))
        body = self.random.randbytes(self.random.randrange(self.body_size_max))
        result = self.store.append(Draft(*queue, body, b"TAGS\x01t\x02"))
        messages = self.sent.setdefault(queue, [])
        assert result.queue_offset == len(messages)
        messages.append(body)
        return queue, result

    def acknowledge(self, queue, result):
        def answered(is_durable):
            assert is_durable
            self.acknowledged[queue] = max(self.acknowledged.get(queue, 0), result.queue_offset + 1)

        if self.store.wait_durable(result.end, answered):
            answered(True)

    def kept(self):
        """Read every queue to its end."""
        kept = {}
        for topic in TOPICS:
            for queue_id in range(2):
                bodies, offset = [], 0
                while (found := self.store.read(topic, queue_id, offset)).status is ReadStatus.FOUND:
                    records = list(iter_records(found.body))
                    assert [r.queue_offset for r in records] == list(range(offset, found.next_offset))
                    assert all((r.topic, r.queue_id) == (topic, queue_id) for r in records)
                    bodies += [bytes(r.body) for r in records]
                    offset = found.next_offset
                kept[topic, queue_id] = bodies
        return kept

    def check_and_forget_lost(self):
        """What a restart found must be a prefix of what was sent that holds all that was acknowledged."""
        for queue, bodies in self.kept().items():
            sent = self.sent.get(queue, [])
            assert bodies == sent[: len(bodies)], f"{queue}: invented or reordered"
            assert len(bodies) >= self.acknowledged.get(queue, 0), f"{queue}: lost acknowledged messages"
            assert self.store.max_offset(*queue) == len(bodies)
            self.sent[queue] = bodies


def live(seed, counts):
    """Play a run with four power cuts, and more while it starts. Raises AssertionError."""
    simulation = Simulation(Random(seed), FlushMode.SYNC)
    simulation.open()
    acknowledged_share = simulation.random.choice([0.02, 0.3])
    for _ in range(4):
        simulation.disk.cut_at = simulation.disk.operation_count + simulation.random.randrange(
            5, simulation.random.choice([20, 60, 200])
        )
        try:
            for _ in range(simulation.random.choice([10, 60, 300])):
                queue, result = simulation.send()
                if simulation.random.random() < acknowledged_share:
                    simulation.acknowledge(queue, result)
            if simulation.random.random() < 0.3:
                simulation.store.close()
        except PowerCut:
            pass
        counts["power cuts"] += 1
        simulation.disk = simulation.disk.after_power_cut(simulation.random)
        while True:  # the power may go during recovery, too
            simulation.disk.cut_at = simulation.random.choice([None, simulation.random.randrange(1, 30)])
            try:
                simulation.open()
                break
            except PowerCut:
                counts["ends while starting"] += 1
                simulation.disk = simulation.disk.after_power_cut(simulation.random)
        simulation.disk.cut_at = None
        simulation.check_and_forget_lost()


def live_async(seed, counts):
    """Play a run with ASYNC_FLUSH and one power cut: a tail after the last flush may be lost. Raises AssertionError."""
    simulation = Simulation(Random(seed), FlushMode.ASYNC)
    simulation.open()
    for _ in range(simulation.random.randrange(1, 60)):
        simulation.send()
        if simulation.random.random() < 0.1:
            simulation.store.flush()
            simulation.acknowledged = {queue: len(sent) for queue, sent in simulation.sent.items()}
    counts["power cuts"] += 1
    simulation.disk = simulation.disk.after_power_cut(simulation.random)
    simulation.open()
    simulation.check_and_forget_lost()


def cut(count, seed):
    """Play runs until the power has gone so often; return what happened, and what was lost."""
    counts = Counter()
    while counts["power cuts"] < count:
        try:
            (live_async if seed % 5 == 0 else live)(seed, counts)
        except AssertionError as error:
            return counts, f"run {seed}: {error}"
        counts["runs"] += 1
        seed += 1
    return counts, ""
