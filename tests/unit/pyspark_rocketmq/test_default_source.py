"""Spark finds the data source by itself, and pays next to nothing for it in sessions that do not use it."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_rocketmq


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
