"""Heartbeats: who is alive, who is lost, and when that can be said."""

import pytest

from orbitmq.controller.liveness import (
    HEARTBEAT_TIMEOUT_MAX_MS,
    HEARTBEAT_TIMEOUT_MIN_MS,
    HEARTBEAT_TIMEOUT_MS,
    BrokerKey,
    Liveness,
)
from orbitmq.controller.values import Standing
from unit.controller.groups import group

ORDERS = group([1, 2])
LATER = HEARTBEAT_TIMEOUT_MS


def key(broker_id, name="orders"):
    return BrokerKey("c", name, broker_id)


def heartbeat_received(heard, broker_id, connection_id=1, now_ms=0, **values):
    timeout_ms = values.pop("timeout_ms", None)
    return heard.heartbeat_received(key(broker_id), Standing(**values), connection_id, now_ms, timeout_ms)


def alive(heard, now_ms):
    return sorted(heard.living(ORDERS, now_ms).alive)


@pytest.fixture
def heard() -> Liveness:
    return Liveness(0)


def test_a_broker_is_alive_until_its_own_time_is_over(heard):
    heartbeat_received(heard, 1, timeout_ms=1_000)
    heartbeat_received(heard, 2)
    assert alive(heard, 1_000) == [1, 2]
    assert heard.expire(1_000) == []
    assert alive(heard, 1_001) == [2], "it is not alive before a scan has come by, either"
    assert heard.expire(1_001) == [(key(1), 1)]
    assert heard.expire(1_001) == []
    assert heard.count == 1


def test_a_heartbeat_renews_and_tells_what_is_so_now(heard):
    assert heartbeat_received(heard, 1, epoch=2, max_offset=100)
    assert not heartbeat_received(heard, 1, now_ms=9_000, epoch=2, max_offset=40, priority=3)
    assert heard.living(ORDERS, 19_000).alive == {1: Standing(2, 40, 3)}, "a log that was cut is shorter"


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"),
    [(-1, HEARTBEAT_TIMEOUT_MIN_MS), (0, HEARTBEAT_TIMEOUT_MIN_MS), (2**62, HEARTBEAT_TIMEOUT_MAX_MS)],
)
def test_the_time_that_a_broker_asks_for_has_bounds(asked_ms, granted_ms, heard):
    heartbeat_received(heard, 1, timeout_ms=asked_ms)
    assert heard.expire(granted_ms) == []
    assert heard.expire(granted_ms + 1) == [(key(1), 1)]


def test_a_closed_connection_loses_all_of_its_brokers_immediately(heard):
    heartbeat_received(heard, 1, connection_id=7)
    heard.heartbeat_received(key(5, "other"), Standing(), 7, 0)
    heartbeat_received(heard, 2, connection_id=8)
    assert sorted(heard.disconnect(7)) == sorted([key(1), key(5, "other")])
    assert alive(heard, 0) == [2]
    assert heard.disconnect(7) == []


def test_a_broker_that_has_connected_again_is_not_lost_with_its_old_connection(heard):
    heartbeat_received(heard, 1, connection_id=7)
    heartbeat_received(heard, 1, connection_id=8)
    assert heard.disconnect(7) == []
    assert heard.disconnect(8) == [key(1)]


def test_a_controller_that_has_just_started_does_not_count_silent_members_as_lost(heard):
    heartbeat_received(heard, 2)
    assert heard.living(ORDERS, LATER - 1).unheard == {1}
    assert heard.living(ORDERS, LATER).unheard == frozenset()


@pytest.mark.parametrize("how", ["closed", "silent"])
def test_a_broker_that_was_lost_is_not_unheard(how, heard):
    heartbeat_received(heard, 1, connection_id=7, timeout_ms=500)
    if how == "closed":
        heard.disconnect(7)
    else:
        heard.expire(501)
    assert heard.living(ORDERS, 600).unheard == {2}
    heartbeat_received(heard, 1, now_ms=700)
    assert alive(heard, 700) == [1]


def test_a_silent_broker_that_was_not_expired_yet_is_neither_alive_nor_unheard(heard):
    heartbeat_received(heard, 1, timeout_ms=500)
    living = heard.living(group([1]), 501)
    assert (dict(living.alive), living.unheard) == ({}, frozenset())


def test_a_broker_of_another_cluster_is_another_broker(heard):
    heard.heartbeat_received(BrokerKey("elsewhere", "orders", 1), Standing(), 1, 0)
    assert alive(heard, 0) == []


def test_a_broker_that_was_cleaned_away_is_forgotten(heard):
    heartbeat_received(heard, 1)
    heard.forget(key(1))
    heard.forget(key(2))
    assert heard.count == 0
