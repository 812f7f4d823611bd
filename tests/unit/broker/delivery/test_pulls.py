"""Pulls, and the queues in memory that groups read from their first message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cases import each_case
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


class Harness:
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


def reads_of(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the reads of the store from now on, as they come."""
    reads: list[tuple[Any, ...]] = []
    real = harness.store.read

    def read(*key: Any) -> Any:
        reads.append(key)
        return real(*key)

    monkeypatch.setattr(harness.store, "read", read)
    return reads


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_an_answer_says_what_was_found_and_is_counted(harness: Harness) -> None:
    size = harness.send() + harness.send()
    reply = harness.pulls.read(pull_header(), None)
    assert reply.header == PullResponse(suggest_which_broker_id=0, next_begin_offset=2, min_offset=0, max_offset=2)
    assert (reply.code, reply.remark, len(reply.body)) == (FOUND, None, size)
    assert (harness.stats.found_count, harness.stats.get_count, harness.stats.get_size, harness.stats.miss_count) == (
        1,
        2,
        size,
        0,
    )


@each_case(
    ({"queue_offset": 1}, NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    ({"queue_offset": 2}, MOVED, "OFFSET_OVERFLOW_BADLY"),
    ({"queue_offset": -1}, MOVED, "OFFSET_TOO_SMALL"),
    ({"topic": "none"}, NOT_FOUND, "NO_MATCHED_QUEUE"),
    ({"topic": "none", "queue_offset": 1}, MOVED, "NO_MATCHED_QUEUE"),
)
def test_what_was_not_found_has_a_code_and_is_counted(
    fields: dict[str, Any], code: int, remark: str, harness: Harness
) -> None:
    if not harness.store.topics():
        harness.send()
    missed = harness.stats.miss_count
    reply = harness.pulls.read(pull_header(**fields), None)
    assert (reply.code, reply.remark, reply.body) == (code, remark, b"")
    assert (harness.stats.found_count, harness.stats.miss_count) == (0, missed + 1)


def test_messages_that_the_filter_rejects_are_passed_over(harness: Harness) -> None:
    harness.send(tag_code=1)
    assert harness.pulls.read(pull_header(), frozenset({2})).code == RETRY


def test_the_lesser_of_both_sides_limits_counts() -> None:
    harness = Harness(count_max=3, size_max=1_000)
    size, *_ = [harness.send() for _ in range(5)]
    assert len(harness.pulls.read(pull_header(count_max=2), None).body) == 2 * size
    assert len(harness.pulls.read(pull_header(count_max=9), None).body) == 3 * size
    assert len(harness.pulls.read(pull_header(size_max=size), None).body) == size
    assert len(harness.pulls.read(pull_header(size_max=0), None).body) == 3 * size
    assert len(harness.pulls.read(pull_header(size_max=-1), None).body) == 3 * size
    with pytest.raises(Rejected) as caught:
        harness.pulls.read(pull_header(count_max=0), None)
    assert caught.value.code == 1


def test_a_client_gets_no_more_bytes_than_the_broker_allows() -> None:
    harness = Harness(size_max=300)
    size, *_ = [harness.send() for _ in range(5)]
    assert len(harness.pulls.read(pull_header(size_max=10_000), None).body) == size


async def test_a_burst_answers_each_held_pull_once_and_whole(harness: Harness) -> None:
    assert harness.hold()
    assert harness.hold(topic="other")
    harness.send(b"1")
    harness.send(b"2")
    assert harness.answers == []
    await until(lambda: harness.answers)
    assert (harness.answers, harness.pulls.held_count) == ([(FOUND, [b"1", b"2"])], 1)


def test_over_the_limit_no_request_waits() -> None:
    harness = Harness(held_max=1)
    assert harness.hold()
    assert not harness.hold()


def test_a_pull_is_answered_when_its_time_is_over_and_not_before(harness: Harness) -> None:
    harness.hold(suspend_ms=500)
    harness.pulls.answer_expired(harness.clock.advance(499))
    assert harness.answers == []
    harness.pulls.answer_expired(harness.clock.advance(1))
    assert (harness.answers, harness.pulls.held_count) == ([(NOT_FOUND, [])], 0)


def test_a_pull_whose_wake_up_was_lost_is_answered_later(harness: Harness) -> None:
    harness.send(b"first")
    harness.hold(queue_offset=0)
    harness.hold(queue_offset=1)
    harness.pulls.answer_overtaken()
    assert (harness.answers, harness.pulls.held_count) == ([(FOUND, [b"first"])], 1)


async def test_a_pull_that_finds_nothing_after_all_waits_on(harness: Harness) -> None:
    harness.hold(topic="none")
    harness.pulls.answer_topic("other")
    assert harness.pulls.held_count == 1
    harness.pulls.answer_topic("none")
    assert (harness.answers, harness.pulls.held_count) == ([], 1)


def test_the_pulls_of_a_connection_that_closed_get_no_answer(harness: Harness) -> None:
    harness.hold()
    harness.pulls.drop_connection(harness.peer)
    assert (harness.pulls.held_count, harness.answers) == (0, [])


async def test_the_pulls_of_a_connection_that_closed_are_forgotten_in_turns_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._FORGOTTEN_COUNT", 2)
    harness = Harness()
    for _ in range(5):
        harness.hold()
    harness.pulls.drop_connection(harness.peer)
    assert harness.pulls.held_count == 3
    await asyncio.sleep(0)
    assert harness.pulls.held_count == 1
    await asyncio.sleep(0)
    assert harness.pulls.held_count == 0


async def test_a_broker_that_stops_answers_all_also_those_that_were_woken_just_now(harness: Harness) -> None:
    harness.hold()
    harness.hold(queue_offset=5, suspend_ms=500)
    harness.send(b"last")
    harness.pulls.close()
    assert harness.answers == [(FOUND, [b"last"]), (MOVED, [])]
    assert not harness.hold()
    await asyncio.sleep(0)
    assert len(harness.answers) == 2


def test_a_read_that_fails_is_the_answer_of_its_own_pull_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harness: Harness
) -> None:
    harness.hold(queue_id=7)
    harness.hold()
    real = harness.store.read

    def read(topic: str, queue_id: int, *rest: Any) -> Any:
        if queue_id == 7:
            raise RuntimeError("a fault")
        return real(topic, queue_id, *rest)

    monkeypatch.setattr(harness.store, "read", read)
    harness.clock.advance(500)
    harness.pulls.answer_expired(harness.clock())
    assert [code for code, _ in harness.answers] == [1, NOT_FOUND]
    assert harness.peer.replies[0].remark == "RuntimeError: a fault"
    assert "queue 7 failed" in caplog.text


