"""A store in memory with transactions on it, and a producer by hand."""

from __future__ import annotations

from typing import Any

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.half_counts import HalfCounts
from orbitmq.broker.topics.table import TopicTable
from orbitmq.broker.transactions.messages import half_message
from orbitmq.broker.transactions.rules import CheckRules
from orbitmq.broker.transactions.transactions import Renewed, Transactions
from orbitmq.model.topic import HALF_TOPIC, TopicConfig
from orbitmq.store import AppendResult, Draft, FlushMode, ReadStatus, Store
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.headers import EndTransaction
from orbitmq.wire.messages.record import Record, iter_records

from ..parts import Registries, memory_store

COMMIT, ROLLBACK = 8, 12
RULES = CheckRules(6_000, 3, 3_600_000)
PROPERTIES = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K1", "TAGS": "a"}


class World:
    """Transactions, the store below them, and what producers were asked."""

    def __init__(self, flush: FlushMode = FlushMode.ASYNC, op_size_max: int = 4096) -> None:
        self.clock = FakeClock()
        self.disk = FakeDisk()
        self.registries = Registries(TopicTable([TopicConfig(topic="t")]))
        self.offsets = GroupOffsets()
        self.op_size_max = op_size_max
        self.flush = flush
        self.asked: list[Renewed] = []
        self.open()

    def open(self) -> None:
        """A start of the broker."""
        self.store: Store = memory_store(self.disk, self.clock, self.flush)
        self.transactions = Transactions(
            self.store,
            self.registries.topics,
            self.offsets,
            HalfCounts(),
            RULES,
            op_size_max=self.op_size_max,
        )

    def kill(self) -> None:
        """The process ends; what it wrote is there. The next one starts."""
        self.store._close_files()
        self.open()

    def prepare(self, body: bytes = b"x", **properties: str) -> AppendResult:
        draft = Draft("t", 2, body, flag=7, sys_flag=4, born_at_ms=self.clock())
        return self.store.append(half_message(draft, {**PROPERTIES, **properties}))

    def end(self, half: Any, decision: int = COMMIT, **fields: Any) -> AppendResult:
        header: dict[str, Any] = {
            "producer_group": "p", "tran_state_table_offset": half.queue_offset,
            "commit_log_offset": half.physical_offset, "commit_or_rollback": decision, "message_id": "K1",
        }  # fmt: skip
        return self.transactions.end(EndTransaction(**header | fields), self.clock())

    def check(self) -> list[Renewed]:
        """A round of checks; return whom it asked."""
        before = len(self.asked)
        self.transactions.begin_round()
        while self.transactions.check_some(self.clock(), self.asked.append):
            pass
        return self.asked[before:]

    def records(self, topic: str = "t", queue_id: int = 2) -> list[Record]:
        found = self.store.read(topic, queue_id, 0, 10_000, 1 << 24)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []

    def bodies(self, topic: str = "t", queue_id: int = 2) -> list[bytes]:
        return [bytes(record.body) for record in self.records(topic, queue_id)]

    def open_bodies(self) -> list[bytes]:
        """What is in the window and undecided."""
        ended = self.transactions._ended
        return [bytes(half.body) for half in self.records(HALF_TOPIC, 0) if half.queue_offset not in ended]
