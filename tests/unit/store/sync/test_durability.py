"""Group commit: who may be answered now."""

import pytest

from orbitmq.store.sync.durability import Durability


def test_what_is_durable_need_not_wait():
    assert Durability(100).wait(100, print) is True


def test_waiters_are_released_in_the_order_of_the_log_then_of_arrival():
    durability = Durability()
    waiters = [lambda _ok: None for _ in range(4)]
    for waiter, position in zip(waiters, (30, 10, 20, 20), strict=True):
        assert durability.wait(position, waiter) is False
    assert durability.advance(9) == []
    assert durability.advance(20) == [waiters[1], waiters[2], waiters[3]]
    assert len(durability) == 1
    assert durability.advance(1000) == [waiters[0]]
    assert durability.durable == 1000


def test_durability_never_goes_back():
    with pytest.raises(AssertionError, match="never goes back"):
        Durability(10).advance(9)


def test_a_failed_sync_answers_all_waiters_and_ends_it_upstream_2706():
    durability = Durability()
    first, second = (lambda _ok: None), (lambda _ok: None)
    durability.wait(20, first)
    durability.wait(10, second)
    assert durability.fail() == [second, first]
    with pytest.raises(AssertionError, match="proves nothing"):
        durability.advance(30)
    with pytest.raises(AssertionError, match="no sync comes back"):
        durability.wait(30, first)
    assert durability.durable == 0


def test_who_came_before_a_moment_and_still_waits_has_expired_in_the_order_of_the_log():
    durability = Durability()
    waiters = [lambda _ok: None for _ in range(4)]
    for waiter, position in zip(waiters[:3], (30, 10, 20), strict=True):
        durability.wait(position, waiter)
    moment = durability.arrived_count
    durability.wait(5, waiters[3])
    durability.advance(1)
    assert durability.expire(0) == []
    assert durability.expire(moment) == [waiters[1], waiters[2], waiters[0]]
    assert durability.expire(moment) == []
    assert durability.advance(100) == [waiters[3]]
