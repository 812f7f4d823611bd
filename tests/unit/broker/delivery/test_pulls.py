"""Pulls, and the queues in memory that groups read from their first message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.broker.delivery import in_memory_check, pulls
from orbitmq.broker.delivery.in_memory_check import is_in_memory
from orbitmq.broker.delivery.pulls import POSTPONED_MAX_MS, Pulls
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.errors import FileCut, Rejected
from orbitmq.net.dispatch.handlers import Call, Reply
from orbitmq.store import Draft, PropertyTest
from orbitmq.store.queues import reading
from orbitmq.testing import FakeClock
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PullMessage, PullResponse
from orbitmq.wire.messages.record import iter_records
from waiting import until

from ..conftest import pull_header
from ..parts import FakePeer, call, memory_store

FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21


class Rig:
    """Pulls over a store in memory, and a peer that pulls."""

    def __init__(self, **limits: Any) -> None:
        self.clock = FakeClock(1_000)
        self.stats = BrokerStats(0)
        self.store = memory_store(clock=self.clock)
        self.pulls = Pulls(
            self.store,
            self.stats,
            self.clock,
            **{"held_max": 10, "held_size_max": 1 << 30, "count_max": 100, "size_max": 10_000} | limits,
        )
        self.peer = FakePeer()

    def send(self, body: bytes = b"x" * 100, topic: str = "t", queue_id: int = 0, tag_code: int = 0) -> int:
        return self.store.append(Draft(topic, queue_id, body, tag_code=tag_code)).size

    def hold(self, suspend_ms: int = 500, tag_codes: frozenset[int] | None = None, **fields: Any) -> bool:
        return self.pulls.hold(self.call(**fields), tag_codes, suspend_ms)

    def call(self, **fields: Any) -> Call[PullMessage]:
        return call(pull_header(**fields), peer=self.peer, now_ms=self.clock())

    @property
    def answers(self) -> list[tuple[int, list[bytes]]]:
        return [
            (reply.code, [bytes(record.body) for record in iter_records(reply.body)]) for reply in self.peer.replies
        ]


def reads_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the reads of the store from now on, as they come."""
    reads: list[tuple[Any, ...]] = []
    real = rig.store.read

    def read(*key: Any) -> Any:
        reads.append(key)
        return real(*key)

    monkeypatch.setattr(rig.store, "read", read)
    return reads


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_answer_says_what_was_found_and_is_counted(rig: Rig) -> None:
    size = rig.send() + rig.send()
    reply = rig.pulls.read(pull_header(), None)
    assert reply.header == PullResponse(suggest_which_broker_id=0, next_begin_offset=2, min_offset=0, max_offset=2)
    assert (reply.code, reply.remark, len(reply.body)) == (FOUND, None, size)
    assert (rig.stats.found_count, rig.stats.get_count, rig.stats.get_size, rig.stats.miss_count) == (1, 2, size, 0)


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"queue_offset": 1}, NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
        ({"queue_offset": 2}, MOVED, "OFFSET_OVERFLOW_BADLY"),
        ({"queue_offset": -1}, MOVED, "OFFSET_TOO_SMALL"),
        ({"topic": "none"}, NOT_FOUND, "NO_MATCHED_QUEUE"),
        ({"topic": "none", "queue_offset": 1}, MOVED, "NO_MATCHED_QUEUE"),
    ],
)
def test_what_was_not_found_has_a_code_and_is_counted(fields: dict[str, Any], code: int, remark: str, rig: Rig) -> None:
    rig.send()
    reply = rig.pulls.read(pull_header(**fields), None)
    assert (reply.code, reply.remark, reply.body) == (code, remark, b"")
    assert (rig.stats.found_count, rig.stats.miss_count) == (0, 1)


def test_messages_that_the_filter_rejects_are_passed_over(rig: Rig) -> None:
    rig.send(tag_code=1)
    assert rig.pulls.read(pull_header(), frozenset({2})).code == RETRY


