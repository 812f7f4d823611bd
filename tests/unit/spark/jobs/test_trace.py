"""The check of the job; tests/spark/jobs/test_trace.py runs it."""

from __future__ import annotations

from orbitmq.spark.jobs.latencies import Consumptions, Latency
from orbitmq.spark.jobs.trace import check_consumptions

LATENCY = Latency("t", "g", 3, 1, 2, 3, 4)


def test_every_consumption_is_counted_once():
    counts = Consumptions(all=10, measured=3, untold=4, delayed=2, earlier=1, backwards=0, failed=7)
    assert [result.holds for result in check_consumptions([LATENCY], counts)] == [True, True]


def test_a_consumption_that_is_lost_or_counted_twice_is_told():
    counts = Consumptions(all=10, measured=4, untold=4, delayed=2, earlier=1, backwards=0, failed=7)
    assert [result.holds for result in check_consumptions([LATENCY], counts)] == [False, False]
