"""One damaged record of each internal topic: a broker starts with it, and everything else is delivered, once.

A broker with delayed messages, timers, popped messages and half messages stops. One record of theirs is damaged in its log; its
consume queues stay, or are rebuilt. What has to come then is all but that message, and the broker counts it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import orjson

from crash.broker_process import Wire
from crash.faults import QUICK_DISK
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.service import BrokerService
from orbitmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.net.pool import ConnectionPool
from orbitmq.store import ReadStatus
from orbitmq.testing import FakeClock
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import EndTransaction, GetHealth, SendMessageV2, SendResponse
from orbitmq.wire.headers.pop import PopMessage
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import iter_records
from waiting import until

COUNT, BAD = 5, 2
PROPERTIES: dict[str, dict[str, str]] = {
    "delayed": {"DELAY": "4"},  # 30 s
    "timer": {"TIMER_DELAY_SEC": "30"},
    "half": {"TRAN_MSG": "true", "PGROUP": "p"},
    "popped": {},
}
"""What of each kind asks for."""
TOPICS = {
    "delayed": SCHEDULE_TOPIC, "timer": TIMER_TOPIC, "half": HALF_TOPIC, "popped": "popped",
    "checkpoint": "rmq_sys_REVIVE_LOG_DefaultCluster",
}  # fmt: skip
"""Where the records lie that are damaged."""
PLACES = {"delayed": (3, BAD), "checkpoint": (1 + BAD, 0)}
"""Queue and offset of the record, where they are not those of the only queue: checkpoints go to queue after queue."""
DAMAGES = {
    "magic": (4, bytes(4)),
    "size": (0, b"\0\0\xff\xff"),
    "queue offset 0": (20, bytes(8)),
    "queue offset 2^40": (20, (2**40).to_bytes(8, "big")),
    "sys flag": (36, b"\xff" * 4),
    "zeros": (0, bytes(80)),
}
"""Where a damage begins in a record, and what stands there then."""
LATER_MS = 60_000
_TRIES = 300


class Case(NamedTuple):
    """One record, damaged in one way, with its consume queues as they were or rebuilt."""

    kind: str
    damage: str
    is_rebuilt: bool

    def __str__(self) -> str:
        return f"{self.kind}, {self.damage}{', queues rebuilt' if self.is_rebuilt else ''}"


CASES = [Case(kind, damage, is_rebuilt) for kind in TOPICS for damage in DAMAGES for is_rebuilt in (False, True)]


class Run(NamedTuple):
    """A running broker, and a connection to it."""

    service: BrokerService
    wire: Wire


class History:
    """The files of a broker in which some messages of each kind wait."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._halves: list[SendResponse] = []
        self._places: dict[str, int] = {}

    @classmethod
    async def make(cls, home: Path) -> History:
        """Live the history."""
        made = cls(home)
        async with _running(home / "lived", 0) as run:
            for topic in ("t", "popped"):
                assert await run.wire.create(topic) == 0
            for number in range(COUNT):
                await made._live(run, number)
            store = run.service.store
            await until(lambda: run.service.sends.timers.timers.queue_behind == 0, 0.01)
            for kind, topic in TOPICS.items():
                queue_id, offset = PLACES.get(kind, (0, BAD))
                record = store.message_at(topic, queue_id, offset)
                assert record is not None, kind
                made._places[kind] = record.physical_offset
        return made

    async def _live(self, run: Run, number: int) -> None:
        for kind, properties in PROPERTIES.items():
            header = SendMessageV2(
                producer_group="p", topic="popped" if kind == "popped" else "t", default_topic="TBW102",
                default_topic_queue_nums=1, queue_id=0, sys_flag=4 if kind == "half" else 0, born_at_ms=1, flag=0,
                properties=format_properties({"UNIQ_KEY": f"{kind}{number}", **properties}).decode(),
            )  # fmt: skip
            answer = await run.wire.ask(header, f"{kind} {number}".encode())
            assert answer.code == 0, answer.remark
            if kind == "half":
                self._halves.append(decode_header(SendResponse, answer.ext_fields))
        pop = PopMessage(
            consumer_group="g", topic="popped", queue_id=0, count_max=1, invisible_ms=30_000, poll_ms=0, init_mode=0
        )
        assert (await run.wire.ask(pop)).code == 0

    async def judge(self, case: Case) -> str:
        """Damage a record and start; say what is wrong with what came then, nothing where all is well."""
        with tempfile.TemporaryDirectory(dir=self._home) as directory:
            store = Path(directory) / "store"
            shutil.copytree(self._home / "lived", store)
            at, written = DAMAGES[case.damage]
            with (store / "commitlog" / f"{0:020}").open("r+b") as file:
                file.seek(self._places[case.kind] + at)
                file.write(written)
            if case.is_rebuilt:
                shutil.rmtree(store / "consumequeue" / TOPICS[case.kind])
            async with _running(store, LATER_MS) as run:
                for half in self._halves:
                    await self._commit(run, half)
                found = await _what_comes(run.service, case)
                health = orjson.loads((await run.wire.ask(GetHealth())).body)
        wrong = [f"{name} is missing" for name in _wanted(case) if not found[name]]
        wrong += [f"{name} came {count} times" for name, count in found.items() if count > 1]
        if len(found) < COUNT * len(PROPERTIES) and not health["warnings"]:
            wrong.append("health says nothing")
        return "; ".join(wrong)

    async def _commit(self, run: Run, half: SendResponse) -> None:
        _, physical_offset = parse_offset_message_id(half.message_id)
        await run.wire.ask(
            EndTransaction(
                producer_group="p", tran_state_table_offset=half.queue_offset, commit_log_offset=physical_offset,
                commit_or_rollback=8, from_transaction_check=False, message_id="",
            )
        )  # fmt: skip


