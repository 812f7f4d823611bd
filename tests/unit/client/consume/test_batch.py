import pytest

from orbitmq.client.consume.batch import Batch
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


def batch(count=3, *, in_time=True):
    """A batch, and the list of what it was settled with."""
    settled = []

    def settle(is_done):
        settled.append(is_done)
        return in_time

    messages = [
        StoredMessage(topic="t", body=b"", properties={}, queue_id=0, queue_offset=n, physical_offset=0, store_size=1)
        for n in range(7, 7 + count)
    ]
    return Batch(MessageQueue("t", "a", 0), messages, 2, settle), settled


def test_a_batch_behaves_like_a_sequence():
    found, _ = batch()
    assert [message.queue_offset for message in found] == [7, 8, 9]
    assert [message.queue_offset for message in found[1:]] == [8, 9]
    assert found[-1].queue_offset == 9
    assert (len(found), found.attempt, found.queue) == (3, 2, MessageQueue("t", "a", 0))
    assert repr(found) == "<Batch t a 0 @7: 3 messages>"


@pytest.mark.parametrize("is_done", [True, False])
def test_a_batch_is_settled_once(is_done):
    found, settled = batch()
    assert not found.is_settled
    assert (found.commit if is_done else found.retry)() is True
    assert found.is_settled
    assert not found.commit()
    assert not found.retry()
    assert settled == [is_done]


def test_a_commit_that_comes_too_late_says_so():
    found, _ = batch(in_time=False)
    assert not found.commit()


def test_a_batch_that_is_left_is_to_come_again():
    found, settled = batch()
    found.leave()
    found.leave()
    assert settled == [False]


def test_a_batch_that_is_left_after_it_was_settled_or_deferred_stays_as_it_is():
    committed, settled = batch()
    committed.commit()
    committed.leave()
    assert settled == [True]
    deferred, settled = batch()
    deferred.defer()
    deferred.leave()
    assert settled == []
    assert deferred.commit()
