"""Offsets live in Spark's checkpoint: whenever a job dies, its successor loses and repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq import Message
from spark.older import since

pytestmark = [pytest.mark.spark, pytest.mark.proof]

JOB = Path(__file__).with_name("stream_job.py")


def kill_after_batches(count: int, *arguments: str) -> None:
    """Run the job and end it and all its workers by SIGKILL once `count` micro-batches are through."""
    job = subprocess.Popen(
        [sys.executable, str(JOB), *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        for _ in range(count):
            assert job.stdout.readline().startswith("batch"), f"the job ended by itself with {job.wait()}"
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        job.stdout.close()


@since("4.2", "limits micro-batches")
def test_externals_230_a_stream_that_is_killed_loses_and_repeats_nothing(
    spark, rocketmq_session, topic, send, stream, tmp_path
):
    send(Message(topic, f"{n}".encode()) for n in range(2000))
    kill_after_batches(2, rocketmq_session.name_servers, topic, str(tmp_path))
    send(Message(topic, f"{n}".encode()) for n in range(2000, 2100))
    stream()

    rows = spark.read.parquet(str(tmp_path / "out")).select("queueId", "queueOffset", "body").collect()
    assert sorted(int(row.body) for row in rows) == list(range(2100))
    assert len({(row.queueId, row.queueOffset) for row in rows}) == 2100