def test_the_lesser_of_both_sides_limits_counts() -> None:
    rig = Rig(count_max=3, size_max=1_000)
    size, *_ = [rig.send() for _ in range(5)]
    assert len(rig.pulls.read(pull_header(count_max=2), None).body) == 2 * size
    assert len(rig.pulls.read(pull_header(count_max=9), None).body) == 3 * size
    assert len(rig.pulls.read(pull_header(size_max=size), None).body) == size
    assert len(rig.pulls.read(pull_header(size_max=0), None).body) == 3 * size
    assert len(rig.pulls.read(pull_header(size_max=-1), None).body) == 3 * size
    with pytest.raises(Rejected) as caught:
        rig.pulls.read(pull_header(count_max=0), None)
    assert caught.value.code == 1


def test_a_client_gets_no_more_bytes_than_the_broker_allows() -> None:
    rig = Rig(size_max=300)
    size, *_ = [rig.send() for _ in range(5)]
    assert len(rig.pulls.read(pull_header(size_max=10_000), None).body) == size


async def test_a_burst_answers_each_held_pull_once_and_whole(rig: Rig) -> None:
    assert rig.hold()
    assert rig.hold(topic="other")
    rig.send(b"1")
    rig.send(b"2")
    assert rig.answers == []
    await until(lambda: rig.answers)
    assert (rig.answers, rig.pulls.held_count) == ([(FOUND, [b"1", b"2"])], 1)


def test_over_the_limit_no_request_waits() -> None:
    rig = Rig(held_max=1)
    assert rig.hold()
    assert not rig.hold()


def test_a_pull_is_answered_when_its_time_is_over_and_not_before(rig: Rig) -> None:
    rig.hold(suspend_ms=500)
    rig.pulls.answer_expired(rig.clock.advance(499))
    assert rig.answers == []
    rig.pulls.answer_expired(rig.clock.advance(1))
    assert (rig.answers, rig.pulls.held_count) == ([(NOT_FOUND, [])], 0)


def test_a_pull_whose_wake_up_was_lost_is_answered_later(rig: Rig) -> None:
    rig.send(b"first")
    rig.hold(queue_offset=0)
    rig.hold(queue_offset=1)
    rig.pulls.answer_overtaken()
    assert (rig.answers, rig.pulls.held_count) == ([(FOUND, [b"first"])], 1)


async def test_a_pull_that_finds_nothing_after_all_waits_on(rig: Rig) -> None:
    rig.hold(topic="none")
    rig.pulls.answer_topic("other")
    assert rig.pulls.held_count == 1
    rig.pulls.answer_topic("none")
    assert (rig.answers, rig.pulls.held_count) == ([], 1)


def test_the_pulls_of_a_connection_that_closed_get_no_answer(rig: Rig) -> None:
    rig.hold()
    rig.pulls.drop_connection(rig.peer)
    assert (rig.pulls.held_count, rig.answers) == (0, [])


async def test_the_pulls_of_a_connection_that_closed_are_forgotten_in_turns_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._FORGOTTEN_COUNT", 2)
    rig = Rig()
    for _ in range(5):
        rig.hold()
    rig.pulls.drop_connection(rig.peer)
    assert rig.pulls.held_count == 3
    await asyncio.sleep(0)
    assert rig.pulls.held_count == 1
    await asyncio.sleep(0)
    assert rig.pulls.held_count == 0


async def test_a_broker_that_stops_answers_all_also_those_that_were_woken_just_now(rig: Rig) -> None:
    rig.hold()
    rig.hold(queue_offset=5, suspend_ms=500)
    rig.send(b"last")
    rig.pulls.close()
    assert rig.answers == [(FOUND, [b"last"]), (MOVED, [])]
    assert not rig.hold()
    await asyncio.sleep(0)
    assert len(rig.answers) == 2


