"""The plan of a growth; tests/spark/jobs lets tables grow."""

from __future__ import annotations

from io import StringIO

import pytest

from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.frame.checks import QueueCount
from orbitmq.spark.jobs.frame.cluster import Cluster
from orbitmq.spark.jobs.frame.screen import Screen
from orbitmq.spark.jobs.tables import growing as module
from orbitmq.spark.jobs.tables.growing import Growth, grow
from orbitmq.wire.bodies.topics import QueueStats

QUEUE, OTHER = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


class Writer:
    """Spark's stream, as far as the plan asks for it: it notes what it was told."""

    def __init__(self):
        self.readStream = self.writeStream = self
        self.told = {}

    def __getattr__(self, name):
        def tell(*values, **named):
            self.told[name] = named or values
            return self

        return tell


@pytest.fixture
def growth(tmp_path):
    return Growth("t", tmp_path, "earliest", 7, "archived")


@pytest.mark.parametrize("limits", [True, False])
def test_a_table_grows_from_where_it_ends_to_where_the_topic_ends(limits, monkeypatch, growth, tmp_path):
    goal = {QUEUE: QueueStats(2, 10), OTHER: QueueStats(0, 5)}
    monkeypatch.setattr(Cluster, "topic_stats", lambda self, topic: goal)
    monkeypatch.setattr(module, "LIMITS_STREAMS", limits)
    monkeypatch.setattr(module, "run_to_end", lambda start, on_rows: (start(), on_rows(9)))
    spark, stream, write = Writer(), StringIO(), object()

    assert grow(spark, Cluster("n:1"), growth, {QUEUE: QueueCount(4, 4, 2, 5)}, write, Screen(stream)) == goal

    assert "archived: 9 of 9" in stream.getvalue()
    options = {"nameServer": "n:1", "topic": "t", "startingOffsets": "earliest"}
    if limits:
        options["maxOffsetsPerTrigger"] = "7"
    assert spark.told["options"] == options
    assert spark.told["foreachBatch"] == (write,)
    assert spark.told["option"] == ("checkpointLocation", str(tmp_path / "_checkpoint"))
    assert spark.told["trigger"] == {"availableNow": True}
