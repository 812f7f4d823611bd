"""A worker's garbage collector, what it still looks at behind a task; and its allocator, what it keeps."""

import gc
import platform
import resource
import sys
from subprocess import run

import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from orbitmq.spark import worker
from orbitmq.spark.commitlog.options import FileOptions
from orbitmq.spark.commitlog.reader import FileReader
from orbitmq.spark.reading.readers import read_partition
from orbitmq.spark.schema import spark_schema


@pytest.fixture(autouse=True)
def freezes(monkeypatch):
    """Count how often the collector is told to pass over what is there."""
    freezes = []
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(True))
    worker._prepare.cache_clear()
    yield freezes
    worker._prepare.cache_clear()


def test_a_worker_collects_no_modules_behind_its_tasks_but_what_a_task_leaves(monkeypatch, freezes):
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    worker.prepare_worker()
    worker.prepare_worker()

    assert freezes == [True]


def test_a_driver_is_left_alone(freezes):
    worker.prepare_worker()

    assert freezes == []


def read_topic():
    return read_partition(InputPartition(None), None, ())


def read_files():
    return FileReader(spark_schema(["topic"]), FileOptions(path="")).read(InputPartition(None))


@pytest.mark.parametrize("read", [read_topic, read_files])
def test_tasks_that_read_spare_their_worker(monkeypatch, freezes, read):
    monkeypatch.setattr(TaskContext, "_taskContext", object())

    assert list(read()) == []
    assert freezes == [True]


CHURN = """
import resource
from pyspark import TaskContext
from orbitmq.spark.worker import prepare_worker
TaskContext._taskContext = object() if {is_prepared} else None
prepare_worker()

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        held = [bytearray(b"x") * (1 << 20) for _ in range(12)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(2)
print(faults(10))
"""


@pytest.mark.real
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of another C library")
def test_a_worker_keeps_the_memory_that_the_next_answers_need():
    plain, prepared = (
        int(run([sys.executable, "-c", CHURN.format(is_prepared=each)], capture_output=True, check=True).stdout)
        for each in (False, True)
    )

    pages = 12 * (1 << 20) // resource.getpagesize()
    assert prepared < pages / 10 < plain, "of ten times as many"
