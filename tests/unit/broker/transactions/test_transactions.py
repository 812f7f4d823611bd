from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.transactions import transactions
from orbitmq.broker.transactions.messages import half_message, plain_ending
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.model.topic import AUTO_CREATE_TOPIC, GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, TopicConfig
from orbitmq.store import AppendResult, Draft, FlushMode
from orbitmq.store.index.keys import NotedKeys
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import format_record

from .world import COMMIT, PROPERTIES, ROLLBACK, RULES, World


def refusal(world: World, half: Any, decision: int = COMMIT, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Rejected) as refused:
        world.end(half, decision, **fields)
    return refused.value.code, refused.value.remark or ""


def test_a_half_message_is_seen_when_it_is_committed_and_not_before(world: World) -> None:
    half = world.prepare(b"x")
    assert world.bodies() == []
    world.end(half)
    (record,) = world.records()
    assert (bytes(record.body), record.queue_id, record.flag, record.sys_flag) == (b"x", 2, 7, 8)
    assert record.prepared_transaction_offset == half.physical_offset
    assert parse_properties(record.properties).items() >= PROPERTIES.items()
    assert world.transactions.counts.commits == {"t": 1}


def test_a_message_that_is_rolled_back_is_never_seen(world: World) -> None:
    half = world.prepare()
    world.end(half, ROLLBACK)
    assert world.bodies() == []
    assert world.transactions.counts.rollbacks == {"t": 1}
    assert refusal(world, half) == (1, "the transaction has ended before, or was discarded")
    world.kill()
    assert refusal(world, half) == (1, "the transaction has ended before, or was discarded")


def kept(world: World, body: bytes = b"x") -> AppendResult:
    """Store a half message as the fast path does."""
    draft = Draft("t", 2, body, flag=7, sys_flag=4, born_at_ms=world.clock(), born_host=Host("10.0.0.1", 5))
    half = half_message(draft, PROPERTIES)
    stored = world.store.append(half)
    ending = plain_ending(half.properties)
    assert ending is not None
    world.transactions.keep(half, stored, b"K1", ending)
    return stored


