"""A batch is at its end when every row is in its queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ClientError, SendFailed
from orbitmq.spark.exactly_once.commit_markers import PROPERTY, Marker
from orbitmq.spark.exactly_once.delivery import prepare
from orbitmq.spark.exactly_once.end_transactions import TransactionEnder
from orbitmq.spark.exactly_once.prepared import marker_parts
from orbitmq.spark.exactly_once.settling import Arrivals, settle
from unit.spark.exactly_once.topics import rows, stored


@pytest.fixture
def prepared(once):
    return prepare(rows(0, 50), once, "q", 0)


def marker_of(prepared):
    return Marker("id", prepared.query, prepared.batch, *marker_parts([prepared]))


def test_rows_are_counted_as_they_come(once, prepared):
    arrivals = Arrivals(once, marker_of(prepared))
    arrivals.look()
    assert arrivals.missing == 50

    TransactionEnder(once).tell([prepared], Decision.COMMIT)
    arrivals.look()
    assert arrivals.missing == 0
    arrivals.look()
    assert arrivals.missing == 0


def test_rows_of_other_batches_and_attempts_are_not_counted(once, prepared):
    other = prepare(rows(0, 50), once, "q", 0)
    next_batch = prepare(rows(0, 50), once, "q", 1)
    TransactionEnder(once).tell([other, next_batch], Decision.COMMIT)

    arrivals = Arrivals(once, marker_of(prepared))
    arrivals.look()
    assert arrivals.missing == 50


def test_a_row_that_a_broker_delivers_twice_is_told(once, prepared, caplog):
    from orbitmq import Message
    from orbitmq.blocking import Producer

    TransactionEnder(once).tell([prepared], Decision.COMMIT)
    arrivals = Arrivals(once, marker_of(prepared))
    with Producer("copies", once.name_servers) as producer:
        queue = min(prepared.filled, key=lambda queue: queue.queue_id)
        attempt_id = f"q/0/{prepared.attempt}/0"
        producer.send(Message(once.topic, b"0", properties={PROPERTY: attempt_id}), queue=queue)
    arrivals._read_to = dict.fromkeys(arrivals._read_to, 0)
    arrivals.look()

    assert arrivals.missing == 0
    assert "twice" in caplog.text


def test_what_is_uncommitted_is_committed_when_brokers_ask(once, marker_topic, prepared):
    marker_topic.append(marker_of(prepared))

    settle(once, marker_topic, marker_of(prepared))
    assert sum(stored(once).values()) == 50


def test_rows_that_do_not_come_are_an_error(once, marker_topic, prepared):
    with pytest.raises(SendFailed, match="50 rows of batch 0 of query q"):
        settle(replace(once, commit_timeout_ms=100), marker_topic, marker_of(prepared))


def test_a_broker_that_cannot_be_read_now_is_asked_again(once, marker_topic, prepared, monkeypatch, caplog):
    marker_topic.append(marker_of(prepared))
    TransactionEnder(once).tell([prepared], Decision.COMMIT)
    look, failures = Arrivals.look, [ClientError("not now")]

    def look_later(self):
        if failures:
            raise failures.pop()
        look(self)

    monkeypatch.setattr(Arrivals, "look", look_later)
    settle(once, marker_topic, marker_of(prepared))
    assert "not now" in caplog.text
