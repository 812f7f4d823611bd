"""Spark finds the data source by itself, and pays next to nothing for it in sessions that do not use it."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_rocketmq
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema


def test_the_package_is_what_spark_looks_for():
    assert issubclass(pyspark_rocketmq.DefaultSource, DataSource)
    assert pyspark_rocketmq.DefaultSource.name() == "rocketmq"


@pytest.mark.real
def test_looking_it_up_loads_nothing_of_orbitmq():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, pyspark_rocketmq; print([m for m in sys.modules if m.startswith('orbitmq')])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.strip() == "[]"


def test_methods_keep_the_parameter_names_that_spark_calls_them_by():
    for name in ("reader", "streamReader", "writer", "streamWriter"):
        ours = inspect.signature(getattr(pyspark_rocketmq.DefaultSource, name))
        assert list(ours.parameters) == list(inspect.signature(getattr(DataSource, name)).parameters)


@pytest.mark.parametrize("make", ["reader", "streamReader"])
def test_a_group_that_is_made_of_its_prefix_is_the_same_on_the_driver_and_in_its_tasks(make):
    source = pyspark_rocketmq.DefaultSource({"nameServer": "h:1", "topic": "orders", "groupIdPrefix": "jobs"})
    driver, tasks = (
        getattr(pickle.loads(pickle.dumps(source)), make)(spark_schema(COLUMN_NAMES))._options.group for _ in range(2)
    )

    assert driver == tasks
    assert driver.startswith("jobs-")


def test_each_query_has_a_group_of_its_own_for_a_prefix():
    def group():
        source = pyspark_rocketmq.DefaultSource({"nameServer": "h:1", "topic": "orders", "groupIdPrefix": "jobs"})
        return source.reader(spark_schema(COLUMN_NAMES))._options.group

    assert group() != group()
