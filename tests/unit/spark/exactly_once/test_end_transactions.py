"""The driver tells each half message's end once, and counts what it does not know."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.errors import RemoteRefused
from orbitmq.spark.exactly_once import end_transactions as ends_module
from orbitmq.spark.exactly_once.delivery import prepare
from orbitmq.spark.exactly_once.end_transactions import TransactionEnder, TransactionTimeouts
from orbitmq.spark.exactly_once.prepared import Prepared, PreparedTopic
from orbitmq.wire.headers import GetBrokerConfig
from unit.spark.exactly_once.topics import rows, stored


@pytest.fixture
def halves(once):
    return prepare(rows(0, 2000), once, "q", 0)


def test_every_half_message_is_committed(once, halves):
    assert TransactionEnder(once).tell([halves], Decision.COMMIT) == 0
    assert sum(stored(once).values()) == 2000


def test_every_half_message_is_rolled_back(once, halves):
    assert TransactionEnder(once).tell([halves], Decision.ROLLBACK) == 0
    assert TransactionEnder(once).tell([halves], Decision.COMMIT) == 2000, "they have ended"
    assert not stored(once)


def test_what_is_too_old_is_left_to_the_brokers_check(once, halves, monkeypatch):
    monkeypatch.setattr(ends_module, "timeouts_of", lambda settings: TransactionTimeouts(10_000, 10**9))
    old = replace(halves, born_at_ms=now_ms() - 10_000)

    assert TransactionEnder(once).tell([old], Decision.COMMIT) == 2000
    assert not stored(once)
    assert TransactionEnder(once).tell([replace(old, born_at_ms=now_ms())], Decision.COMMIT) == 0


def test_a_broker_that_is_not_there_leaves_its_halves_open(once, caplog):
    lost = Prepared(
        "q", 0, "a", 0, halves={PreparedTopic(once.topic, "broker-z"): array("q", (0, 0, 1, 100))}, born_at_ms=1
    )

    assert TransactionEnder(once).tell([lost], Decision.COMMIT) == 2
    assert "broker-z" in caplog.text


def test_a_connection_that_breaks_leaves_its_halves_open(fake, once):
    fake.fill("orders", 0, 0)
    elsewhere = replace(once, name_servers=(fake.address,))
    part = Prepared("q", 0, "a", 0, halves={PreparedTopic("orders", "fake"): array("q", (0, 0))}, born_at_ms=now_ms())

    assert TransactionEnder(elsewhere).tell([part], Decision.COMMIT) == 1, "this broker does not know such requests"


def test_a_broker_that_does_not_show_its_settings_is_an_error_before_the_marker(fake, once):
    fake.fill("orders", 0, 0)
    fake.refuses.add(GetBrokerConfig)
    part = Prepared("q", 0, "a", 0, halves={PreparedTopic("orders", "fake"): array("q", (0, 0))}, born_at_ms=now_ms())

    with pytest.raises(RemoteRefused, match="settings"):
        TransactionEnder(replace(once, name_servers=(fake.address,))).check_age([part])


def test_a_batch_that_may_have_been_given_up_is_refused(once, halves):
    TransactionEnder(once).check_age([halves])
    with pytest.raises(RemoteRefused, match="transactionCheckMax"):
        TransactionEnder(once).check_age([replace(halves, born_at_ms=1)])
