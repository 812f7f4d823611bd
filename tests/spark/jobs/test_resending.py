"""Rows that are sent again are put in order in small parts, and read from files, however many there are."""

from __future__ import annotations

import pytest

from orbitmq.spark.jobs import resend_positions
from orbitmq.spark.jobs.resend_positions import measure, ordered, part_count
from orbitmq.spark.jobs.resending import spilled

pytestmark = pytest.mark.spark

QUEUES = 4


def rows(spark, count):
    """Return the messages of four queues; the clock of the first went back in the middle."""
    at = f"timestamp_millis(if(id % {QUEUES} = 0 and id > {count // 2}, id - {count // 4}, id))"
    return spark.range(count, numPartitions=2).selectExpr(
        "'t' as topic",
        "'b' as brokerName",
        f"cast(id % {QUEUES} as int) as queueId",
        f"id div {QUEUES} as queueOffset",
        f"{at} as storeTimestamp",
        "cast('body' as binary) as body",
    )


def largest_part(frame):
    """Return how many rows the largest part has."""
    counts = frame.rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).collect()
    return max(counts)


@pytest.mark.interop
def test_a_part_holds_no_more_rows_of_many_than_of_few(spark, monkeypatch):
    monkeypatch.setattr(resend_positions, "PART_ROWS", 500)
    held = []
    for count in (2_000, 16_000):
        found = rows(spark, count)
        size = measure(found)
        assert size == (count, 4 * count)
        held.append(largest_part(ordered(found, part_count(size))))

    assert max(held) <= 2 * 500, held


@pytest.mark.interop
def test_parts_follow_one_another_in_the_order_of_the_rows(spark, tmp_path):
    with spilled(ordered(rows(spark, 4_000), 7), tmp_path / "a %20 b", 4_000) as read:
        sent = list(read())

    assert len(sent) == 4_000
    assert [row["at"] for row in sent] == sorted(row["at"] for row in sent)
    for queue in range(QUEUES):
        assert [row["queueOffset"] for row in sent if row["queueId"] == queue] == list(range(1_000))
