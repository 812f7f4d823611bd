"""The garbage collector of a worker: what it still looks at behind a task."""

import gc

import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from orbitmq.spark import worker
from orbitmq.spark.commitlog.options import FileOptions
from orbitmq.spark.commitlog.reader import FileReader
from orbitmq.spark.reading.readers import read_partition
from orbitmq.spark.schema import spark_schema


@pytest.fixture(autouse=True)
def _thawed():
    worker._freeze.cache_clear()
    yield
    gc.unfreeze()
    worker._freeze.cache_clear()


def test_a_worker_collects_no_modules_behind_its_tasks(monkeypatch):
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    worker.spare_loaded_modules()
    frozen = gc.get_freeze_count()
    of_a_task = [[number] for number in range(10_000)]
    worker.spare_loaded_modules()

    assert frozen > 1000
    # It falls where something that is frozen comes to its end by itself.
    assert gc.get_freeze_count() < frozen + len(of_a_task) / 2, "what a task leaves behind is collected"


def test_a_driver_is_left_alone():
    worker.spare_loaded_modules()

    assert gc.get_freeze_count() == 0


def read_topic():
    return read_partition(InputPartition(None), None, ())


def read_files():
    return FileReader(spark_schema(["topic"]), FileOptions(path="")).read(InputPartition(None))


@pytest.mark.parametrize("read", [read_topic, read_files])
def test_tasks_that_read_spare_their_worker(monkeypatch, read):
    monkeypatch.setattr(TaskContext, "_taskContext", object())

    assert list(read()) == []
    assert gc.get_freeze_count() > 0
