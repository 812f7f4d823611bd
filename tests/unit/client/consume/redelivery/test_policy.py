from dataclasses import replace

import pytest

from orbitmq.client.consume.redelivery.policy import RedeliveryPolicy
from unit.client.messages import stored


def tried(times):
    return replace(stored(0), reconsume_times=times)


@pytest.mark.parametrize(
    ("attempt", "delay_ms"), [(1, 1_000), (2, 2_000), (5, 16_000), (6, 30_000), (99, 30_000), (10**9, 30_000)]
)
def test_the_pause_between_deliveries_doubles_up_to_half_a_minute(attempt, delay_ms):
    assert RedeliveryPolicy().delay_ms(tried(attempt - 1)) == delay_ms


def test_a_longer_first_pause_is_not_shortened():
    assert RedeliveryPolicy(retry_delay_ms=60_000).delay_ms(tried(2)) == 60_000


@pytest.mark.parametrize(("attempt", "is_last"), [(1, False), (15, False), (16, True), (17, True)])
def test_the_sixteenth_attempt_is_the_last_one(attempt, is_last):
    assert RedeliveryPolicy().is_last(tried(attempt - 1)) is is_last


def test_brokers_are_told_of_the_attempts_after_the_first():
    assert RedeliveryPolicy(max_attempts=3).max_reconsume_times == 2
    assert RedeliveryPolicy(max_attempts=1).is_last(tried(0))


def test_without_a_limit_no_attempt_is_the_last():
    policy = RedeliveryPolicy(max_attempts=None)
    assert not policy.is_last(tried(10**6))
    assert policy.max_reconsume_times == 2**31 - 1
