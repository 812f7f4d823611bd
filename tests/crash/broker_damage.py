"""Damage of what a broker keeps next to its log, one file at a time: its tables, index, timers, and batches popped in order.

A broker starts with the `.bak` of a table and says so, or refuses to start with a sentence that names the file and the way
out; what is derived from the log comes back. Starting with an empty table and saying nothing is what must not be.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any, NamedTuple

from crash.broker_process import Wire
from crash.damage import Outcome
from crash.faults import QUICK_DISK
from orbitmq.broker.access.directory import create_user
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.persistence import NEEDED
from orbitmq.errors import StoreError
from orbitmq.model.static_topic import QueueMapping
from orbitmq.model.topic import TopicConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.store import ReadStatus
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.headers import UpdateConsumerOffset
from orbitmq.wire.headers.pop import PopMessage
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.pop.assignments import RequestMode
from waiting import until

ENDS = ("kill -9", "a clean stop")
FILES = ("config", "index", "tables", "timerwheel", "timerlog")
KEYED, TIMERS = 30, 4
SLOTS = 70
_PLACE_SIZE_MAX = 64
_TRIES = 500


class Case(NamedTuple):
    """One file, by its name under the store, damaged in one way, after one end."""

    end: str
    name: str
    damage: str

    def __str__(self) -> str:
        return f"{self.name} {self.damage} after {self.end}"

    @property
    def kind(self) -> str:
        """The file's kind: files of one kind have one row in the table."""
        folder, _, name = self.name.partition("/")
        return folder if not name else name if folder == "config" else f"{folder}/*"


class State(NamedTuple):
    """What a start makes of the tables."""

    topics: dict[str, Any]
    groups: dict[str, Any]
    offsets: dict[str, dict[int, int]]
    delayed: dict[int, int]
    modes: list[Any]
    batches: list[Any]
    users: dict[str, Any]
    mappings: dict[str, Any]


class Run(NamedTuple):
    """A running broker, a connection to it, and its clock."""

    broker: Broker
    wire: Wire
    monotonic: FakeClock


class Derived(NamedTuple):
    """What a broker has of the log after a while."""

    keyed: int
    timers: int
    refusal: str = ""
    """What a search was refused with."""


def _remove(path: Path, _random: Random) -> None:
    path.unlink()


def _remove_all(path: Path, _random: Random) -> None:
    path.unlink()
    path.with_name(f"{path.name}.bak").unlink(missing_ok=True)


def _empty(path: Path, _random: Random) -> None:
    path.write_bytes(b"")


def _zero(path: Path, _random: Random) -> None:
    _overwrite(path, bytes)


def _garble(path: Path, random: Random) -> None:
    _overwrite(path, random.randbytes)


def _garble_all(path: Path, random: Random) -> None:
    _garble(path, random)
    path.with_name(f"{path.name}.bak").unlink(missing_ok=True)


