"""Limits out of filters: never narrower than what Spark would keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.model.route import MessageQueue
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.pushdown import ColumnLimits, Narrowing, narrow, narrow_ranges, wants_queue

try:
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
        Not,
        StringStartsWith,
    )
except ImportError:
    pytest.skip("Spark tells filters since version 4.1", allow_module_level=True)

OFFSET = ("queueOffset",)
TESTS = {
    EqualTo: lambda one, two: one == two,
    EqualNullSafe: lambda one, two: one == two,
    GreaterThan: lambda one, two: one > two,
    GreaterThanOrEqual: lambda one, two: one >= two,
    LessThan: lambda one, two: one < two,
    LessThanOrEqual: lambda one, two: one <= two,
    In: lambda one, two: one in two,
}

small = st.integers(0, 12)
comparisons = st.sampled_from([kind for kind in TESTS if kind is not In]).flatmap(
    lambda kind: small.map(lambda value: kind(OFFSET, value))
)
conditions = st.lists(
    comparisons | st.lists(small, max_size=4).map(lambda values: In(OFFSET, tuple(values))), max_size=4
)


def queue(queue_id: int, topic: str = "orders", broker_name: str = "a") -> MessageQueue:
    return MessageQueue(topic, broker_name, queue_id)


@given(conditions)
def test_limits_admit_what_filters_keep(filters):
    limits = narrow(filters).of("queueOffset")
    low, high = limits.range
    kept = [n for n in range(13) if all(TESTS[type(one)](n, one.value) for one in filters)]

    assert [n for n in range(13) if limits.admits(n)] == kept
    assert all((low is None or n >= low) and (high is None or n < high) for n in kept)


@pytest.mark.parametrize(
    "condition",
    [
        Not(EqualTo(OFFSET, 5)),
        IsNotNull(OFFSET),
        StringStartsWith(OFFSET, "a"),
        EqualNullSafe(OFFSET, None),
        EqualTo(("properties", "key"), 5),
        GreaterThan(OFFSET, "text"),
        EqualTo(OFFSET, 5.5),
        EqualTo(OFFSET, True),
        In(OFFSET, (5, 5.5)),
        EqualTo(("storeTimestamp",), datetime(2026, 1, 1)),
    ],
)
def test_what_says_nothing_of_one_column_is_passed_over(condition):
    assert narrow([condition]) == Narrowing()


def test_a_null_in_a_list_is_no_value():
    assert narrow([In(OFFSET, (5, None))]).of("queueOffset") == ColumnLimits(frozenset((5,)))


def test_times_are_widened_to_milliseconds():
    moment = datetime(1970, 1, 1, 0, 0, 1, 1500, tzinfo=UTC)

    def stored_ms(*filters):
        return narrow(filters).stored_ms

    column = ("storeTimestamp",)
    assert stored_ms(GreaterThan(column, moment), LessThan(column, moment + timedelta(seconds=1))) == (1001, 2002)
    assert stored_ms(EqualTo(column, moment)) == (1001, 1002)
    assert stored_ms() == (None, None)


def test_queues_are_chosen_by_their_names():
    narrowing = narrow([EqualTo(("topic",), "orders"), In(("brokerName",), ("a", "b")), LessThan(("queueId",), 2)])

    wanted = [queue(0), queue(1), queue(1, broker_name="b")]
    others = [queue(2), queue(0, "bills"), queue(0, broker_name="c")]
    assert [found for found in wanted + others if wants_queue(narrowing, found)] == wanted


def test_ranges_are_cut_by_offsets_and_times():
    ranges = [Range(queue(n), 10, 50) for n in range(4)]
    narrowing = narrow([GreaterThanOrEqual(OFFSET, 20), LessThan(OFFSET, 40)])
    wanted = {queue(0), queue(1), queue(2)}

    found = narrow_ranges(ranges, wanted, narrowing, {queue(1): 30, queue(2): 45}, {queue(0): 25})
    assert found == [Range(queue(0), 20, 25), Range(queue(1), 30, 40)]
    assert narrow_ranges(ranges, wanted, Narrowing(), {}, {}) == ranges[:3]


def test_tags_that_exclude_each_other_leave_nothing():
    narrowing = narrow([EqualTo(("tags",), "a"), EqualTo(("tags",), "b")])

    assert narrow_ranges([Range(queue(0), 0, 9)], {queue(0)}, narrowing, {}, {}) == []