@each_case(COMMIT, ROLLBACK)
def test_a_half_message_that_was_kept_ends_as_one_that_is_read_from_the_log(decision: int) -> None:
    read, remembered = World(), World()
    one, other = read.prepare(b"x"), kept(remembered, b"x")
    assert one == other
    noted: list[NotedKeys] = []
    remembered.store.note_key = noted.append
    assert refusal(remembered, other, producer_group="q") == (1, "The producer group wrong")
    assert refusal(remembered, other, commit_log_offset=1) == (1, "Find prepared transaction message failed")
    remembered.store.message_at = None  # type: ignore[method-assign, assignment]
    assert read.end(one, decision) == remembered.end(other, decision)
    del remembered.store.message_at
    assert [record._replace(born_host=None) for record in read.records()] == [  # type: ignore[arg-type]
        record._replace(born_host=None)  # type: ignore[arg-type]
        for record in remembered.records()
    ]
    assert read.records("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0) == remembered.records("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    assert not remembered.transactions._fresh
    assert refusal(remembered, other) == (1, "the transaction has ended before, or was discarded")
    for record in remembered.records():
        assert noted == [(record.physical_offset, record.size, record.stored_at_ms, "t", b"K1", b"")]


def test_few_half_messages_are_kept_and_no_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_FRESH_MAX", 2)
    world = World()
    halves = [kept(world, b"x" * size) for size in (1, 2, 4_097, 3)]
    assert [len(fresh.half.body) for fresh in world.transactions._fresh.values()] == [2, 3]
    for half in halves:
        world.end(half)
    assert [len(body) for body in world.bodies()] == [1, 2, 4_097, 3]


def test_the_oldest_half_messages_are_forgotten_when_all_of_them_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_FRESH_SIZE_SUM_MAX", 100)
    world = World()
    halves = [kept(world, b"x" * size) for size in (50, 40, 30, 30)]
    assert [len(fresh.half.body) for fresh in world.transactions._fresh.values()] == [40, 30, 30]
    for half, decision in zip(halves, (COMMIT, COMMIT, ROLLBACK, COMMIT), strict=True):
        world.end(half, decision)
    assert (world.transactions._fresh_size, [len(body) for body in world.bodies()]) == (0, [50, 40, 30])


def test_a_kept_half_message_that_was_asked_about_ends_at_its_new_place(world: World) -> None:
    half = kept(world)
    world.clock.advance(RULES.timeout_ms + 1)
    (renewed,) = world.check()
    assert not world.transactions._fresh
    world.end(half, from_transaction_check=True)
    assert world.bodies() == [b"x"]
    assert world.records()[0].prepared_transaction_offset == renewed.result.physical_offset


@each_case((COMMIT, COMMIT), (COMMIT, ROLLBACK), (ROLLBACK, COMMIT), (ROLLBACK, ROLLBACK))
def test_a_transaction_ends_once(first: int, second: int) -> None:
    world = World()
    half = world.prepare()
    world.end(half, first)
    count = len(world.records())
    assert refusal(world, half, second)[0] == 1
    assert len(world.records()) == count


def test_who_decides_about_what_is_no_half_message_of_its_own_is_refused_in_javas_words(world: World) -> None:
    plain = world.store.append(Draft("t", 2, b"plain", format_properties(PROPERTIES)))
    half, other = world.prepare(), world.prepare()
    missing = (1, "Find prepared transaction message failed")
    assert refusal(world, plain) == missing
    assert refusal(world, half, commit_log_offset=half.physical_offset + 1) == missing
    assert refusal(world, half, commit_log_offset=-1, tran_state_table_offset=-1) == missing
    assert refusal(world, half, commit_log_offset=2**62) == missing
    assert refusal(world, half, producer_group="q") == (1, "The producer group wrong")
    wrong_place = (1, "The transaction state table offset wrong")
    assert refusal(world, half, tran_state_table_offset=other.queue_offset) == wrong_place
    assert refusal(world, half, tran_state_table_offset=99) == wrong_place
    assert refusal(world, half, tran_state_table_offset=99, producer_group="q") == (1, "The producer group wrong")
    assert world.bodies() == [b"plain"]


def test_a_body_that_looks_like_a_half_message_is_none(world: World) -> None:
    at = world.store.max_physical_offset + 88
    properties = format_properties(PROPERTIES | {"REAL_TOPIC": "t", "REAL_QID": "2"})
    forged = format_record(topic=HALF_TOPIC, body=b"forged", properties=properties, physical_offset=at)
    world.store.append(Draft("t", 1, forged))
    assert world.store.record_at(at) is not None
    world.prepare()
    assert refusal(world, None_at(0, at)) == (1, "The transaction state table offset wrong")
    assert world.bodies() == []


class None_at:  # noqa: N801 - reads as a value
    def __init__(self, queue_offset: int, physical_offset: int) -> None:
        self.queue_offset, self.physical_offset = queue_offset, physical_offset


def test_a_producer_that_does_not_decide_is_asked_and_may_answer_with_the_new_place_or_the_old(world: World) -> None:
    first, second = world.prepare(b"1"), world.prepare(b"2")
    assert world.check() == []
    world.clock.advance(6_000)
    asked = world.check()
    assert [bytes(renewed.half.body) for renewed in asked] == [b"1", b"2"]
    assert [renewed.properties["TRANSACTION_CHECK_TIMES"] for renewed in asked] == ["1", "1"]
    assert [renewed.result.queue_offset for renewed in asked] == [2, 3]
    assert world.open_bodies() == [b"1", b"2"]
    world.end(first)
    world.end(asked[1].result, from_transaction_check=True)
    assert world.bodies() == [b"1", b"2"]
    for half in (first, second, asked[0].result, asked[1].result):
        assert refusal(world, half)[0] == 1
    assert world.open_bodies() == []
    assert world.check() == []


def test_a_producer_that_never_decides_is_asked_so_often_and_then_the_message_is_given_up(world: World) -> None:
    world.transactions.counts.prepared("t", 0)
    half = world.prepare(b"x")
    for times in (1, 2, 3):
        world.clock.advance(30_000)
        (asked,) = world.check()
        assert asked.properties["TRANSACTION_CHECK_TIMES"] == str(times)
    world.clock.advance(30_000)
    assert world.check() == []
    assert world.bodies(GIVEN_UP_TOPIC, 0) == [b"x"]
    assert world.registries.topics.get(GIVEN_UP_TOPIC) is not None
    assert refusal(world, half)[0] == refusal(world, asked.result)[0] == 1
    assert world.transactions.counts.open == {"t": 0}
    assert world.transactions.counts.given_up_count == 1
    world.clock.advance(30_000)
    assert world.check() == []
    world.kill()
    world.clock.advance(30_000)
    assert world.check() == []
    assert world.bodies(GIVEN_UP_TOPIC, 0) == [b"x"]


def test_a_message_that_was_given_up_can_be_taken_up_again(world: World) -> None:
    world.prepare(b"x")
    for _ in range(4):
        world.clock.advance(30_000)
        world.check()
    (given_up,) = world.records(GIVEN_UP_TOPIC, 0)
    world.transactions.resume(given_up.physical_offset, world.clock())
    (asked,) = world.check()
    world.end(asked.result)
    assert world.bodies() == [b"x"]


def test_only_what_was_given_up_is_taken_up_again(world: World) -> None:
    half = world.prepare()
    plain = world.store.append(Draft("t", 2, b"plain"))
    for place in (half.physical_offset, plain.physical_offset, 3, 2**62):
        with pytest.raises(Rejected, match=r"no message of TRANS_CHECK_MAX_TIME_TOPIC"):
            world.transactions.resume(place, 0)
    assert world.open_bodies() == [b"x"]


def test_a_producer_that_asked_for_time_is_not_asked_before_and_decides_within_it(world: World) -> None:
    late, soon = world.prepare(b"late", CHECK_IMMUNITY_TIME_IN_SECONDS="60"), world.prepare(b"soon")
    world.clock.advance(6_000)
    assert [bytes(renewed.half.body) for renewed in world.check()] == [b"soon"]
    world.end(soon)
    world.clock.advance(54_000)
    world.end(late)
    assert world.bodies() == [b"soon", b"late"]

    too_late = world.prepare(b"too late", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    world.clock.advance(60_001)
    assert refusal(world, too_late)[0] == 604
    (asked,) = world.check()
    world.end(asked.result, from_transaction_check=True)
    assert world.bodies() == [b"soon", b"late", b"too late"]


def test_a_long_time_without_checks_does_not_hold_the_window_and_counts_as_none(world: World) -> None:
    half = world.prepare(b"long", CHECK_IMMUNITY_TIME_IN_SECONDS="3000")
    for _ in range(4):
        world.clock.advance(600_000)
        assert world.check() == []
    (again,) = [record for record in world.records(HALF_TOPIC, 0) if record.queue_offset == 4]
    assert parse_properties(again.properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert b"TRANSACTION_CHECK_TIMES" not in again.properties
    world.transactions.note_done()
    assert world.transactions.half_done == 4
    world.end(half)
    assert world.bodies() == [b"long"]
    assert world.bodies(GIVEN_UP_TOPIC, 0) == []


def test_a_message_for_a_topic_that_is_gone_makes_it_again_when_it_is_committed(world: World) -> None:
    world.registries.topics.update(TopicConfig(topic=AUTO_CREATE_TOPIC), 1)
    half = world.prepare()
    world.registries.topics.delete("t", 1, lambda: None)
    world.end(half)
    made = world.registries.topics.get("t")
    assert made is not None
    assert made.write_queue_count >= 3
    assert world.bodies() == [b"x"]


def test_a_half_message_without_a_place_to_go_is_refused_and_given_up(world: World) -> None:
    half = world.store.append(Draft(HALF_TOPIC, 0, b"lost", b"PGROUP\x01p\x02"))
    assert refusal(world, half) == (1, "Find prepared transaction message failed")
    world.check()
    assert world.bodies(GIVEN_UP_TOPIC, 0) == [b"lost"]


def test_op_messages_hold_many_ends_and_a_rollback_is_said_before_it_is_answered(world: World) -> None:
    halves = [world.prepare() for _ in range(4)]
    world.end(halves[0])
    world.end(halves[1])
    assert world.bodies(OP_TOPIC, 0) == []
    assert world.transactions.are_ops_waiting
    end = world.end(halves[2], ROLLBACK)
    assert world.bodies(OP_TOPIC, 0) == [b"0,1,2,"]
    assert end.end == world.store.max_physical_offset
    world.end(halves[3])
    world.transactions.write_ops(world.clock())
    assert world.bodies(OP_TOPIC, 0) == [b"0,1,2,", b"3,"]
    assert world.transactions.write_ops(world.clock()) is None


def test_a_full_op_message_is_written_immediately() -> None:
    world = World(op_size_max=4)
    for half in [world.prepare() for _ in range(3)]:
        world.end(half)
    assert world.bodies(OP_TOPIC, 0) == [b"0,1,"]


def test_a_transaction_stays_open_while_the_store_takes_nothing(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    half, other = world.prepare(b"1"), world.prepare(b"2")
    append = world.store.append

    def refuse(draft: Draft) -> Any:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(world.store, "append", refuse)
    for decision in (COMMIT, ROLLBACK):
        with pytest.raises(StoreUnavailable):
            world.end(half, decision)
    world.clock.advance(6_000)
    world.transactions.begin_round()
    with pytest.raises(StoreUnavailable):
        world.transactions.check_some(world.clock(), world.asked.append)
    monkeypatch.setattr(world.store, "append", append)
    assert world.open_bodies() == [b"1", b"2"]
    world.end(half)
    world.end(other, ROLLBACK)
    assert world.bodies() == [b"1"]
    assert world.bodies(OP_TOPIC, 0) == [b"0,1,"]


def test_a_commit_is_answered_although_its_op_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(op_size_max=1)
    half = world.prepare()
    append = world.store.append

    def refuse_ops(draft: Draft) -> Any:
        if draft.topic == OP_TOPIC:
            raise StoreUnavailable("the disk is full")
        return append(draft)

    monkeypatch.setattr(world.store, "append", refuse_ops)
    world.end(half)
    assert world.bodies() == [b"x"]
    assert world.transactions.are_ops_waiting


def test_with_sync_flush_producers_are_asked_when_the_renewed_message_can_be_read() -> None:
    world = World(FlushMode.SYNC)
    half = world.prepare()
    world.store.flush()
    world.clock.advance(6_000)
    seen: list[bool] = []
    world.transactions.begin_round()
    world.transactions.check_some(
        world.clock(),
        lambda renewed: seen.append(world.store.message_at(HALF_TOPIC, 0, renewed.result.queue_offset) is not None),
    )
    world.store.flush()
    assert seen == [True]
    world.end(half)
    world.store.flush()
    assert world.bodies() == [b"x"]


def test_a_renewed_message_that_cannot_be_read_yet_is_not_decided() -> None:
    world = World(FlushMode.SYNC)
    half = world.prepare()
    world.store.flush()
    world.clock.advance(6_000)
    world.transactions._store = _Unsynced(world.store)  # type: ignore[assignment]
    world.check()
    assert refusal(world, half) == (1, "the half message is being renewed: wait for the check")


class _Unsynced:
    """A store whose newest messages are not on the disk yet."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def wait_durable(self, position: int, waiter: Any) -> bool:
        return False

    def message_at(self, topic: str, queue_id: int, queue_offset: int) -> Any:
        return self._store.message_at(topic, queue_id, queue_offset) if queue_offset == 0 else None


def test_how_far_it_is_is_kept_when_what_it_rests_on_is_on_the_disk(world: World) -> None:
    halves = [world.prepare() for _ in range(3)]
    world.end(halves[0])
    world.end(halves[2], ROLLBACK)
    world.transactions.note_done()
    world.transactions.keep_durable()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == -1
    world.store.flush()
    world.transactions.keep_durable()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 1
    assert world.offsets.query("CID_RMQ_SYS_TRANS", OP_TOPIC, 0) == 0
    world.end(halves[1])
    world.transactions.write_ops(0)
    world.transactions.note_done()
    world.transactions.note_done()
    world.store.flush()
    world.transactions.keep_durable()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 3
    assert world.offsets.query("CID_RMQ_SYS_TRANS", OP_TOPIC, 0) == 2


def test_notes_are_bounded_while_nothing_is_synced(world: World) -> None:
    for _ in range(300):
        world.end(world.prepare())
        world.transactions.note_done()
    assert len(world.transactions._notes) <= 256
    world.store.flush()
    world.transactions.keep_durable()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 300


def test_a_round_looks_at_a_slice_at_a_time_and_passes_over_what_has_ended(world: World) -> None:
    halves = [world.prepare(b"%d" % number) for number in range(100)]
    for half in halves[20:80]:
        world.end(half)
    world.clock.advance(6_000)
    world.transactions.begin_round()
    assert world.transactions.check_some(world.clock(), world.asked.append)
    assert len(world.asked) == 32
    assert not world.transactions.check_some(world.clock(), world.asked.append)


def test_large_messages_are_renewed_fewer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.transactions.transactions._SLICE_SIZE", 1000)
    world = World()
    for _ in range(4):
        world.prepare(bytes(600))
    world.clock.advance(6_000)
    world.transactions.begin_round()
    assert world.transactions.check_some(world.clock(), world.asked.append)
    assert len(world.asked) == 2


def test_half_messages_that_were_deleted_with_their_file_are_passed_over(world: World) -> None:
    for number in range(4):
        world.prepare(bytes(30_000) + b"%d" % number)
    world.store.close()
    world.disk.remove(world.store._config.path / "commitlog" / f"{0:020}")
    world.open()
    lowest = world.store.min_offset(HALF_TOPIC, 0)
    assert lowest > 0
    world.clock.advance(6_000)
    assert [bytes(renewed.half.body[-1:]) for renewed in world.check()] == [b"%d" % n for n in range(lowest, 4)]


def test_a_round_goes_on_behind_half_messages_that_are_deleted_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    halves = [world.prepare(b"%d" % number) for number in range(4)]
    world.clock.advance(6_000)
    message_at = world.store.message_at
    monkeypatch.setattr(world.store, "min_offset", lambda topic, queue_id: 2)
    monkeypatch.setattr(
        world.store, "message_at", lambda topic, queue, offset: None if offset < 2 else message_at(topic, queue, offset)
    )
    assert [bytes(renewed.half.body) for renewed in world.check()] == [b"2", b"3"]
    assert refusal(world, halves[0])[0] == 1


def test_half_messages_behind_one_whose_properties_are_no_text_are_asked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.prepare(b"0")
    world.store.append(Draft(HALF_TOPIC, 0, b"1", b"PGROUP\x01\xff\x02"))
    world.prepare(b"2")
    world.clock.advance(6_000)
    assert [bytes(renewed.half.body) for renewed in world.check()] == [b"0", b"2"]
    assert world.transactions.unreadable_count == 1
    assert "no UTF-8" in caplog.text


def test_the_neighbour_of_a_half_message_that_is_missing_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(2):
        world.prepare(b"%d" % number)
    world.end(world.store.message_at(HALF_TOPIC, 0, 1))
    world.clock.advance(6_000)
    message_at = world.store.message_at
    # As a rebuilt queue has it, whose gaps lead to the next message.
    monkeypatch.setattr(world.store, "message_at", lambda topic, queue, offset: message_at(topic, queue, 1))
    assert world.check() == []
    assert world.bodies() == [b"1"]


def test_a_half_message_that_cannot_be_read_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from orbitmq.errors import CorruptRecord

    world = World()
    for number in range(3):
        world.prepare(b"%d" % number)
    world.clock.advance(6_000)
    message_at = world.store.message_at

    def damaged(topic: str, queue_id: int, offset: int) -> Any:
        if offset == 1:
            raise CorruptRecord(0, "zeros")
        return message_at(topic, queue_id, offset)

    monkeypatch.setattr(world.store, "message_at", damaged)
    assert [bytes(renewed.half.body) for renewed in world.check()] == [b"0", b"2"]