def _overwrite(path: Path, make: Callable[[int], bytes]) -> None:
    """Overwrite the middle of what was written: most of a small file's, and some of a sparse one's first entries."""
    content = path.read_bytes()
    start = len(content) - len(content.lstrip(b"\0"))
    size = len(content.rstrip(b"\0")) - start
    place = min(_PLACE_SIZE_MAX, max(size // 3, 1))
    at = start if size > 1 << 20 else start + (size - place) // 2
    with path.open("r+b") as file:
        file.seek(at)
        file.write(make(place))


DAMAGES: dict[str, Callable[[Path, Random], None]] = {
    "removed": _remove,
    "emptied": _empty,
    "zeroed in the middle": _zero,
    "garbled in the middle": _garble,
}


LAST_DAMAGES: dict[str, Callable[[Path, Random], None]] = {
    "removed with its .bak": _remove_all,
    "garbled without its .bak": _garble_all,
}
"""Of tables that are not in any generation then."""


class Histories:
    """The files of a broker with some history, as kill -9 and as a clean stop leave them.

    Args:
        home: where they are kept.
        has_lmq: the broker's `enable_lmq`.
    """

    def __init__(self, home: Path, *, has_lmq: bool = False) -> None:
        self._home = home
        self._running = partial(_running, has_lmq=has_lmq)
        self._before: dict[str, tuple[State, Derived]] = {}
        self._said: dict[str, frozenset[str]] = {}
        """What a start says of files without damage."""

    @classmethod
    async def make(cls, home: Path, *, has_lmq: bool = False) -> Histories:
        """Live the history."""
        made = cls(home, has_lmq=has_lmq)
        live = home / "live"
        async with made._running(live) as run:
            await _live(run, 0)
        async with made._running(live) as run:
            await _live(run, 1)
            copy(live, home / ENDS[0])
        copy(live, home / ENDS[1])
        for end in ENDS:
            with made._damaged(Case(end, "", "")) as store, heard(store) as said:
                async with made._running(store) as run:
                    made._before[end] = _state(run.broker), await _derived(run.broker)
            made._said[end] = frozenset(said)
            assert made._before[end][1] == Derived(KEYED, TIMERS * 2), made._before[end]
        return made

    def cases(self) -> Iterator[Case]:
        """Yield everything that can be damaged."""
        for end in ENDS:
            root = self._home / end
            names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
            for name in names:
                if name.partition("/")[0] in FILES:
                    yield from (Case(end, name, damage) for damage in DAMAGES)
                if name.removeprefix("config/") in NEEDED:
                    yield from (Case(end, name, damage) for damage in LAST_DAMAGES)

    async def judge(self, case: Case) -> tuple[Outcome, str]:
        """Damage a file and start; say what came of it, and what was told."""
        with self._damaged(case) as store, heard(store) as said:
            try:
                async with self._running(store) as run:
                    state, before = _state(run.broker), self._before[case.end]
                    derived = await _derived(run.broker)
            except StoreError as error:
                text = str(error)
                is_told = case.name.removesuffix(".bak") in text and "write {} into" in text
                return (Outcome.REFUSED if is_told else Outcome.SILENT), text
        told = [text for text in said if text not in self._said[case.end]]
        text = "; ".join(told)
        if (state, derived) == before:
            return (Outcome.REBUILT if told else Outcome.WHOLE), text
        unlike = [name for name in State._fields if getattr(state, name) != getattr(before[0], name)]
        is_named = case.name.removesuffix(".bak") in text and derived == before[1]
        return (Outcome.NAMED if is_named else Outcome.SILENT), f"{unlike} {derived}: {text}"

    @contextmanager
    def _damaged(self, case: Case) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._home) as directory:
            store = Path(directory) / "store"
            copy(self._home / case.end, store)
            if case.name:
                (DAMAGES | LAST_DAMAGES)[case.damage](store / case.name, Random(str(case)))
            yield store


async def judge_all() -> list[Outcome]:
    """Judge every case there is."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
        histories = await Histories.make(Path(directory))
        return [(await histories.judge(case))[0] for case in histories.cases()]


def copy(source: Path, target: Path) -> None:
    """Copy a store; holes stay holes."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


@contextmanager
def heard(root: Path) -> Iterator[list[str]]:
    """Gather the warnings that a broker logs meanwhile, without its directory's name."""
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    said: list[str] = []
    handler = QueueHandler(records)
    handler.setLevel(logging.WARNING)
    logging.getLogger("orbitmq").addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger("orbitmq").removeHandler(handler)
        while not records.empty():
            said.append(records.get().getMessage().replace(f"{root}/", ""))


@asynccontextmanager
async def _running(store: Path, *, has_lmq: bool) -> AsyncIterator[Run]:
    config = BrokerConfig(
        broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=store,
        mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2_000, max_hash_slot_num=SLOTS,
        max_index_num=80, mapped_file_size_timer_log=65_536, timer_flush_interval_ms=100, enable_lmq=has_lmq,
    )  # fmt: skip
    monotonic = FakeClock(5_000)
    broker = Broker(config, clock=FakeClock(), monotonic=monotonic, random=Random(1))
    await broker.start()
    pool = ConnectionPool()
    try:
        yield Run(broker, Wire(pool, broker.address), monotonic)
    finally:
        await pool.close()
        await broker.stop()


async def _live(run: Run, simulation: int) -> None:
    """Do a bit of everything, and save what is saved from time to time."""
    wire, running = run.wire, run.broker.running
    service = running.service
    for name in ("g", f"g{simulation}", "popper"):
        assert await wire.create_group(name) == 0
    for name in ("orders", f"orders{simulation}", "later"):
        assert await wire.create(name) == 0
    for number in range(KEYED // 2):
        assert await wire.send("orders", b"%d" % number, KEYS="key", UNIQ_KEY=f"U{simulation}-{number}") == 0
    for _ in range(TIMERS):
        assert await wire.send("later", b"timer", TIMER_DELAY_SEC="3600") == 0
    for level in ("1", "1", "4"):
        assert await wire.send("later", b"delayed", DELAY=level) == 0
    await wire.ask(UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=3 + simulation))
    place: dict[str, Any] = {"consumer_group": "popper", "topic": "orders", "queue_id": 0}
    pop = PopMessage(**place, count_max=2, invisible_ms=600_000, poll_ms=0, init_mode=0, order=True)
    assert (await wire.ask(pop)).code == 0 or simulation  # they stay out
    service.access.change(create_user(service.access.directory, f"user{simulation}", UserChange(f"secret{simulation}")))
    service.tables.request_modes.set(RequestMode("orders", f"g{simulation}", "POP", 0))
    mapping = QueueMapping(topic=f"static{simulation}", broker_name="a", queue_count=1, epoch=1)
    service.tables.topics.update_static(TopicConfig(topic=mapping.topic), mapping, 0, lambda: None, is_forced=False)
    await until(lambda: service.sends.timers.timers.queue_behind == 0, 0.01)
    # The delay is counted from when the broker sees the message: its task has had a turn of its own before time goes by.
    while service.sends.delays.backlog()[1]:
        await asyncio.sleep(0.15)
        run.monotonic.advance(1_500)
    service.store.flush()
    running.offset_file.save_now()
    service.delivery.pop.batch_file.save_now()
    service.sends.delays.save()
    running.known_tables.save_now()


def _state(broker: Broker) -> State:
    service = broker.service
    return State(
        dict(service.tables.topics.table.all),
        dict(service.tables.groups.configs.all),
        {key: dict(queues) for key, queues in service.tables.offsets.all.items() if not key.startswith("rmq_sys")},
        service.sends.delays.backlog(),
        sorted(service.tables.request_modes.all),
        sorted(service.delivery.pop.ordered.batches, key=repr),
        dict(service.access.directory.users),
        dict(service.tables.topics.static.mappings),
    )


async def _derived(broker: Broker) -> Derived:
    """Return what is found by key and what waits, as soon as all is there, or nothing more comes."""
    derived = Derived(0, 0)
    for _ in range(_TRIES):
        found = await _ask(broker)
        pending = broker.service.sends.timers.timers.pending_count
        if isinstance(found, IndexQueryResult):
            derived = Derived(sum(1 for _ in iter_records(found.body)), pending)
        else:
            derived = Derived(0, pending, str(found))
        if derived == Derived(KEYED, TIMERS * 2):
            break
        await asyncio.sleep(0.01)
    return derived


async def _ask(broker: Broker) -> IndexQueryResult | StoreError:
    store, answers = broker.service.store, list[IndexQueryResult | StoreError]()
    assert store.read("orders", 0, 0).status is ReadStatus.FOUND
    store.query(IndexQuery("orders", "key", 1_000, 0, 1 << 62), answers.append)
    await until(lambda: answers, 0.005)
    (answer,) = answers
    return answer
