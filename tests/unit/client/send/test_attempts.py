"""Attempts of a send, and brokers that are avoided after failures."""

from itertools import pairwise, product

import pytest

from cases import each_case
from orbitmq.client.send.attempts import AVOID_MS, LATENCY_MS, PAUSE_MAX_MS, Attempts, FaultTolerance, avoidance_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionBroken, ConnectionFailed, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.testing import FakeClock

AWAY = ConnectionFailed("refused")
BUSY = RemoteRefused(ResponseCode.SYSTEM_BUSY, None, "a")
STARTING = RemoteRefused(ResponseCode.SERVICE_NOT_AVAILABLE, None, "a")
MOVED = RemoteRefused(ResponseCode.NOT_LEADER_FOR_QUEUE, None, "a")
LEAVING = RemoteRefused(ResponseCode.GO_AWAY, None, "a")
NO_ROUTE = RouteNotFound("no broker")
BROKEN = RemoteRefused(ResponseCode.SYSTEM_ERROR, None, "a")
CUT = ConnectionBroken("broke before the answer came")
SILENT = RequestTimeout("no answer")


def attempts_until(back_ms, *, error=AWAY, retries=2, timeout_ms=25_000):
    """Let a send try a broker that is away until it is back; return when it tried, in ms, and whether it may go on."""
    clock = FakeClock(0)
    attempts = Attempts(retries, timeout_ms / 1000)
    tried = []
    while attempts.goes_on and attempts.left_s(clock() / 1000):
        tried.append(clock())
        if clock() >= back_ms:
            return tried, True
        attempts.record(error, "a")
        clock.advance(round(attempts.pause_s("a", clock() / 1000) * 1000))
    return tried, False


@each_case(*product([AWAY, BUSY, STARTING, LEAVING, MOVED, NO_ROUTE], [1, 201, 6_000, 17_345, 24_000]))
def test_a_broker_that_was_away_however_long_is_tried_within_a_second_of_its_return(error, back_ms):
    tried, is_back = attempts_until(back_ms, error=error)
    assert is_back
    assert tried[-1] - back_ms <= PAUSE_MAX_MS


def test_pauses_grow_up_to_a_second_and_the_time_is_used_up():
    tried, is_back = attempts_until(10**9, timeout_ms=5_300)
    assert not is_back
    assert [later - earlier for earlier, later in pairwise(tried)] == [200, 800, 1_000, 1_000, 1_000, 1_000]


@each_case(*product([BROKEN, SILENT, CUT], [0, 1, 2, 5]))
def test_what_another_attempt_may_double_or_not_mend_is_tried_as_often_as_is_allowed(error, retries):
    tried, _ = attempts_until(10**9, error=error, retries=retries)
    assert len(tried) == retries + 1


@each_case(AWAY, BUSY, STARTING, NO_ROUTE)
def test_without_retries_there_is_one_attempt(error):
    assert attempts_until(10**9, error=error, retries=0) == ([0], False)


def test_only_brokers_that_failed_are_paused_for():
    attempts = Attempts(2, 10.0)
    attempts.record(AWAY, "a")
    attempts.record(NO_ROUTE, None)
    assert attempts.failed == {"a"}
    assert attempts.causes == [AWAY, NO_ROUTE]
    assert attempts.pause_s("b", 0.0) == 0
    assert attempts.pause_s("a", 0.0) == attempts.next_pause_s(0.0) == 0.8


@each_case((9.9, 0.1), (10.0, 0.0), (11.0, 0.0))
def test_no_pause_is_longer_than_what_is_left(now_s, pause_s):
    attempts = Attempts(2, 10.0)
    attempts.record(AWAY, "a")
    assert attempts.pause_s("a", now_s) == pytest.approx(pause_s)
    assert attempts.left_s(now_s) == pytest.approx(pause_s)


def test_brokers_whose_connection_broke_behind_the_message_are_known():
    attempts = Attempts(2, 10.0)
    attempts.record(AWAY, "a")
    attempts.record(CUT, "b")
    attempts.record(CUT, None)
    assert attempts.cut == {"b"}


@each_case(*list(zip(LATENCY_MS, AVOID_MS, strict=True)))
def test_each_step_of_the_table_begins_at_its_latency(latency_ms, avoid_ms):
    assert avoidance_ms(latency_ms) == avoid_ms
    assert avoidance_ms(latency_ms - 1) <= avoid_ms


def test_a_fast_answer_is_no_reason_to_avoid_a_broker():
    assert avoidance_ms(0) == 0
    assert avoidance_ms(549) == 0


def test_a_failed_broker_is_avoided_for_ten_seconds():
    faults = FaultTolerance()
    faults.record_failure("a", now_ms=1_000)

    assert faults.avoided(1_000) == {"a"}
    assert faults.avoided(10_999) == {"a"}
    assert faults.avoided(11_000) == frozenset()


def test_a_fast_answer_ends_the_avoidance_immediately():
    faults = FaultTolerance()
    faults.record_failure("a", now_ms=0)
    faults.record_answer("b", 3, now_ms=1)
    faults.record_answer("a", 3, now_ms=1)

    assert faults.avoided(1) == frozenset()


def test_of_all_avoided_brokers_the_one_that_comes_back_first_is_taken():
    faults = FaultTolerance()
    faults.record_answer("a", 15_000, now_ms=0)
    faults.record_answer("b", 600, now_ms=0)

    assert faults.soonest(["a", "b"]) == "b"
    assert faults.soonest(["a", "c"]) == "c"
