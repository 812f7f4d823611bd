"""The decisions and the pace; tests/spark/jobs/test_replay.py and test_dead_letters.py run the queries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cases import each_case
from orbitmq.errors import JobFailed, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.resend_positions import (
    PART_BYTES,
    PART_ROWS,
    ResendProgress,
    Size,
    load_progress,
    part_count,
    save_progress,
    sent_since,
    starts_of,
)
from orbitmq.spark.jobs.resending import PORTION_MAX, SendRate
from orbitmq.wire.bodies.topics import QueueStats

SOURCE, FIRST, SECOND = MessageQueue("old", "", 3), MessageQueue("new", "b", 0), MessageQueue("new", "a", 1)
PROGRESS = ResendProgress(
    "0f", frozenset((FIRST, SECOND)), {FIRST: 0, SECOND: 7}, {FIRST: 2, SECOND: 9}, {SOURCE: 11}, 5
)


def test_what_is_noted_is_found_again(tmp_path):
    path = tmp_path / "progress.json"
    assert load_progress(path) is None
    save_progress(path, PROGRESS)
    assert load_progress(path) == PROGRESS


def test_queues_of_a_topic_have_an_order_that_stays():
    more = PROGRESS._replace(targets=PROGRESS.targets | {MessageQueue("other", "a", 0)})
    assert more.queues_of("new") == [SECOND, FIRST]
    assert more.queues_of("none") == []


def test_an_origin_names_the_job_and_the_place():
    assert PROGRESS.origin(SOURCE, 5) == "0f/old//3/5"


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"id":"0f"}', b'{"id":"0f","targets":{},"began":{},"ends":{},"done":{"t":{"b":{"0":-1}}}}'],
    ids=["no JSON", "a list", "parts are missing", "a bad offset"],
)
def test_a_note_that_cannot_be_read_ends_the_job(tmp_path, content):
    path = tmp_path / "progress.json"
    path.write_bytes(content)
    with pytest.raises(JobFailed, match="cannot be read"):
        load_progress(path)


QUEUE = MessageQueue("t", "a", 0)


@each_case(({QUEUE: 5}, 5), ({QUEUE: 1}, 2), ({}, 2), ({QUEUE: 11}, 9))
def test_a_topic_is_read_from_an_offset_that_it_has(since, start):
    assert starts_of({QUEUE: QueueStats(2, 9)}, since) == {QUEUE: start}


def test_a_topic_whose_brokers_are_away_is_not_passed_over():
    def stats(topic):
        if topic == "away":
            raise RouteNotFound(topic)
        return {QUEUE: QueueStats(0, 9)}

    with pytest.raises(RouteNotFound):
        sent_since(None, SimpleNamespace(readable_stats=stats), ["t", "away"], ResendProgress("0f"), {})


@each_case((1, 1), (9, 1), (10, 1), (99, 9), (4_990, 499), (1_000_000, PORTION_MAX))
def test_a_portion_is_a_tenth_of_a_second_at_most(rate, portion):
    assert SendRate(rate).portion == portion


def test_a_portion_waits_until_the_one_before_has_had_its_time():
    pace = SendRate(100)
    assert pace.wait_s(10, 5.0) == 0
    assert pace.wait_s(10, 5.02) == pytest.approx(0.08)
    assert pace.wait_s(10, 5.1) == pytest.approx(0.1)


def test_time_that_was_lost_is_not_caught_up_with():
    pace = SendRate(100)
    pace.wait_s(10, 0.0)
    assert pace.wait_s(10, 60.0) == 0
    assert pace.wait_s(10, 60.0) == pytest.approx(0.1)


def test_a_portion_of_messages_that_were_all_sent_before_takes_no_time():
    pace = SendRate(1)
    pace.wait_s(0, 0.0)
    assert pace.wait_s(1, 0.0) == 0


@each_case(
    (0, 0, 1),
    (PART_ROWS, PART_BYTES, 1),
    (PART_ROWS + 1, 0, 2),
    (2, PART_BYTES + 1, 2),
    (10_000_000, 10 * 2**30, 640),
    (50_000_000, 0, 50_000_000 // PART_ROWS),
)
def test_there_are_as_many_parts_as_keep_each_of_them_small(count, size, parts):
    assert part_count(Size(count, size)) == parts
