"""POP without a port: its parts over a store in memory, with clocks that tests set."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.ordered_queues import OrderedQueues
from orbitmq.broker.pop.pops import PopLimits, PopRequest, PopResult, Pops
from orbitmq.broker.pop.revival import Revival
from orbitmq.broker.pop.revive_log import ReviveLog
from orbitmq.broker.topics.table import plain_topic
from orbitmq.model.message import PropertyName
from orbitmq.store import Draft, FlushMode
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record, iter_records
from orbitmq.wire.pop.revive_log import CheckpointKey

from ..parts import HOST, Registries, memory_store

LIMITS = PopLimits(size_max=1 << 20, checkpoints_max=1_000, in_flight_max=None)
REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_c"


class Harness:
    """A broker's pops, and what they stand on. `again` is the same after a crash of the process."""

    def __init__(
        self,
        disk: FakeDisk | None = None,
        offsets: GroupOffsets | None = None,
        *,
        limits: PopLimits = LIMITS,
        retries_first_percent: int = 20,
        uses_retry_v2: bool = False,
        wall_ms: int = 1_000_000,
        flush: FlushMode = FlushMode.ASYNC,
        registries: Registries | None = None,
    ) -> None:
        self.disk = disk or FakeDisk()
        self.wall, self.mono = FakeClock(wall_ms), FakeClock(5_000)
        self.store = memory_store(self.disk, self.wall, flush)
        self.offsets = offsets or GroupOffsets()
        self.registries = registries or Registries()
        if registries is None:
            for topic, count in (("t", 1), ("wide", 4)):
                self.registries.topics.update(plain_topic(topic, count), 0)
            self.registries.groups.find("g", 0)
            self.registries.groups.find("h", 0)
        clocks: dict[str, Any] = {"clock": self.wall, "monotonic": self.mono}
        self.log = ReviveLog(self.store, self.offsets, cluster="c", broker_name="a", host=HOST, **clocks)
        self.ordered = OrderedQueues(count_max=limits.checkpoints_max, **clocks)
        self.pops = Pops(
            self.store, self.registries.topics, self.offsets, self.log, self.ordered, BrokerStats(0), limits=limits,
            retries_first_percent=retries_first_percent, clock=self.wall, random=Random(7),
        )  # fmt: skip
        self.revival = Revival(
            self.store, self.registries.topics, self.registries.groups, self.offsets, self.log,
            uses_retry_v2=uses_retry_v2, **clocks,
        )  # fmt: skip

    def again(self, offsets: GroupOffsets | None = None, *, wall_ms: int | None = None) -> Harness:
        """Kill the process and start it again.

        Args:
            offsets: what consumerOffset.json said; None: it was never written.
        """
        self.disk.locked.clear()
        wall = self.wall() if wall_ms is None else wall_ms
        return Harness(self.disk, offsets or GroupOffsets(), wall_ms=wall, registries=self.registries)

    def pass_ms(self, duration_ms: int) -> None:
        self.wall.advance(duration_ms)
        self.mono.advance(duration_ms)

    def send(self, *bodies: bytes, topic: str = "t", queue_id: int = 0, tag: str = "") -> None:
        properties = format_properties({PropertyName.TAGS: tag}) if tag else b""
        for body in bodies:
            self.store.append(Draft(topic, queue_id, body, properties))

    def pop(self, **fields: Any) -> PopResult:
        settings: dict[str, Any] = {
            "topic": "t", "group": "g", "queue_id": -1, "count_max": 32, "invisible_ms": 60_000, "init_mode": 0,
            "selection": None,
        }  # fmt: skip
        return self.pops.pop(PopRequest(**settings | fields))

    def bodies(self, **fields: Any) -> list[bytes]:
        return [bytes(record.body) for record in records(self.pop(**fields))]

    def ack(self, popped: PopResult, offsets: Iterable[int], topic: str = "t", group: str = "g") -> None:
        queue = popped.queues[0]
        key = CheckpointKey(topic, group, queue.queue_id, queue.start_offset, popped.pop_time_ms, "a")
        self.log.acknowledge(key, tuple(offsets))

    def revive(self) -> None:
        while self.revival.revive_due():
            pass

    def revive_records(self) -> list[Record]:
        return [
            record
            for queue_id in range(8)
            for record in iter_records(self.store.read(REVIVE_TOPIC, queue_id, 0, 1_000, 1 << 20).body)
        ]


def records(popped: PopResult) -> list[Record]:
    return list(iter_records(b"".join(popped.records)))
