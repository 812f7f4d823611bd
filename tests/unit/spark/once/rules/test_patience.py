"""A driver commits by itself only while no check of the broker's can have come between."""

from __future__ import annotations

from orbitmq.spark.once.rules.patience import patience_of

JAVA = "#comment\ntransactionTimeOut=60000\ntransactionCheckInterval=30000\ntransactionOpBatchInterval=3000\ntransactionCheckMax=15\n"


def test_a_java_broker_takes_direct_ends_until_it_may_have_asked():
    found = patience_of(JAVA)

    assert found.may_end(54_999)
    assert not found.may_end(55_000)


def test_a_broker_of_ours_takes_them_at_any_time():
    assert patience_of(JAVA + "topicsMax=9\n").may_end(10**9)


def test_a_message_may_be_given_up_after_the_last_check():
    found = patience_of(JAVA)

    assert not found.may_be_given_up(60_000 + 14 * 30_000 - 2_001)
    assert found.may_be_given_up(60_000 + 14 * 30_000 - 2_000)


def test_settings_that_are_not_told_are_javas_defaults():
    assert patience_of("") == patience_of("transactionTimeOut=6000\ntransactionCheckMax=x")
    assert patience_of("").direct_ms == 1_000