def test_a_held_pull_of_a_queue_that_was_cut_is_told_so_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harness: Harness
) -> None:
    harness.hold()

    def read(*_: Any) -> Any:
        raise FileCut("t/0 was cut short from outside")

    monkeypatch.setattr(harness.store, "read", read)
    harness.clock.advance(500)
    harness.pulls.answer_expired(harness.clock())
    assert harness.peer.replies[0].remark == "t/0 was cut short from outside"
    assert caplog.text == ""


async def test_a_message_that_wakes_a_crowd_is_answered_in_turns_and_others_have_the_loop_between() -> None:
    harness = Harness(held_max=1000)
    for _ in range(501):
        assert harness.hold()
    harness.send()
    counts = []
    while len(harness.peer.replies) < 501:
        await asyncio.sleep(0)
        counts.append(len(harness.peer.replies))
    assert [count for count in counts if count] == [200, 400, 501]
    assert harness.pulls.held_count == 0


async def test_pulls_that_end_at_the_same_time_are_answered_in_turns() -> None:
    harness = Harness(held_max=1000)
    for _ in range(201):
        harness.hold()
    harness.pulls.answer_expired(harness.clock.advance(500))
    assert len(harness.peer.replies) == 200
    await until(lambda: len(harness.peer.replies) == 201)


async def test_pulls_that_wait_for_the_same_large_message_share_one_copy() -> None:
    harness = Harness(size_max=1 << 20)
    for _ in range(3):
        harness.hold()
    harness.hold(queue_offset=0, tag_codes=frozenset({0}))
    harness.send(b"x" * 60_000)
    await until(lambda: len(harness.peer.replies) == 4)
    first, *others = [reply.body for reply in harness.peer.replies]
    assert [body is first for body in others] == [True, True, False]
    assert others[-1] == first


async def test_pulls_of_different_queues_share_what_each_queues_crowd_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(held_max=100)
    for number in range(20):
        harness.hold(queue_id=number % 2)
    reads = reads_of(harness, monkeypatch)
    for queue_id in (0, 1):
        harness.send(queue_id=queue_id)
    await until(lambda: len(harness.peer.replies) == 20)
    assert len(reads) == 2
    assert harness.pulls._reads == {}


async def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._SHARED_SIZE_MAX", 300)
    harness = Harness(held_max=100)
    for queue_id in range(4):
        harness.hold(queue_id=queue_id)
    for queue_id in range(4):
        harness.send(queue_id=queue_id)
    await until(lambda: harness.peer.replies)
    assert harness.pulls._reads_size <= 300
    await until(lambda: len(harness.peer.replies) == 4)


