"""Simulation runs of what stands on the store: index, timers and POP, over a disk in memory whose power goes at any moment.

Everything that is promised is a record of the log, and a crash leaves a beginning of the log. So the account is simple: what
lies before the end that a start finds has happened, the rest has not, and no end may lie before what was on the disk, or
before anything at all when only the process died. From that follows what queries, timers and pops owe.
`python -m crash.derived_cuts SEED` plays one run again and tells each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

from crash.hand_loop import HandFlusher, HandLoop
from crash.ledger import Loss, tell
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.persistence import OffsetFile, parse_offsets
from orbitmq.broker.pop.ordered_queues import OrderedQueues
from orbitmq.broker.pop.pops import PopLimits, PopRequest, PopResult, Pops
from orbitmq.broker.pop.revival import Revival
from orbitmq.broker.pop.revive_log import ReviveLog
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.broker.timers.timers import Timers
from orbitmq.broker.timers.times import wait_form
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.topics.table import TopicTable, plain_topic
from orbitmq.errors import StoreError
from orbitmq.model.message import Host
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import AppendResult, Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.store.timers.files import TimerFiles
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record, iter_records, parse_record
from orbitmq.wire.pop.revive_log import CheckpointKey

HOST = Host("127.0.0.1", 10911)
ROOT = Path("/store")
OFFSETS = ROOT / "config" / "consumerOffset.json"
START_MS = 1_700_000_000_000
KEYED, LATER, POPPED, GROUP = "keyed", "later", "popped", "g"
RETRIES = f"%RETRY%{GROUP}_{POPPED}"
KEYS = 6
PRECISION_MS, WINDOW_MS, SLOTS = 1_000, 20_000, 40
LIMITS = PopLimits(size_max=1 << 20, checkpoints_max=1_000, in_flight_max=None)
STEPS = 60
"""Between two crashes, at most."""
CRASHES = 4
_ALL = 1_000
_ALWAYS = (0, 1 << 62)


class Sent(NamedTuple):
    """A message that was handed to the store, and where its record ends."""

    body: bytes
    end: int
    key: str = ""
    due_ms: int = 0
    queue_offset: int = 0


class Out(NamedTuple):
    """A message that is out: what an ack of it names."""

    body: bytes
    checkpoint: CheckpointKey
    queue_offset: int


@dataclass(slots=True)
class Account:
    """What has happened, as far as the log has it."""

    keyed: list[Sent] = field(default_factory=list)
    timers: dict[bytes, Sent] = field(default_factory=dict)
    taken_back: dict[bytes, int] = field(default_factory=dict)
    """Timers that another message takes back, with that one's end."""
    caught: set[bytes] = field(default_factory=set)
    """Those of them that this start had in its wheel before they were due: no later one can come too late."""
    settled: dict[bytes, int] = field(default_factory=dict)
    """Timers of whose delivery a checkpoint on the disk tells, and how often they had come then."""
    popped: dict[bytes, Sent] = field(default_factory=dict)
    done: dict[bytes, int] = field(default_factory=dict)
    """Messages that were acknowledged, with the end of the first ack's record."""
    struck: dict[int, int] = field(default_factory=dict)
    """Copies of popped messages that were struck out of their checkpoints, by a consumer's ack or because they were stored again for
    the next try, by their places in the log, with the end of the record that says so. None comes or is stored again after
    that. Where a power cut takes this record and leaves the next copy, two of a message are to come, each until it is
    acknowledged.
    """

    def cut(self, end: int) -> None:
        """Forget what lies behind the log's end."""
        self.keyed = [sent for sent in self.keyed if sent.end <= end]
        self.timers = {body: sent for body, sent in self.timers.items() if sent.end <= end}
        self.taken_back = {body: at for body, at in self.taken_back.items() if at <= end}
        self.popped = {body: sent for body, sent in self.popped.items() if sent.end <= end}
        self.done = {body: at for body, at in self.done.items() if at <= end}
        self.struck = {place: at for place, at in self.struck.items() if at <= end}
        self.caught.clear()