def test_a_read_that_fails_is_the_answer_of_its_own_pull_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    rig.hold(queue_id=7)
    rig.hold()
    real = rig.store.read

    def read(topic: str, queue_id: int, *rest: Any) -> Any:
        if queue_id == 7:
            raise RuntimeError("a fault")
        return real(topic, queue_id, *rest)

    monkeypatch.setattr(rig.store, "read", read)
    rig.clock.advance(500)
    rig.pulls.answer_expired(rig.clock())
    assert [code for code, _ in rig.answers] == [1, NOT_FOUND]
    assert rig.peer.replies[0].remark == "RuntimeError: a fault"
    assert "queue 7 failed" in caplog.text


def test_a_held_pull_of_a_queue_that_was_cut_is_told_so_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    rig.hold()

    def read(*_: Any) -> Any:
        raise FileCut("t/0 was cut short from outside")

    monkeypatch.setattr(rig.store, "read", read)
    rig.clock.advance(500)
    rig.pulls.answer_expired(rig.clock())
    assert rig.peer.replies[0].remark == "t/0 was cut short from outside"
    assert caplog.text == ""


async def test_a_message_that_wakes_a_crowd_is_answered_in_turns_and_others_have_the_loop_between() -> None:
    rig = Rig(held_max=1000)
    for _ in range(501):
        assert rig.hold()
    rig.send()
    counts = []
    while len(rig.peer.replies) < 501:
        await asyncio.sleep(0)
        counts.append(len(rig.peer.replies))
    assert [count for count in counts if count] == [200, 400, 501]
    assert rig.pulls.held_count == 0


async def test_pulls_that_end_at_the_same_time_are_answered_in_turns() -> None:
    rig = Rig(held_max=1000)
    for _ in range(201):
        rig.hold()
    rig.pulls.answer_expired(rig.clock.advance(500))
    assert len(rig.peer.replies) == 200
    await until(lambda: len(rig.peer.replies) == 201)


async def test_pulls_that_wait_for_the_same_large_message_share_one_copy() -> None:
    rig = Rig(size_max=1 << 20)
    for _ in range(3):
        rig.hold()
    rig.hold(queue_offset=0, tag_codes=frozenset({0}))
    rig.send(b"x" * 60_000)
    await until(lambda: len(rig.peer.replies) == 4)
    first, *others = [reply.body for reply in rig.peer.replies]
    assert [body is first for body in others] == [True, True, False]
    assert others[-1] == first


async def test_pulls_of_different_queues_share_what_each_queues_crowd_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(held_max=100)
    for number in range(20):
        rig.hold(queue_id=number % 2)
    reads = reads_of(rig, monkeypatch)
    for queue_id in (0, 1):
        rig.send(queue_id=queue_id)
    await until(lambda: len(rig.peer.replies) == 20)
    assert len(reads) == 2
    assert rig.pulls._reads == {}


async def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._SHARED_SIZE_MAX", 300)
    rig = Rig(held_max=100)
    for queue_id in range(4):
        rig.hold(queue_id=queue_id)
    for queue_id in range(4):
        rig.send(queue_id=queue_id)
    await until(lambda: rig.peer.replies)
    assert rig.pulls._reads_size <= 300
    await until(lambda: len(rig.peer.replies) == 4)


async def test_a_client_that_does_not_read_keeps_its_pulls_waiting_until_it_reads() -> None:
    rig, deaf = Rig(), FakePeer()
    deaf.room = -1
    rig.pulls.hold(call(pull_header(), peer=deaf), None, 500)
    rig.hold()
    rig.send(b"1")
    await until(lambda: rig.answers)
    rig.clock.advance(10_000)
    rig.pulls._resume()
    assert (deaf.replies, rig.pulls.held_count) == ([], 1)
    deaf.room = 1 << 30
    await until(lambda: deaf.replies)
    assert rig.pulls.held_count == 0
    assert deaf.replies[0].code == FOUND


