"""A batch that is written exactly once is run again under the id of its run, and sends nothing twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from orbitmq.errors import SendFailed
from orbitmq.spark.exactly_once import delivery
from orbitmq.spark.sink import BatchWriter
from unit.spark.exactly_once.topics import rows, stored

SCHEMA = StructType([StructField("body", BinaryType())])


@pytest.fixture(autouse=True)
def _new_process():
    delivery._searched.clear()


def write(options, run_id, count=100):
    """Write rows as a driver and its task do that know of no other run."""
    delivery._searched.clear()
    writer = BatchWriter(SCHEMA, replace(options, run_id=run_id), False)
    writer.commit([writer.write(rows(0, count))])


def test_a_second_run_with_the_same_id_sends_nothing_twice(once):
    write(once, "orders-2026-11-25")
    write(once, "orders-2026-11-25")

    assert stored(once) == Counter(range(100))


def test_runs_of_other_ids_send_their_own_rows(once):
    write(once, "orders-2026-11-25")
    write(once, "orders-2026-11-26")

    assert stored(once) == Counter(dict.fromkeys(range(100), 2))


def test_a_run_that_was_written_before_with_other_rows_fails(once):
    write(once, "r")

    with pytest.raises(SendFailed, match=r"run r was written before, with 100 rows, and has 30 rows now"):
        write(once, "r", 30)


def test_a_run_that_was_written_before_says_so(once, caplog):
    write(once, "r")
    assert "was written before" not in caplog.text

    write(once, "r")
    assert "run r was written before" in caplog.text