async def test_a_client_that_does_not_read_keeps_its_pulls_waiting_until_it_reads() -> None:
    harness, deaf = Harness(), FakePeer()
    deaf.room = -1
    harness.pulls.hold(call(pull_header(), peer=deaf), None, 500)
    harness.hold()
    harness.send(b"1")
    await until(lambda: harness.answers)
    harness.clock.advance(10_000)
    harness.pulls._resume()
    assert (deaf.replies, harness.pulls.held_count) == ([], 1)
    deaf.room = 1 << 30
    await until(lambda: deaf.replies)
    assert harness.pulls.held_count == 0
    assert deaf.replies[0].code == FOUND


async def test_a_large_answer_waits_for_room_only_so_long(monkeypatch: pytest.MonkeyPatch, harness: Harness) -> None:
    harness.peer.room = 50
    harness.hold()
    harness.send(b"1" * 100)
    reads = reads_of(harness, monkeypatch)
    await until(lambda: harness.pulls.held.has_ready or reads)
    harness.pulls._resume()
    assert (len(reads), harness.answers) == (1, [])
    harness.clock.advance(POSTPONED_MAX_MS - 1)
    harness.pulls._resume()
    assert harness.answers == []
    harness.clock.advance(1)
    await until(lambda: harness.answers)
    assert harness.answers == [(FOUND, [b"1" * 100])]


async def test_a_pull_that_found_much_waits_for_room_and_then_gets_what_there_is_by_then(harness: Harness) -> None:
    harness.send(b"1")
    harness.peer.room = 0
    assert harness.pulls.wait_for_room(harness.call(), None, 100)
    harness.send(b"2")
    harness.peer.room = 99
    harness.pulls._resume()
    assert harness.answers == []
    harness.peer.room = 1 << 30
    harness.pulls._resume()
    assert harness.answers == [(FOUND, [b"1", b"2"])]


async def test_where_too_many_wait_a_large_answer_does_not() -> None:
    harness = Harness(held_max=1)
    harness.hold()
    harness.peer.room = 0
    assert not harness.pulls.wait_for_room(harness.call(), None, 100)


async def test_a_broker_that_stops_answers_also_whom_it_has_no_room_for(harness: Harness) -> None:
    harness.peer.room = 0
    harness.hold()
    harness.send(b"1")
    harness.pulls._answer_ready()
    assert harness.pulls.held_count == 1
    harness.pulls.close()
    assert [code for code, _ in harness.answers] == [FOUND]


def test_nothing_of_a_request_is_kept_that_its_answer_does_not_need(harness: Harness) -> None:
    command = Command(11, 77, ext_fields={"topic": "t"}, body=b"x" * 1000)
    harness.pulls.hold(Call(pull_header(), command, harness.peer, 0), None, 500)
    (pull,) = harness.pulls.held.close()
    assert pull.call.command == Command(11, 77)


async def test_bytes_end_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._TURN_SIZE", 1)
    harness = Harness()
    for _ in range(3):
        harness.hold()
    harness.send()
    await asyncio.sleep(0)
    assert len(harness.peer.replies) == 1
    await until(lambda: len(harness.peer.replies) == 3)


async def test_a_message_that_comes_between_two_turns_is_missed_by_no_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.delivery.pulls._TURN_COUNT", 1)
    harness = Harness()
    harness.hold(topic="u", suspend_ms=100)
    harness.hold(topic="u", suspend_ms=500)
    harness.pulls.answer_topic("u")
    harness.send(topic="u")
    await until(lambda: len(harness.answers) == 2)
    assert [code for code, _ in harness.answers] == [FOUND, FOUND]


async def test_what_was_read_for_one_wake_up_is_not_kept_for_the_next(harness: Harness) -> None:
    harness.hold()
    harness.send(b"1")
    await until(lambda: harness.answers)
    harness.send(b"2")
    harness.hold(topic="none")
    harness.hold(queue_offset=0)
    harness.pulls.answer_overtaken()
    assert harness.answers == [(FOUND, [b"1"]), (FOUND, [b"1", b"2"])]


def wants(value: bytes, cost: int = 1) -> PropertyTest:
    return PropertyTest(b"p\x01%s\x02".__mod__(value).__eq__, cost)


def next_offset(reply: Reply) -> int:
    assert isinstance(reply.header, PullResponse)
    return reply.header.next_begin_offset


def store(harness: Harness, *values: bytes, queue_id: int = 0) -> None:
    for value in values:
        harness.store.append(Draft("t", queue_id, value, b"p\x01%s\x02" % value))