async def test_a_large_answer_waits_for_room_only_so_long(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    rig.peer.room = 50
    rig.hold()
    rig.send(b"1" * 100)
    reads = reads_of(rig, monkeypatch)
    await until(lambda: rig.pulls.held.has_ready or reads)
    rig.pulls._resume()
    assert (len(reads), rig.answers) == (1, [])
    rig.clock.advance(POSTPONED_MAX_MS - 1)
    rig.pulls._resume()
    assert rig.answers == []
    rig.clock.advance(1)
    await until(lambda: rig.answers)
    assert rig.answers == [(FOUND, [b"1" * 100])]


async def test_a_pull_that_found_much_waits_for_room_and_then_gets_what_there_is_by_then(rig: Rig) -> None:
    rig.send(b"1")
    rig.peer.room = 0
    assert rig.pulls.wait_for_room(rig.call(), None, 100)
    rig.send(b"2")
    rig.peer.room = 99
    rig.pulls._resume()
    assert rig.answers == []
    rig.peer.room = 1 << 30
    rig.pulls._resume()
    assert rig.answers == [(FOUND, [b"1", b"2"])]


async def test_where_too_many_wait_a_large_answer_does_not() -> None:
    rig = Rig(held_max=1)
    rig.hold()
    rig.peer.room = 0
    assert not rig.pulls.wait_for_room(rig.call(), None, 100)


async def test_a_broker_that_stops_answers_also_whom_it_has_no_room_for(rig: Rig) -> None:
    rig.peer.room = 0
    rig.hold()
    rig.send(b"1")
    rig.pulls._answer_ready()
    assert rig.pulls.held_count == 1
    rig.pulls.close()
    assert [code for code, _ in rig.answers] == [FOUND]


def test_nothing_of_a_request_is_kept_that_its_answer_does_not_need(rig: Rig) -> None:
    command = Command(11, 77, ext_fields={"topic": "t"}, body=b"x" * 1000)
    rig.pulls.hold(Call(pull_header(), command, rig.peer, 0), None, 500)
    (pull,) = rig.pulls.held.close()
    assert pull.call.command == Command(11, 77)


async def test_bytes_end_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._TURN_SIZE", 1)
    rig = Rig()
    for _ in range(3):
        rig.hold()
    rig.send()
    await asyncio.sleep(0)
    assert len(rig.peer.replies) == 1
    await until(lambda: len(rig.peer.replies) == 3)


async def test_a_message_that_comes_between_two_turns_is_missed_by_no_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._TURN_COUNT", 1)
    rig = Rig()
    rig.hold(topic="u", suspend_ms=100)
    rig.hold(topic="u", suspend_ms=500)
    rig.pulls.answer_topic("u")
    rig.send(topic="u")
    await until(lambda: len(rig.answers) == 2)
    assert [code for code, _ in rig.answers] == [FOUND, FOUND]


async def test_what_was_read_for_one_wake_up_is_not_kept_for_the_next(rig: Rig) -> None:
    rig.hold()
    rig.send(b"1")
    await until(lambda: rig.answers)
    rig.send(b"2")
    rig.hold(topic="none")
    rig.hold(queue_offset=0)
    rig.pulls.answer_overtaken()
    assert rig.answers == [(FOUND, [b"1"]), (FOUND, [b"1", b"2"])]


def wants(value: bytes, cost: int = 1) -> PropertyTest:
    return PropertyTest(b"p\x01%s\x02".__mod__(value).__eq__, cost)


def next_offset(reply: Reply) -> int:
    assert isinstance(reply.header, PullResponse)
    return reply.header.next_begin_offset


def store(rig: Rig, *values: bytes, queue_id: int = 0) -> None:
    for value in values:
        rig.store.append(Draft("t", queue_id, value, b"p\x01%s\x02" % value))


async def test_a_pull_with_a_test_gets_what_passes_it(rig: Rig) -> None:
    store(rig, b"no", b"yes", b"no")
    reply = rig.pulls.read(pull_header(), wants(b"yes"))
    assert [bytes(record.body) for record in iter_records(reply.body)] == [b"yes"]
    assert (reply.code, next_offset(reply)) == (FOUND, 3)
    nothing = rig.pulls.read(pull_header(), wants(b"maybe"))
    assert (nothing.code, next_offset(nothing)) == (RETRY, 3)


async def test_a_held_pull_waits_behind_messages_that_fail_its_test_and_reads_none_twice(rig: Rig) -> None:
    asked: list[bytes] = []

    def matches(properties: bytes) -> bool:
        asked.append(properties)
        return properties == b"p\x01yes\x02"

    assert rig.pulls.hold(rig.call(), PropertyTest(matches), 500)
    for _ in range(3):
        store(rig, b"no")
        await asyncio.sleep(0)
    assert (rig.answers, rig.pulls.held_count) == ([], 1)
    store(rig, b"yes")
    await until(lambda: rig.answers)
    assert rig.answers == [(FOUND, [b"yes"])]
    assert next_offset(rig.peer.replies[0]) == 4
    assert asked == [b"p\x01no\x02"] * 3 + [b"p\x01yes\x02"]


async def test_a_pull_whose_time_is_over_hears_behind_what_it_waited(rig: Rig) -> None:
    rig.pulls.hold(rig.call(), wants(b"yes"), 500)
    store(rig, b"no", b"no")
    await asyncio.sleep(0)
    assert rig.pulls.held_count == 1
    rig.pulls.answer_overtaken()
    assert rig.pulls.held_count == 1
    rig.pulls.answer_expired(rig.clock.advance(500))
    assert rig.answers == [(NOT_FOUND, [])]
    assert next_offset(rig.peer.replies[0]) == 2


async def test_a_woken_pull_that_is_not_through_is_answered_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORK_MAX", 2)
    rig = Rig()
    rig.pulls.hold(rig.call(), wants(b"yes"), 500)
    store(rig, b"no", b"no", b"no")
    await until(lambda: rig.answers)
    assert rig.answers == [(RETRY, [])]
    assert next_offset(rig.peer.replies[0]) == 2


async def test_pulls_with_tests_leave_the_loop_to_others_after_so_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulls, "_TURN_WORK", 8)
    rig = Rig(held_max=100)
    store(rig, *[b"no"] * 5)
    test = wants(b"yes", cost=1)
    assert not rig.pulls.is_busy
    for _ in range(2):
        rig.pulls.read(pull_header(), test)
    assert rig.pulls.is_busy
    for _ in range(6):
        assert rig.pulls.enqueue(rig.call(), test, 0)
    counts = []
    while len(rig.peer.replies) < 6:
        await asyncio.sleep(0)
        counts.append(len(rig.peer.replies))
    # The first turn's work was done before; then two pulls a turn.
    assert len(set(counts) - {0}) >= 3
    assert {reply.code for reply in rig.peer.replies} == {RETRY}
    await asyncio.sleep(0)
    assert not rig.pulls.is_busy


