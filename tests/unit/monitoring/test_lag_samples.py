"""Samples of a lag as lines, and what all of them say together."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest

from cases import each_case
from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue
from orbitmq.monitoring.lag_samples import (
    UNKNOWN,
    GroupPosition,
    LagSample,
    Point,
    QueueSummary,
    QueueValue,
    decode_samples,
    encode_sample,
    summarise_queues,
    total_lags,
)

QUEUE, OTHER = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


HUNDRED = {MessageQueue("t", "a", number): GroupPosition(1_000, 2_000 + number) for number in range(100)}


def value(at_ms, lag, queue=0):
    return QueueValue(at_ms, "a", queue, None, 7, None) if lag is None else QueueValue(at_ms, "a", queue, 0, lag, lag)


def test_a_lag_is_known_where_both_ends_are():
    assert GroupPosition(3, 10).lag == 7
    assert GroupPosition(12, 10).lag == 0
    assert GroupPosition(None, 10).lag is GroupPosition(3, None).lag is UNKNOWN.lag is None


def test_a_line_says_null_where_nothing_is_known():
    line = encode_sample(LagSample(17, {OTHER: UNKNOWN, QUEUE: GroupPosition(0, 2)}, "no answer"))
    assert line.endswith(b"}\n")
    assert orjson.loads(line) == {
        "at_ms": 17,
        "queues": [
            {"broker": "a", "queue": 0, "committed": 0, "end": 2, "lag": 2},
            {"broker": "a", "queue": 1, "committed": None, "end": None, "lag": None},
        ],
        "trouble": "no answer",
    }
    assert list(decode_samples([line], "lag.jsonl")) == [
        [QueueValue(17, "a", 0, 0, 2, 2), QueueValue(17, "a", 1, None, None, None)]
    ]


@each_case(
    {"at_ms": "now"},
    {"at_ms": 10**18},
    {"at_ms": -(10**18)},
    {"broker": []},
    {"broker": None},
    {"queue": "0"},
    {"committed": 0.5},
    {"end": "7"},
    {"lag": {}},
)
def test_a_value_of_another_type_or_year_is_told(change):
    fields = value(1, 7)._asdict() | change
    line = orjson.dumps({"at_ms": fields.pop("at_ms"), "queues": [fields]})
    with pytest.raises(JobFailed, match=r"line 1 of lag\.jsonl is not a sample"):
        list(decode_samples([line], "lag.jsonl"))


def test_the_last_lag_is_that_of_the_last_line_though_the_clock_was_set_back():
    assert summarise_queues([[value(9_000, 7)], [value(1_000, 3)]]) == [QueueSummary("a 0", 2, 0, 5.0, 7, 3)]


@each_case(b"{", b"{}", b"[]", b'{"queues":7}', b'{"at_ms":1,"queues":[{"broker":"a"}]}')
def test_a_line_that_is_no_sample_is_told(line):
    with pytest.raises(JobFailed, match=r"line 2 of lag\.jsonl is not a sample"):
        list(decode_samples([b'{"at_ms":1,"queues":[]}', line], "lag.jsonl"))


@each_case(total_lags, summarise_queues)
def test_a_long_history_is_not_held_in_memory(function):
    lines = (encode_sample(LagSample(at_ms, HUNDRED, None)) for at_ms in range(200))
    tracemalloc.start()
    try:
        function(decode_samples(lines, "lag.jsonl"))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # of 20,000 values
    finally:
        tracemalloc.stop()


def test_the_whole_lag_is_unknown_where_that_of_one_queue_is():
    samples = [[value(3, 1), value(3, None, 1)], [], [value(2, 1), value(2, 4, 1)]]
    assert total_lags(samples) == [Point(2, 5), Point(3, None)]


def test_a_queues_lag_is_summed_up_over_the_moments_at_which_it_is_known():
    samples = [[value(1, 4)], [value(2, None)], [value(3, 1), value(3, None, 1)]]
    assert summarise_queues(samples) == [
        QueueSummary("a 0", 3, 1, 2.5, 4, 1),
        QueueSummary("a 1", 1, 1, None, None, None),
    ]


def test_the_last_lag_is_that_of_the_last_line_also_when_it_is_unknown():
    (found,) = summarise_queues([[value(1, 7)], [value(2, None)]])
    assert (found.last, found.most) == (None, 7)
