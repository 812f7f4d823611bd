from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_type

import pytest

from orbitmq import StoredMessage
from orbitmq.blocking import Batch, PushConsumer


@pytest.fixture
def batch(served):
    """A batch of two messages."""
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1", b"2")
    with PushConsumer("takers", served.name_servers, retry_delay_ms=1) as consumer:
        consumer.subscribe("orders")
        yield consumer.next_batch()


def test_a_batch_is_a_sequence_of_its_messages(batch):
    assert (batch.queue.topic, batch.attempt, len(batch)) == ("orders", 1, 2)
    assert [message.body for message in batch] == [b"1", b"2"]
    assert batch[1].body == b"2"
    assert [message.body for message in batch[:1]] == [b"1"]
    assert "orders" in repr(batch)


def test_a_batch_and_its_messages_have_types(batch: Batch):
    """The type checker looks at this test; the names come from the public module."""
    assert_type(batch[0], StoredMessage)
    assert_type(batch[:1], Sequence[StoredMessage])
    assert_type(next(iter(batch)), StoredMessage)
    if TYPE_CHECKING:
        assert_type(PushConsumer("takers", "127.0.0.1:1").next_batch(), Batch | None)


def test_a_batch_is_settled_once(batch):
    assert batch.commit()
    assert not batch.commit()
    assert not batch.retry()


def test_a_batch_that_is_left_is_settled_unless_it_was_deferred(batch):
    batch.defer()
    batch.leave()
    assert batch.retry()
    batch.leave()
    assert not batch.commit()


def test_messages_are_settled_one_by_one(batch):
    assert batch.ack(batch[0])
    assert batch.unsettled == (batch[1],)
    assert not batch.commit(upto=batch[0])
    assert not batch.is_settled
    assert batch.retry(batch[1], delay_level=1)
    assert batch.is_settled
    assert not batch.reject()
    assert not batch.suspend()
