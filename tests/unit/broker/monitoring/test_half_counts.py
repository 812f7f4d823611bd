from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.monitoring import half_counts
from orbitmq.broker.monitoring.half_counts import HalfCounts, parse_counts
from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion

JAVAS = (
    b'{"dataVersion":{"counter":8,"stateVersion":0,"timestamp":1795349840842},'
    b'"transactionCount":{"t":{"count":2,"timeStamp":1795349840842}}}'
)


def test_what_happens_is_counted_by_topic() -> None:
    counts = HalfCounts()
    for _ in range(4):
        counts.prepared("t", 1)
    counts.prepared("u", 1)
    counts.committed("t", 61_000, born_at_ms=500)
    counts.rolled_back("t", 3)
    counts.given_up("u", 4)
    assert (counts.open, counts.commits, counts.rollbacks) == ({"t": 2, "u": 0}, {"t": 1}, {"t": 1})
    assert counts.given_up_count == 1
    ((topic, latency),) = counts.latencies.items()
    assert (topic, latency.count, latency.total) == ("t", 1, 60)


def test_the_file_is_javas() -> None:
    counts = HalfCounts(*parse_counts(JAVAS))
    assert counts.open == {"t": 2}
    assert counts.take_changed(5) is None
    counts.prepared("t", 7)
    content = counts.take_changed(9)
    assert content is not None
    assert parse_counts(content) == ({"t": 3}, DataVersion(0, 9, 9))
    assert b'"transactionCount":{"t":{"count":3,"timeStamp":7}}' in content
    assert counts.take_changed(9) is None


def test_no_count_goes_below_zero_and_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_counts, "TOPICS_MAX", 1)
    counts = HalfCounts()
    counts.committed("t", 1, 1)
    counts.prepared("u", 1)
    assert counts.open == {"t": 0}


@each_case(b"[]", b"{", b'{"transactionCount":{"t":1}}', b'{"transactionCount":{"t":{}}}')
def test_a_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_counts(content)


def test_an_empty_document_counts_nothing() -> None:
    assert parse_counts(b"{}") == ({}, DataVersion())