async def judge_all(cases: Sequence[Case]) -> dict[Case, str]:
    """Judge cases; return those in which something is wrong."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
        history = await History.make(Path(directory))
        verdicts = {case: await history.judge(case) for case in cases}
    return {case: verdict for case, verdict in verdicts.items() if verdict}


def _wanted(case: Case) -> Iterator[str]:
    """Yield what has to come: all but the message whose record is damaged."""
    lost = "popped" if case.kind == "checkpoint" else case.kind
    yield from (f"{kind} {number}" for kind in PROPERTIES for number in range(COUNT) if (kind, number) != (lost, BAD))


async def _what_comes(service: BrokerService, case: Case) -> Counter[str]:
    """Wait until all has come that has to, and return what has come."""
    wanted = set(_wanted(case))
    for _ in range(_TRIES):
        found = Counter(
            _bodies(service, "t") + _bodies(service, "%RETRY%g_popped") + _bodies(service, "%RETRY%g+popped")
        )
        if wanted <= found.keys():
            break
        await asyncio.sleep(0.02)
    return found


def _bodies(service: BrokerService, topic: str) -> list[str]:
    found = service.store.read(topic, 0, 0, 1_000)
    if found.status is not ReadStatus.FOUND:
        return []
    return [bytes(record.body).decode() for record in iter_records(found.body, check_crc=False)]


@asynccontextmanager
async def _running(store: Path, later_ms: int) -> AsyncIterator[Run]:
    config = BrokerConfig(
        broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=store,
        mapped_file_size_commit_log=262_144, mapped_file_size_consume_queue=2_000, mapped_file_size_timer_log=65_536,
        timer_flush_interval_ms=100,
    )  # fmt: skip
    wall, monotonic = FakeClock(), FakeClock(5_000)
    wall.advance(later_ms)
    monotonic.advance(later_ms)
    broker = Broker(config, clock=wall, monotonic=monotonic, random=Random(1))
    await broker.start()
    pool = ConnectionPool()
    try:
        yield Run(broker.service, Wire(pool, broker.address))
    finally:
        await pool.close()
        await broker.stop()
