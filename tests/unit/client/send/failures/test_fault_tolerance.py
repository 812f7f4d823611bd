import pytest

from orbitmq.client.send.failures.fault_tolerance import AVOID_MS, LATENCY_MS, FaultTolerance, avoidance_ms


@pytest.mark.parametrize(("latency_ms", "avoid_ms"), list(zip(LATENCY_MS, AVOID_MS, strict=True)))
def test_each_step_of_the_table_begins_at_its_latency(latency_ms, avoid_ms):
    assert avoidance_ms(latency_ms) == avoid_ms
    assert avoidance_ms(latency_ms - 1) <= avoid_ms


def test_a_fast_answer_is_no_reason_to_avoid_anybody():
    assert avoidance_ms(0) == 0
    assert avoidance_ms(549) == 0


def test_a_failed_broker_is_avoided_for_ten_seconds():
    faults = FaultTolerance()
    faults.record_failure("a", now_ms=1_000)

    assert faults.avoided(1_000) == {"a"}
    assert faults.avoided(10_999) == {"a"}
    assert faults.avoided(11_000) == frozenset()


def test_a_fast_answer_ends_the_avoidance_at_once():
    faults = FaultTolerance()
    faults.record_failure("a", now_ms=0)
    faults.record_answer("b", 3, now_ms=1)
    faults.record_answer("a", 3, now_ms=1)

    assert faults.avoided(1) == frozenset()


def test_nothing_is_avoided_before_anything_happened():
    assert FaultTolerance().avoided(0) == frozenset()


def test_of_all_avoided_brokers_the_one_that_comes_back_first_is_taken():
    faults = FaultTolerance()
    faults.record_answer("a", 15_000, now_ms=0)
    faults.record_answer("b", 600, now_ms=0)

    assert faults.soonest(["a", "b"]) == "b"
    assert faults.soonest(["a", "c"]) == "c"
