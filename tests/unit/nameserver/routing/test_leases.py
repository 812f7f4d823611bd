"""Claims about leases and the connections that own them."""

from __future__ import annotations

import pytest

from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing.leases import Lease, Leases
from orbitmq.nameserver.routing.values import BrokerKey

KEY = BrokerKey("c", "a", "a:1")


def lease(owner: int = 0, renewed_at_ms: int = 0) -> Lease:
    return Lease(renewed_at_ms, 100, DataVersion(), "ha", (owner,))


@pytest.fixture
def leases() -> Leases:
    return Leases()


def test_a_lease_goes_with_the_connection_that_registered_last(leases: Leases):
    leases.begin(KEY, lease(owner=1))
    assert leases.register(KEY, 0, 2, DataVersion())
    assert (leases.get(KEY).owners, leases.release(2)) == ((1, 2), (KEY,))
    leases.end(KEY)
    assert leases.release(2) == leases.release(1) == ()


def test_an_older_connections_end_takes_nothing_away_11043(leases: Leases):
    leases.begin(KEY, lease(owner=1))
    leases.begin(KEY, lease(owner=2))
    assert leases.register(KEY, 0, 1, DataVersion())  # sent before 2 was there, read after
    assert (leases.get(KEY).owners, leases.release(1), leases.owned_by(1)) == ((2, 1), (), ())
    assert (leases.get(KEY).owner, leases.release(2)) == (2, (KEY,))


def test_a_broker_that_registers_again_has_its_lease_back(leases: Leases):
    leases.begin(KEY, lease(owner=1))
    leases.begin(KEY, lease(owner=2))
    assert leases.register(KEY, 0, 1, DataVersion())
    assert leases.register(KEY, 0, 1, DataVersion())
    assert (leases.release(2), leases.get(KEY).owners) == ((), (1,))
    assert leases.release(1) == (KEY,)


def test_who_speaks_of_a_broker_does_not_own_its_lease(leases: Leases):
    leases.begin(KEY, lease(owner=2))
    assert leases.renew(KEY, 5)
    assert (leases.get(KEY).owners, leases.get(KEY).renewed_at_ms) == ((2,), 5)


def test_an_ended_lease_has_no_owner_and_can_begin_again_anywhere(leases: Leases):
    leases.begin(KEY, lease(owner=5))
    assert leases.end(KEY).owner == 5
    assert leases.end(KEY) is None
    assert (leases.owned_by(5), len(leases), leases.register(KEY, 0, 9, DataVersion())) == ((), 0, False)
    assert not leases.renew(KEY, 0)
    leases.begin(KEY, lease(owner=1))
    assert leases.owned_by(1) == (KEY,)


def test_a_lease_is_over_when_more_than_its_time_has_passed(leases: Leases):
    leases.begin(KEY, lease())
    assert leases.over(100) == []
    assert [key for key, _ in leases.over(101)] == [KEY]
    leases.register(KEY, 101, 0, DataVersion(1, 2, 3))
    assert leases.over(201) == []
    assert [(key, found.data_version) for key, found in leases] == [(KEY, DataVersion(1, 2, 3))]


def test_a_connection_owns_its_other_brokers_when_one_of_them_has_left():
    leases, other = Leases(), BrokerKey("c", "b", "b:1")
    leases.begin(KEY, lease(owner=1))
    leases.begin(other, lease(owner=1))
    leases.end(KEY)
    assert leases.owned_by(1) == leases.release(1) == (other,)
