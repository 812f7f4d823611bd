"""Parts of a broker without its port: a peer, calls, registries that keep nothing, a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delivery.delay import DelayQueues
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.timers.opening import open_timers
from orbitmq.broker.timers.service import TimerService
from orbitmq.broker.topics.registry import Announced, TopicRegistry
from orbitmq.broker.topics.table import TopicTable
from orbitmq.clock import Clock
from orbitmq.model.delay_levels import DELAY_LEVELS, DelayLevels
from orbitmq.model.message import Host
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.session import Waiter
from orbitmq.store import FlushMode, ReadResult, ReadStatus, Store, StoreConfig
from orbitmq.store.disk import Disk
from orbitmq.store.sync.delivery_progress import DeliveryProgress
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.command import Command
from orbitmq.wire.messages.record import iter_records

HOST = Host("127.0.0.1", 10911)

Serve = Callable[..., AbstractAsyncContextManager[Any]]
"""The fixture `serve`: given settings, it runs a broker inside `async with`."""


class FakePeer:
    """A client that remembers what it was sent (a `net.dispatch.peer.Peer`)."""

    id = 1
    remote = "127.0.0.1:5000"
    local_port = 0

    def __init__(self) -> None:
        self.counters = Counters()
        self.pending_count = 0
        self.turns = 0
        self.waited_ms = 0
        self.room = 1 << 40
        self.replies: list[Reply] = []
        self.held: list[bytes] = []
        self.heard: list[object] = []
        self.asked: list[tuple[Command, Waiter]] = []

    def now_ms(self) -> int:
        return 0

    def has_room(self, size: int) -> bool:
        return size <= self.room

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        self.heard.append(header)

    def send_request(self, command: Command, waiter: Waiter, *, timeout_ms: int) -> None:
        self.asked.append((command, waiter))

    def answer_later(self, command: Command, reply: Reply, *, was_pending: bool) -> None:
        self.replies.append(reply)

    def work_on(self, work: Iterator[None]) -> None:
        for _ in work:
            self.turns += 1

    def answer_held(self, answers: list[bytes]) -> None:
        self.held += answers


def call(header: Any, body: bytes = b"", *, peer: FakePeer | None = None, now_ms: int = 0) -> Call[Any]:
    return Call(header, Command(0, body=body), peer or FakePeer(), now_ms)


def memory_store(
    disk: FakeDisk | None = None, clock: FakeClock | None = None, flush: FlushMode = FlushMode.ASYNC
) -> Store:
    config = StoreConfig(path=Path("/store"), segment_size=65_536, consume_queue_units=100, flush=flush)
    return Store.open(config, store_host=HOST, clock=clock or FakeClock(), disk=disk or FakeDisk())


def delay_queues(
    store: Store,
    topics: TopicRegistry,
    *offsets: Any,
    levels: DelayLevels = DELAY_LEVELS,
    disk: FakeDisk | None = None,
    wall_ms: int = 0,
    now_ms: int | None = None,
) -> DelayQueues:
    """Delay queues whose clocks agree unless both are told; their notes go to a disk of their own unless one is given."""
    notes = DeliveryProgress(disk or FakeDisk(), Path("/store/delivered"))
    now_ms = wall_ms if now_ms is None else now_ms
    return DelayQueues(store, topics, levels, *offsets, notes=notes, wall_ms=wall_ms, now_ms=now_ms)


def timer_service(
    store: Store, topics: TopicRegistry, *, clock: Clock, disk: Disk | None = None, **settings: Any
) -> TimerService:
    """Timers on a disk of their own in memory, with one clock for everything."""
    every: dict[str, Any] = {"broker_name": "a", "store_path_root_dir": Path("/store")}
    config = BrokerConfig(**every | settings)
    return open_timers(
        config,
        store,
        topics,
        config.store_path_root_dir / "config" / "timermetrics",
        clock=clock,
        monotonic=clock,
        random=Random(7),
        disk=disk or FakeDisk(),
    )


class Registries:
    """Both registries, and what they saved and announced."""

    def __init__(self, topics: TopicTable | None = None, *, auto_create_groups: bool = True) -> None:
        self.log: list[str] = []
        self.waiting: list[Announced] = []
        self.topics = TopicRegistry(topics or TopicTable(), self._save_topics, self._announce)
        configs = GroupConfigs(auto_create_enable=auto_create_groups)
        self.disk_error: OSError | None = None
        self.groups = GroupRegistry(configs, lambda _: self._save("groups saved"))

    def _save_topics(self, table: TopicTable) -> None:
        assert table is self.topics.table
        self._save("topics saved")

    def _save(self, what: str) -> None:
        if self.disk_error is not None:
            raise self.disk_error
        self.log.append(what)

    def _announce(self, then: Announced | None) -> None:
        self.log.append("announced")
        if then is not None:
            self.waiting.append(then)


DAMAGES = {
    "magic": (4, b"\0\0\0\0"),
    "offset 2^40": (20, (2**40).to_bytes(8, "big")),
    "offset 0": (20, bytes(8)),
    "size": (0, b"\0\0\xff\xff"),
}
"""Damages of a record: where they begin in it, and what stands there then."""


def damage(monkeypatch: pytest.MonkeyPatch, store: Store, topic: str, queue_offset: int, name: str) -> None:
    """Let reads of a topic find a record of each queue damaged."""
    read, (at, written) = store.read, DAMAGES[name]

    def damaged(of_topic: str, queue_id: int, first: int, *limits: Any) -> ReadResult:
        found = read(of_topic, queue_id, first, *limits)
        if of_topic != topic or found.status is not ReadStatus.FOUND:
            return found
        body, start = bytearray(found.body), 0
        for record in iter_records(found.body):
            if record.queue_offset == queue_offset:
                body[start + at : start + at + len(written)] = written
            start += record.size
        return found._replace(body=bytes(body))

    monkeypatch.setattr(store, "read", damaged)


def broker_of(registries: Registries, **parts: Any) -> Any:
    """Return what a handler sees of a broker, from its tables and the parts that are named: `store`, `clients_members`."""
    broker = SimpleNamespace(
        tables=SimpleNamespace(topics=registries.topics, groups=registries.groups, offsets=GroupOffsets()),
        clients=SimpleNamespace(),
        delivery=SimpleNamespace(),
        sends=SimpleNamespace(),
    )
    for name, part in parts.items():
        room, _, rest = name.partition("_")
        if rest:
            setattr(getattr(broker, room), rest, part)
        else:
            setattr(broker, name, part)
    return broker
