"""Latencies of invented traces; tests/spark/jobs/test_trace.py has real ones."""

from __future__ import annotations

from orbitmq.spark.jobs.traces.latency import Latency


def test_a_latency_is_a_row_of_the_report():
    assert Latency("t", "g", 1, 1.0, 2.0, 3.0, 4)._asdict()["p99_ms"] == 3.0