async def test_no_more_pulls_line_up_than_may_wait() -> None:
    rig = Rig(held_max=200)
    test = wants(b"yes")
    for _ in range(150):  # three quarters: they are of one connection
        assert rig.pulls.enqueue(rig.call(), test, 0)
    assert not rig.pulls.enqueue(rig.call(), test, 0)
    rig.pulls.close()
    assert len(rig.peer.replies) == 150


async def test_held_pulls_with_the_same_test_share_what_one_of_them_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    test = wants(b"yes")
    reads: list[Any] = []
    real = rig.store.read_matching

    def read_matching(*where: Any) -> Any:
        reads.append(where)
        return real(*where)

    monkeypatch.setattr(rig.store, "read_matching", read_matching)
    for _ in range(3):
        rig.pulls.hold(rig.call(), test, 500)
    store(rig, b"yes")
    await until(lambda: len(rig.answers) == 3)
    assert rig.answers == [(FOUND, [b"yes"])] * 3
    assert len(reads) == 1


def test_a_queue_is_in_memory_while_its_first_message_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    assert is_in_memory(store, "t", 0)
    result = store.append(Draft("t", 0, b"x"))
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", result.size)
    assert is_in_memory(store, "t", 0)
    store.append(Draft("u", 0, b"x"))
    assert not is_in_memory(store, "t", 0)