class AccountedReviveLog(ReviveLog):
    """The revive log, which tells of each message that is struck out of its checkpoint, and where the record of that ends."""

    on_struck: Callable[[CheckpointKey, int, int], None]

    def acknowledge(self, key: CheckpointKey, offsets: Sequence[int]) -> AppendResult | None:
        found = self.checkpoints.find(key)
        left = [] if found is None else found.offsets_left
        result = super().acknowledge(key, offsets)
        if result is not None:
            for offset in set(left).intersection(offsets):
                self.on_struck(key, offset, result.end)
        return result


class Heart:
    """A broker without its port, from a start to a crash."""

    def __init__(self, simulation: Simulation) -> None:
        disk, wall, monotonic = simulation.disk, simulation.wall, simulation.monotonic
        self.loop = HandLoop()
        self.flusher, self.index_thread = HandFlusher(self.loop), HandFlusher(self.loop)
        offsets = parse_offsets(disk.read(OFFSETS)) if disk.exists(OFFSETS) else GroupOffsets()
        store = self.store = Store.open(simulation.config, store_host=HOST, clock=wall, monotonic=monotonic, disk=disk)
        offsets.cut_to(store.max_offset)
        topics = TopicTable([plain_topic(name, 2) for name in (KEYED, LATER, POPPED)])
        self.topics = TopicRegistry(
            topics, lambda _: disk.write(ROOT / "config" / "topics.json", b"{}"), lambda _: None
        )
        if store.queue_ids(RETRIES):
            self.topics.create_retry_topic(RETRIES, 1, 0)
        groups = GroupRegistry(GroupConfigs(), lambda _: None)
        groups.find(GROUP, 0)
        self.files = TimerFiles(
            disk, ROOT, precision_ms=PRECISION_MS, log_file_size=simulation.timer_file, slot_count=SLOTS
        )
        self.files.recover(store.max_physical_offset, store.max_offset(TIMER_TOPIC, 0), self._timer_at)
        self.timers = Timers(
            store, self.files, MissingTopics(self.topics), TimerMetrics(), roll_window_ms=WINDOW_MS, wall_ms=wall()
        )
        self.revive_log = AccountedReviveLog(
            store, offsets, cluster="c", broker_name="a", host=HOST, clock=wall, monotonic=monotonic
        )
        self.revive_log.on_struck = simulation.account_struck
        ordered = OrderedQueues(count_max=LIMITS.checkpoints_max, clock=wall, monotonic=monotonic)
        self.pops = Pops(
            store, self.topics, offsets, self.revive_log, ordered, BrokerStats(0), limits=LIMITS,
            retries_first_percent=20, clock=wall, random=simulation.random,
        )  # fmt: skip
        self.revival = Revival(
            store, self.topics, groups, offsets, self.revive_log,
            uses_retry_v2=False, clock=wall, monotonic=monotonic,
        )  # fmt: skip
        self.offset_file = OffsetFile(OFFSETS, offsets, wall, lambda: store.durable_offset)
        with mock.patch("orbitmq.store.sync.syncing.Flusher", return_value=self.flusher):
            store.attach(self.loop)  # type: ignore[arg-type]

    def _timer_at(self, offset: int, size: int) -> int | None:
        encoded = self.store.record_at(offset, size)
        record = None if encoded is None else parse_record(encoded, check_crc=False)
        return record.queue_offset if isinstance(record, Record) and record.topic == TIMER_TOPIC else None


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
            has_index=True,
            index_slots=random.choice([2, 8]),
            index_entries=random.choice([6, 30]),
        )
        self.timer_file = random.choice([52 * 4 + 12, 4_096])
        self._say = say
        self._numbers = 0
        self._account = Account()
        self._out: dict[int, Out] = {}
        """PopResult copies that were not acknowledged, by their places in the log."""
        self._heart = Heart(self)
        steps = {
            "send_keyed": 8, "ask": 2, "send_timer": 8, "take_back": 2, "work_timers": 6, "save_timers": 3,
            "send_popped": 6, "pop": 6, "acknowledge": 8, "revive": 4, "save_offsets": 3,
            "flush": 2, "turn": 8, "write": 6, "write_index": 6, "wait": 6,
        }  # fmt: skip
        self._steps = [
            name for name, weight in steps.items() for _ in range(max(1, round(weight * random.choice([0.3, 1, 2]))))
        ]

    def run(self, crashes: int = CRASHES) -> None:
        """Live through so many crashes, then wait until everything is done. Raises Loss."""
        # The index makes its thread when it first has something to write.
        with mock.patch("orbitmq.store.index.index.Flusher", side_effect=lambda *_, **__: self._heart.index_thread):
            self._run(crashes)

    def _run(self, crashes: int) -> None:
        for _ in range(crashes):
            if self.random.random() < 0.5:
                self.disk.cut_at = self.disk.operation_count + self.random.choice([5, 20, 80])
            try:
                for _ in range(self.random.randrange(5, STEPS)):
                    self._step()
            except PowerCut as cut:
                self._say(f"  the end comes at: {cut}")
            self._crash()
        self._finish()

    def _step(self) -> None:
        name = self.random.choice(self._steps)
        self.counts[name] += 1
        self._say(name)
        getattr(self, f"_{name}")()

    def _body(self) -> bytes:
        self._numbers += 1
        return b"%d" % self._numbers

    def _append(self, draft: Draft) -> int:
        return self._heart.store.append(draft).end

    def _send_keyed(self) -> None:
        for _ in range(self.random.randrange(1, 5)):
            body, key = self._body(), f"k{self.random.randrange(KEYS)}"
            properties = format_properties({"UNIQ_KEY": f"U{body.decode()}", "KEYS": f"{key} other"})
            self._account.keyed.append(Sent(body, self._append(Draft(KEYED, 0, body, properties)), key))

    def _ask(self) -> None:
        key = f"k{self.random.randrange(KEYS)}"
        self._check_key(key)

    def _send_timer(self) -> None:
        body = self._body()
        due_ms = (self.wall() + self.random.choice([900, 3_000, 15_000, 50_000]) - 1) // PRECISION_MS * PRECISION_MS
        draft = Draft(LATER, 0, body)
        stored = self._heart.store.append(wait_form(draft, {"UNIQ_KEY": f"U{body.decode()}"}, due_ms))
        self._account.timers[body] = Sent(body, stored.end, due_ms=due_ms, queue_offset=stored.queue_offset)

    def _take_back(self) -> None:
        """Take a timer back that is far enough from its time, and near enough to wait in one turn."""
        now_ms = self.wall()
        near = [
            sent
            for sent in self._account.timers.values()
            if now_ms + 2 * PRECISION_MS < sent.due_ms < now_ms + WINDOW_MS - PRECISION_MS
        ]
        if near:
            sent = self.random.choice(near)
            key = f"U{sent.body.decode()}"
            properties = {"TIMER_DEL_UNIQKEY": f"{LATER}+{key}", "UNIQ_KEY": key}
            end = self._append(wait_form(Draft(LATER, 0, b"0"), properties, sent.due_ms))
            self._account.taken_back.setdefault(sent.body, end)

    def _work_timers(self) -> None:
        timers, now_ms = self._heart.timers, self.wall()
        while timers.enqueue(now_ms) | timers.deliver_due(now_ms):
            pass
        account, behind = self._account, self._heart.store.durable_offset
        for body, end in account.taken_back.items():
            is_readable = self.config.flush is FlushMode.ASYNC or end <= behind
            if is_readable and account.timers[body].due_ms > now_ms:
                account.caught.add(body)

    def _save_timers(self) -> None:
        heart = self._heart
        snapshot, count = heart.timers.snapshot(self.wall()), heart.timers.delivered_count
        if self.random.random() < 0.7:
            heart.store.flush()
        if snapshot.log_end > heart.store.durable_offset:
            return
        for file in heart.files.unsynced():
            file.sync()
        heart.files.write_checkpoint(snapshot.checkpoint)
        heart.timers.note_saved(snapshot, count)
        times = Counter(bytes(record.body) for record in self._delivered())
        for body, sent in self._account.timers.items():
            checkpoint = snapshot.checkpoint
            if times[body] and sent.due_ms < checkpoint.read_ms and sent.queue_offset < checkpoint.queue_offset:
                self._account.settled.setdefault(body, times[body])

    def _send_popped(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            body = self._body()
            self._account.popped[body] = Sent(body, self._append(Draft(POPPED, self.random.randrange(2), body)))

    def _pop(self) -> None:
        asked = PopRequest(POPPED, GROUP, -1, self.random.randrange(1, 10), self.random.choice([2_000, 8_000]), 0, None)
        popped = self._heart.pops.pop(asked)
        self._take(popped)

    def _take(self, popped: PopResult) -> None:
        """Look at what a pop has given: nothing that is done."""
        records = iter(iter_records(b"".join(popped.records)))
        for queue in popped.queues:
            topic = POPPED if queue.retry == "0" else RETRIES
            key = CheckpointKey(topic, GROUP, queue.queue_id, queue.start_offset, popped.pop_time_ms, "a")
            for offset in queue.offsets:
                record = next(records)
                body, place = bytes(record.body), record.physical_offset
                if place in self._account.struck:
                    raise Loss(f"message {body!r} is acknowledged or stored again, and popped again")
                if body not in self._account.popped:
                    raise Loss(f"message {body!r} was never sent, and is popped")
                self.counts["popped again"] += body in self._account.done
                self._out[place] = Out(body, key, offset)

    def _acknowledge(self) -> None:
        for place in self.random.sample(sorted(self._out), min(len(self._out), self.random.randrange(1, 5))):
            self._acknowledge_copy(place)

    def _acknowledge_copy(self, place: int) -> None:
        body, key, offset = self._out.pop(place)
        result = self._heart.revive_log.acknowledge(key, (offset,))
        if result is not None:
            self._account.done.setdefault(body, result.end)

    def account_struck(self, key: CheckpointKey, queue_offset: int, end: int) -> None:
        """Account for a message that is struck out of its checkpoint: it may not have been before."""
        record = self._heart.store.message_at(key.topic, key.queue_id, queue_offset)
        assert record is not None, "no file of the log is deleted here"
        if record.physical_offset in self._account.struck:
            raise Loss(f"message {bytes(record.body)!r} is acknowledged or stored again for the second time")
        self._account.struck[record.physical_offset] = end

    def _revive(self) -> None:
        store, struck = self._heart.store, self._account.struck
        before = store.max_offset(RETRIES, 0) - len(struck)
        while self._heart.revival.revive_due():
            pass
        if store.max_offset(RETRIES, 0) - len(struck) > before:
            raise Loss("messages are stored again, and not struck out of their checkpoints")
        self._heart.revive_log.commit()

    def _save_offsets(self) -> None:
        if self.random.random() < 0.5:
            self._heart.store.flush()
        with mock.patch("orbitmq.broker.persistence.replace_file", self._replace):
            self._heart.offset_file.save_now()

    def _replace(self, path: Path, content: bytes) -> None:
        other = path.with_suffix(".tmp")
        self.disk.write(other, content)
        self.disk.move(other, path)

    def _flush(self) -> None:
        self._heart.store.flush()

    def _turn(self) -> None:
        self._heart.loop.turn()

    def _write(self) -> None:
        self._heart.flusher.work()

    def _write_index(self) -> None:
        self._heart.index_thread.work()

    def _wait(self) -> None:
        self._pass(self.random.choice([100, 1_000, 4_000]))

    def _pass(self, duration_ms: int) -> None:
        self.wall.advance(duration_ms)
        self.monotonic.advance(duration_ms)
        self._heart.loop.advance(duration_ms / 1_000)

    def _crash(self) -> None:
        self.disk.cut_at = None
        random, is_exact = self.random, True
        log_end, durable = self._heart.store.max_physical_offset, self._heart.store.durable_offset
        is_orderly = random.random() < 0.1
        if is_orderly:
            self._say("stop")
            self._heart.store.close()
        while True:
            is_power_cut = random.random() < 0.7
            self.counts["power cuts" if is_power_cut else "kills"] += 1
            self._say("power cut" if is_power_cut else "kill")
            is_exact = is_exact and not is_power_cut
            self.disk = self.disk.after_power_cut(random) if is_power_cut else self.disk.after_kill(random)
            self.disk.cut_at = random.choice([None, random.randrange(1, 40)])
            try:
                self._heart = Heart(self)
                break
            except PowerCut as cut:
                self.counts["ends while starting"] += 1
                self._say(f"  the end comes while starting, at: {cut}")
        self.disk.cut_at = None
        end = self._heart.store.max_physical_offset
        if end < (log_end if is_exact or is_orderly else durable):
            raise Loss(f"the log ends at {end}; it had {log_end} bytes, of which {durable} were on the disk")
        self._account.cut(end)
        self._out.clear()
        for number in range(KEYS):
            self._check_key(f"k{number}")
        self._check_unique_keys()

    def _check_key(self, key: str) -> None:
        sent = [message.body for message in self._account.keyed if message.key == key and self._is_readable(message)]
        found = self._query(key)
        if found[: len(sent)] != sent:
            raise Loss(f"key {key} finds {found}, sent were {sent}")

    def _check_unique_keys(self) -> None:
        for sent in self.random.sample(self._account.keyed, min(5, len(self._account.keyed))):
            if self._is_readable(sent) and self._query(f"U{sent.body.decode()}") != [sent.body]:
                raise Loss(f"message {sent.body!r} is not found by its unique key")

    def _is_readable(self, sent: Sent) -> bool:
        store = self._heart.store
        return self.config.flush is FlushMode.ASYNC or sent.end <= store.durable_offset

    def _query(self, key: str) -> list[bytes]:
        heart = self._heart
        answers: list[IndexQueryResult | StoreError] = []
        heart.store.query(IndexQuery(KEYED, key, _ALL, *_ALWAYS), answers.append)
        while not answers:
            while heart.index_thread.work():
                heart.loop.turn()
            heart.loop.advance(0.1)
        (answer,) = answers
        if isinstance(answer, StoreError):
            raise Loss(f"key {key}: {answer}")
        return [bytes(record.body) for record in iter_records(answer.body)]

    def _delivered(self) -> list[Record]:
        found = self._heart.store.read(LATER, 0, 0, 10_000, 1 << 24)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []

    def _finish(self) -> None:
        """Wait until all timers have come and all pops are done; then judge."""
        self._say("finish")
        for _ in range(70):
            self._pass(1_000)
            self._heart.store.flush()
            self._work_timers()
            self._heart.store.flush()
        for _ in range(40):
            self._revive()
            self._heart.store.flush()
            self._pop()
            for place in list(self._out):
                self._acknowledge_copy(place)
            self._pass(500)
        lost = self._account.popped.keys() - self._account.done.keys()
        if lost:
            raise Loss(f"{sorted(lost)[:5]} were sent and never popped, or not done when they were")
        self._judge_timers()

    def _judge_timers(self) -> None:
        account, delivered = self._account, self._delivered()
        times = Counter(bytes(record.body) for record in delivered)
        for body, sent in account.timers.items():
            if not times[body] and body not in account.taken_back:
                raise Loss(f"timer {body!r}, due at {sent.due_ms}, never came")
            if times[body] and body in account.caught:
                raise Loss(f"timer {body!r} was taken back, and came")
            if times[body] > account.settled.get(body, times[body]):
                raise Loss(f"timer {body!r} came {times[body]} times, and a checkpoint knew that it had come")
        for record in delivered:
            body = bytes(record.body)
            if body not in account.timers:
                raise Loss(f"{body!r} was never sent to come later, and came")
            if record.stored_at_ms < account.timers[body].due_ms:
                raise Loss(
                    f"timer {body!r} came at {record.stored_at_ms}, and was due at {account.timers[body].due_ms}"
                )
        self.counts["timers"] += len(account.timers)
        self.counts["timers again"] += sum(count - 1 for count in times.values() if count > 1)
        self.counts["popped"] += len(account.popped)
        self.counts["keyed"] += len(account.keyed)


if __name__ == "__main__":
    tell(Simulation)