async def test_a_pull_with_a_test_gets_what_passes_it(harness: Harness) -> None:
    store(harness, b"no", b"yes", b"no")
    reply = harness.pulls.read(pull_header(), wants(b"yes"))
    assert [bytes(record.body) for record in iter_records(reply.body)] == [b"yes"]
    assert (reply.code, next_offset(reply)) == (FOUND, 3)
    nothing = harness.pulls.read(pull_header(), wants(b"maybe"))
    assert (nothing.code, next_offset(nothing)) == (RETRY, 3)


async def test_a_held_pull_waits_behind_messages_that_fail_its_test_and_reads_none_twice(harness: Harness) -> None:
    asked: list[bytes] = []

    def matches(properties: bytes) -> bool:
        asked.append(properties)
        return properties == b"p\x01yes\x02"

    assert harness.pulls.hold(harness.call(), PropertyTest(matches), 500)
    for _ in range(3):
        store(harness, b"no")
        await asyncio.sleep(0)
    assert (harness.answers, harness.pulls.held_count) == ([], 1)
    store(harness, b"yes")
    await until(lambda: harness.answers)
    assert harness.answers == [(FOUND, [b"yes"])]
    assert next_offset(harness.peer.replies[0]) == 4
    assert asked == [b"p\x01no\x02"] * 3 + [b"p\x01yes\x02"]


async def test_a_pull_whose_time_is_over_hears_behind_what_it_waited(harness: Harness) -> None:
    harness.pulls.hold(harness.call(), wants(b"yes"), 500)
    store(harness, b"no", b"no")
    await asyncio.sleep(0)
    assert harness.pulls.held_count == 1
    harness.pulls.answer_overtaken()
    assert harness.pulls.held_count == 1
    harness.pulls.answer_expired(harness.clock.advance(500))
    assert harness.answers == [(NOT_FOUND, [])]
    assert next_offset(harness.peer.replies[0]) == 2


async def test_a_woken_pull_that_is_not_through_is_answered_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORK_MAX", 2)
    harness = Harness()
    harness.pulls.hold(harness.call(), wants(b"yes"), 500)
    store(harness, b"no", b"no", b"no")
    await until(lambda: harness.answers)
    assert harness.answers == [(RETRY, [])]
    assert next_offset(harness.peer.replies[0]) == 2


async def test_pulls_with_tests_leave_the_loop_to_others_after_so_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulls, "_TURN_WORK", 8)
    harness = Harness(held_max=100)
    store(harness, *[b"no"] * 5)
    test = wants(b"yes", cost=1)
    assert not harness.pulls.is_busy
    for _ in range(2):
        harness.pulls.read(pull_header(), test)
    assert harness.pulls.is_busy
    for _ in range(6):
        assert harness.pulls.enqueue(harness.call(), test, 0)
    counts = []
    while len(harness.peer.replies) < 6:
        await asyncio.sleep(0)
        counts.append(len(harness.peer.replies))
    # The first turn's work was done before; then two pulls a turn.
    assert len(set(counts) - {0}) >= 3
    assert {reply.code for reply in harness.peer.replies} == {RETRY}
    await asyncio.sleep(0)
    assert not harness.pulls.is_busy


async def test_no_more_pulls_line_up_than_may_wait() -> None:
    harness = Harness(held_max=200)
    test = wants(b"yes")
    for _ in range(150):  # three quarters: they are of one connection
        assert harness.pulls.enqueue(harness.call(), test, 0)
    assert not harness.pulls.enqueue(harness.call(), test, 0)
    harness.pulls.close()
    assert len(harness.peer.replies) == 150


async def test_held_pulls_with_the_same_test_share_what_one_of_them_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    test = wants(b"yes")
    reads: list[Any] = []
    real = harness.store.read_matching

    def read_matching(*where: Any) -> Any:
        reads.append(where)
        return real(*where)

    monkeypatch.setattr(harness.store, "read_matching", read_matching)
    for _ in range(3):
        harness.pulls.hold(harness.call(), test, 500)
    store(harness, b"yes")
    await until(lambda: len(harness.answers) == 3)
    assert harness.answers == [(FOUND, [b"yes"])] * 3
    assert len(reads) == 1


def test_a_queue_is_in_memory_while_its_first_message_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    assert is_in_memory(store, "t", 0)
    result = store.append(Draft("t", 0, b"x"))
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", result.size)
    assert is_in_memory(store, "t", 0)
    store.append(Draft("u", 0, b"x"))
    assert not is_in_memory(store, "t", 0)
