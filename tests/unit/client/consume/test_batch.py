"""Batches of messages, and sums of a consumer's work."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.statistics import ConsumeStatistics, TopicStatistics
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.consumer_info import ConsumeStatus
from unit.client.messages import stored

QUEUE = MessageQueue("t", "a", 0)


class FakeSettler:
    """Notes how messages, by offset, are settled."""

    def __init__(self, in_time=True):
        self.settled = []
        self.ended = 0
        self.is_over = False
        self._in_time = in_time

    def _note(self, how, messages, *details):
        self.settled.append((how, [message.queue_offset for message in messages], *details))
        return self._in_time

    def begun(self, batch):
        pass

    def done(self, messages):
        return self._note("done", messages)

    def failed(self, messages, delay_level):
        return self._note("failed", messages, delay_level)

    def suspended(self, messages, delay_ms):
        return self._note("suspended", messages, delay_ms)

    def rejected(self, messages):
        return self._note("rejected", messages)

    def deferred(self, batch):
        self._note("deferred", batch.unsettled)

    def batch_ended(self, batch):
        assert batch.is_settled
        self.ended += 1


def batch(count=3, **settings):
    """A batch of offsets 7, 8 ..., and what it tells its settler."""
    settler = FakeSettler(**settings)
    return Batch(QUEUE, [stored(7 + number) for number in range(count)], settler), settler


def test_a_batch_behaves_like_a_sequence():
    found, _ = batch()
    assert [message.queue_offset for message in found] == [7, 8, 9]
    assert [message.queue_offset for message in found[1:]] == [8, 9]
    assert found[-1].queue_offset == 9
    assert (len(found), found.attempt, found.queue) == (3, 1, QUEUE)
    assert repr(found) == "<Batch t a 0 @7: 3 messages>"


@each_case(
    (Batch.commit, ("done", [7, 8, 9])),
    (Batch.retry, ("failed", [7, 8, 9], 0)),
    (Batch.suspend, ("suspended", [7, 8, 9], None)),
    (Batch.reject, ("rejected", [7, 8, 9])),
)
def test_a_batch_is_settled_once(end, told):
    found, settler = batch()
    assert not found.is_settled
    assert end(found) is True
    assert found.is_settled
    assert not any(again(found) for again in (Batch.commit, Batch.retry, Batch.suspend, Batch.reject))
    assert settler.settled == [told]
    assert settler.ended == 1


def test_messages_are_settled_one_by_one_and_the_rest_together():
    found, settler = batch(5)
    assert found.ack(found[1])
    assert found.retry(found[2], delay_level=5)
    assert found.reject(found[3])
    assert found.unsettled == (found[0], found[4])
    assert settler.ended == 0
    assert found.commit()
    assert settler.settled == [("done", [8]), ("failed", [9], 5), ("rejected", [10]), ("done", [7, 11])]
    assert settler.ended == 1


def test_a_commit_up_to_a_message_leaves_those_behind_it():
    found, settler = batch(4)
    found.ack(found[1])
    assert found.commit(upto=found[2])
    assert found.unsettled == (found[3],)
    assert not found.commit(upto=found[0])
    found.leave()
    assert settler.settled == [("done", [8]), ("done", [7, 9]), ("failed", [10], 0)]


def test_a_message_is_settled_once():
    found, settler = batch()
    assert found.ack(found[0])
    assert not found.ack(found[0])
    assert not found.retry(found[0])
    assert not found.reject(found[0])
    assert settler.settled == [("done", [7])]


@each_case(stored(7), stored(70), "a", 7)
def test_a_message_of_another_batch_is_refused(stranger):
    found, settler = batch()
    for settle in (found.ack, found.retry, found.reject, found.commit):
        with pytest.raises(InvalidArgument, match="a message of this batch"):
            settle(stranger)
    assert settler.settled == []


@each_case(-1, 1_001, "3", None)
def test_a_delay_level_that_brokers_do_not_have_is_refused(delay_level):
    found, _ = batch()
    with pytest.raises(InvalidArgument, match="delay_level"):
        found.retry(found[0], delay_level=delay_level)
    with pytest.raises(InvalidArgument, match="delay_ms"):
        found.suspend(-1)
    with pytest.raises(InvalidArgument, match="delay_ms"):
        found.suspend("soon")
    assert found.suspend(0)


def test_what_comes_too_late_says_so():
    for end in (Batch.commit, Batch.retry, Batch.suspend, Batch.reject):
        found, _ = batch(in_time=False)
        assert not end(found)


def test_a_batch_that_is_left_is_to_come_again():
    found, settler = batch()
    found.leave()
    found.leave()
    assert settler.settled == [("failed", [7, 8, 9], 0)]


def test_a_batch_that_is_left_after_it_was_settled_or_deferred_stays_as_it_is():
    committed, settler = batch()
    committed.commit()
    committed.leave()
    assert settler.settled == [("done", [7, 8, 9])]
    deferred, settler = batch()
    deferred.defer()
    deferred.leave()
    assert settler.settled == []
    assert deferred.commit()


def test_what_is_not_settled_in_time_has_failed(caplog):
    found, settler = batch()
    found.ack(found[0])
    found.expire()
    found.expire()
    assert settler.settled == [("done", [7]), ("failed", [8, 9], 0)]
    assert caplog.messages == ["<Batch t a 0 @7: 3 messages> is not settled in time: 2 messages count as failed"]


def test_a_batch_whose_queue_goes_before_its_turn_ends_without_a_word():
    settler = FakeSettler()
    found = Batch(QUEUE, [stored(7)], settler, is_started=False)
    assert found.start()
    assert found.is_started
    found.pause()
    assert not found.is_started
    settler.is_over = True
    found.pause()
    assert (settler.settled, settler.ended) == ([], 1)
    assert not found.start()
    assert not found.commit()


def test_a_handler_that_has_returned_has_done_what_it_has_not_deferred():
    done, settler = batch()
    done.finish()
    assert settler.settled == [("done", [7, 8, 9])]
    deferred, settler = batch()
    deferred.defer()
    deferred.ack(deferred[0])
    deferred.finish()
    assert settler.settled == [("done", [7]), ("deferred", [8, 9])]
    deferred.commit()
    deferred.finish()
    assert settler.settled[2:] == [("done", [8, 9])]


@each_case(Batch.commit, Batch.retry, Batch.suspend, Batch.reject, lambda b: b.ack(b[0]))
def test_where_a_batch_cannot_be_settled_nothing_of_it_is(settle):
    def refuse():
        raise ClientError("another loop")

    settler = FakeSettler()
    found = Batch(QUEUE, [stored(7)], settler, check_loop=refuse)
    with pytest.raises(ClientError):
        settle(found)
    assert (settler.settled, len(found.unsettled)) == ([], 1)


def test_means_and_rates_are_made_of_sums() -> None:
    statistics = ConsumeStatistics(began_s=100.0)
    statistics.topics["t"] = TopicStatistics(
        pulls=4, pull_s=0.2, pulled=40, batches=10, consume_s=1.0, done=30, failed=10
    )
    assert statistics.show("t", 110.0) == ConsumeStatus(
        pull_ms=50.0, pull_rate=4.0, consume_ms=100.0, done_rate=3.0, failed_rate=1.0, failed_count=10
    )


def test_a_topic_without_work_has_zeros_and_is_not_noted() -> None:
    statistics = ConsumeStatistics(began_s=100.0)
    assert statistics.show("t", 100.0) == ConsumeStatus()
    assert not statistics.topics
