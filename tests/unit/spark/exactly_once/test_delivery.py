"""Rows come exactly once, wherever the driver or a task is cut off: the failure table of docs/explain/exactly-once-sink.md."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pytest

from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ClientError, ConfigError, RemoteRefused, RouteNotFound, SendFailed
from orbitmq.spark.exactly_once import delivery
from orbitmq.spark.exactly_once.commit_markers import Abort, Marker
from orbitmq.spark.exactly_once.delivery import abort, commit, prepare
from orbitmq.spark.exactly_once.end_transactions import TransactionEnder
from orbitmq.spark.exactly_once.prepared import marker_parts
from unit.spark.exactly_once.topics import rows, stored

ONCE = Counter(range(100))


@pytest.fixture(autouse=True)
def _new_process():
    """Every test is a process that has looked at no marker topic yet."""
    delivery._searched.clear()


def two_tasks(options, batch=0, query="q"):
    """Run the two tasks of a micro-batch of a hundred rows; their messages travel as Spark sends them."""
    return [pickle.loads(pickle.dumps(prepare(rows(*part), options, query, batch))) for part in ((0, 60), (60, 100))]


def mark(marker_topic, prepared, batch=0, query="q", name="dead driver"):
    """Write the marker as a driver does that dies right after it."""
    marker_topic.append(Marker(name, query, batch, *marker_parts(prepared)))


def test_rows_are_invisible_until_the_commit_and_there_once_after_it(once):
    prepared = two_tasks(once)
    assert not stored(once)

    commit(prepared, once)
    assert stored(once) == ONCE


def test_a_batch_of_no_rows_leaves_no_marker(once, marker_topic):
    commit([prepare(rows(0, 0), once, "q", 0)], once)
    commit([], once)

    assert list(marker_topic.read()) == []


def test_a_driver_that_dies_before_its_marker_lets_the_next_one_begin_again(once):
    two_tasks(once)

    commit(two_tasks(once), once)
    assert stored(once) == ONCE


def test_a_driver_that_dies_after_its_marker_is_finished_by_the_next_one(once, marker_topic):
    mark(marker_topic, two_tasks(once))

    again = two_tasks(once)
    assert [part.count for part in again] == [0, 0], "what has been decided is not sent again"
    commit(again, once)
    assert stored(once) == ONCE


def test_a_driver_that_dies_amid_its_commits_is_finished_by_the_next_one(once, marker_topic):
    prepared = two_tasks(once)
    mark(marker_topic, prepared)
    assert TransactionEnder(once).tell(prepared[:1], Decision.COMMIT) == 0
    assert sum(stored(once).values()) == 60

    commit(two_tasks(once), once)
    assert stored(once) == ONCE


def test_a_driver_that_dies_after_its_commits_is_not_repeated(once):
    commit(two_tasks(once), once)

    commit(two_tasks(once), once)
    assert stored(once) == ONCE


def test_a_commit_that_is_called_twice_commits_once(once):
    prepared = two_tasks(once)
    commit(prepared, once)

    commit(prepared, once)
    assert stored(once) == ONCE


def test_a_marker_that_was_written_although_its_driver_heard_of_a_failure_counts(once, marker_topic, monkeypatch):
    append = type(marker_topic).append

    def fail_after(self, entry):
        append(self, entry)
        raise SendFailed("no answer", [])

    prepared = two_tasks(once)
    monkeypatch.setattr(type(marker_topic), "append", fail_after)
    with pytest.raises(SendFailed, match="no answer"):
        commit(prepared, once)
    monkeypatch.undo()

    commit(two_tasks(once), once)
    assert stored(once) == ONCE


def test_commits_that_never_arrive_are_made_up_for_by_the_brokers_checks(once, monkeypatch):
    prepared = two_tasks(once)
    monkeypatch.setattr(TransactionEnder, "tell", lambda self, prepared, decision: 100)

    commit(prepared, once)
    assert stored(once) == ONCE


def test_attempts_that_failed_or_were_speculated_are_rolled_back(once):
    losers = two_tasks(once)
    living = two_tasks(once)
    commit(living, once)

    commit([losers[0], living[1]], once)
    assert stored(once) == ONCE


def test_a_task_that_fails_rolls_back_what_it_has_sent(once, monkeypatch):
    ended = []
    tell = TransactionEnder.tell

    def note(self, prepared, decision):
        ended.extend((part.count, decision) for part in prepared)
        return tell(self, prepared, decision)

    def failing():
        yield from rows(0, 60)
        raise ValueError("a row's own fault")

    monkeypatch.setattr(TransactionEnder, "tell", note)
    with pytest.raises(ValueError, match="own fault"):
        prepare(failing(), once, "q", 0)

    assert len(ended) == 1
    assert ended[0][1] is Decision.ROLLBACK


def test_a_zombie_driver_loses_against_the_first_marker(once):
    zombie, living = two_tasks(once), two_tasks(once)
    commit(living, once)

    commit(zombie, once)
    assert stored(once) == ONCE


def test_a_zombie_whose_marker_comes_second_commits_nothing(once, marker_topic):
    zombie, living = two_tasks(once), two_tasks(once)
    mark(marker_topic, living, name="living")
    mark(marker_topic, zombie, name="zombie")

    commit(zombie, once)
    assert stored(once) == ONCE
    commit(living, once)
    assert stored(once) == ONCE


def test_a_message_in_doubt_is_not_committed_with_its_repetition(once):
    prepared = two_tasks(once)
    repeated = prepare(rows(0, 1), once, "q", 0)
    # As if serial 0 of the first task had been sent again, as the first serial of an attempt that is part of it.
    prepared[0] = replace(
        prepared[0], unverified=((0, 0),), filled=_one_less(prepared[0]), halves=_without_first(prepared[0])
    )

    commit([*prepared, repeated], once)
    assert stored(once) == ONCE


def _one_less(prepared):
    queue = min(prepared.filled, key=lambda queue: queue.queue_id)  # serial 0 goes to queue 0
    return {**prepared.filled, queue: replace(prepared.filled[queue], count=prepared.filled[queue].count - 1)}


def _without_first(prepared):
    return {place: halves[2:] for place, halves in prepared.halves.items()}


def test_an_aborted_batch_is_rolled_back_and_runs_again(once):
    failed = two_tasks(once)
    abort(failed, once)

    with pytest.raises(SendFailed, match="aborted"):
        commit(failed, once)
    commit(two_tasks(once), once)
    assert stored(once) == ONCE


def test_an_abort_that_comes_after_the_marker_takes_nothing_back(once, marker_topic):
    prepared = two_tasks(once)
    mark(marker_topic, prepared)
    abort(prepared, once)
    abort([], once)

    commit(prepared, once)
    assert stored(once) == ONCE


def test_batches_of_a_query_and_of_others_do_not_meet(once):
    for query, batch in (("q", 0), ("r", 0), ("q", 1), ("r", 1)):
        commit(two_tasks(once, batch, query), once)

    assert stored(once) == Counter(dict.fromkeys(range(100), 4))


def test_a_batch_that_is_older_than_the_one_before_is_found(once):
    """A checkpoint that was restored: the process remembers how far it has looked for a younger batch."""
    for batch in (0, 1, 0):
        commit(two_tasks(once, batch), once)

    assert stored(once) == Counter(dict.fromkeys(range(100), 2))


@pytest.mark.parametrize("count", [0, 60, 140], ids=["none", "fewer", "more"])
def test_a_batch_that_comes_again_with_other_rows_fails_and_says_how_many_there_were(once, caplog, count):
    commit(two_tasks(once), once)

    told = rf"batch 0 of query q was written before, with 100 rows, and has {count} rows now.*none of them is sent"
    with pytest.raises(SendFailed, match=told):
        commit([prepare(rows(0, count), once, "q", 0)], once)
    commit([prepare(rows(0, count), once, "q", 0)], replace(once, fail_on_data_loss=False))
    assert f"and has {count} rows now" in caplog.text
    assert stored(once) == ONCE


def test_a_marker_of_an_older_driver_with_other_rows_is_finished_before_the_batch_fails(once, marker_topic):
    mark(marker_topic, two_tasks(once))

    with pytest.raises(SendFailed, match="with 100 rows, and has 140 rows now"):
        commit([prepare(rows(0, 140), once, "q", 0)], once)
    assert stored(once) == ONCE


def test_a_checkpoint_that_was_put_back_is_told_where_the_rows_are_as_many(once, caplog):
    for batch in (0, 1):
        commit(two_tasks(once, batch), once)
    commit(two_tasks(once, 1), once)
    assert "checkpoint" not in caplog.text, "the last batch comes again whenever a driver was killed"

    commit(two_tasks(once, 0), once)
    assert "batch 0 of query q was written before, and batch 1, too: was its checkpoint restored" in caplog.text


def test_a_marker_topic_has_to_be_there_and_to_have_one_queue(once):
    with pytest.raises(RouteNotFound, match="orbitmq topic create nowhere --broker BROKER --queues 1"):
        two_tasks(replace(once, marker_topic="nowhere"))
    with pytest.raises(ConfigError, match="4 queues"):
        two_tasks(replace(once, marker_topic=once.topic))


def test_a_batch_that_its_broker_may_have_given_up_gets_no_marker(once, marker_topic):
    prepared = [replace(part, born_at_ms=1) for part in two_tasks(once)]

    with pytest.raises(RemoteRefused, match="transactionCheckMax"):
        commit(prepared, once)
    assert list(marker_topic.read()) == []


def test_rows_that_do_not_come_in_time_fail_the_batch(once, marker_topic, monkeypatch):
    prepared = two_tasks(once)
    mark(marker_topic, [replace(part, attempt=f"{part.attempt}-of-nobody") for part in prepared])

    with pytest.raises(SendFailed, match="100 rows of batch 0"):
        commit(prepared, replace(once, commit_timeout_ms=1))


def test_a_failure_of_an_abort_is_only_logged(once, monkeypatch, caplog):
    failed = two_tasks(once)

    def refuse(*_):
        raise ClientError("not now")

    monkeypatch.setattr(delivery.MarkerTopic, "append", refuse)
    abort(failed, once)
    assert "not now" in caplog.text


def test_an_abort_record_voids_a_marker_that_comes_later(once, marker_topic):
    prepared = two_tasks(once)
    marker_topic.append(Abort("q", 0, frozenset((prepared[0].attempt,))))

    with pytest.raises(SendFailed, match="aborted"):
        commit(prepared, once)
    commit(two_tasks(once), once)
    assert stored(once) == ONCE
