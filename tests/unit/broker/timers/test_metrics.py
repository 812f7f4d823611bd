from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.errors import HeaderError


def test_the_file_is_javas() -> None:
    metrics = TimerMetrics()
    metrics.add("a", 1, 1_000)
    metrics.add("a", 1, 2_000)
    metrics.add("b", -1, 3_000)
    assert metrics.format() == (
        b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":3000},'
        b'"timingCount":{"a":{"count":2,"timeStamp":2000},"b":{"count":-1,"timeStamp":3000}}}'
    )
    again = TimerMetrics.parse(metrics.format())
    assert (again.counts, again.format()) == ({"a": 2, "b": -1}, metrics.format())


def test_messages_are_counted_together_as_one_by_one() -> None:
    together, one_by_one = TimerMetrics(), TimerMetrics()
    delays_ms = [-5, 999, 59_999, 60_000, 61_000, 61_999, 700_000]
    together.came_together("a", delays_ms)
    together.add("a", 7, 1_000, change_count=7)
    for delay_ms in delays_ms:
        one_by_one.came("a", delay_ms)
        one_by_one.add("a", 1, 1_000)
    assert (together.enqueued, together.format()) == (one_by_one.enqueued, one_by_one.format())
    ((_, delays),) = together.delays.items()
    ((_, other),) = one_by_one.delays.items()
    assert (delays.total, delays.cumulative()) == (other.total, other.cumulative())


def test_a_topic_and_all_of_them_are_forgotten() -> None:
    metrics = TimerMetrics()
    metrics.add("a", 1, 1_000)
    metrics.add("b", 1, 1_000)
    metrics.forget("a")
    metrics.forget("never there")
    assert metrics.counts == {"b": 1}
    metrics.clear()
    assert b'"timingCount":{}' in metrics.format()


@each_case(b"", b"[]", b'{"timingCount":{"a":1}}', b'{"timingCount":{"a":{}}}', b"x")
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(HeaderError, match="timer metrics"):
        TimerMetrics.parse(data)


def test_a_file_without_counts_has_none() -> None:
    assert TimerMetrics.parse(b"{}").counts == {}


def test_what_came_and_went_is_counted_by_topic() -> None:
    metrics = TimerMetrics()
    metrics.came("a", 61_000)
    metrics.came("a", -5)
    metrics.went("a")
    ((topic, delays),) = metrics.delays.items()
    assert (metrics.enqueued, metrics.dequeued, topic, delays.total) == ({"a": 2}, {"a": 1}, "a", 61)
    metrics.forget("a")
    assert (metrics.enqueued, metrics.dequeued, len(metrics.delays)) == ({}, {}, 0)
