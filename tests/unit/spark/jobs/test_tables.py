"""The plan of a growth; tests/spark/jobs lets tables grow."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs import tables as module
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.tables import (
    Growth,
    Part,
    QueueCount,
    batch_name,
    finish_merges,
    grow,
    merge_small_files,
    parts_of,
    plan_merges,
    run_to_end,
)
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
    options = {"nameServer": "n:1", "topic": "t", "startingOffsets": "earliest", "includeDecodeError": "true"}
    if limits:
        options["maxOffsetsPerTrigger"] = "7"
    assert spark.told["options"] == options
    assert spark.told["foreachBatch"] == (write,)
    assert spark.told["option"] == ("checkpointLocation", str(tmp_path / "_checkpoint"))
    assert spark.told["trigger"] == {"availableNow": True}


MIB = 1024 * 1024


def part(first: int, last: int | None = None, *, files: int = 1, size: int = MIB) -> Part:
    return Part(Path(f"{first}-{last}"), first, first if last is None else last, files, size)


def ranges(parts):
    return [[(one.first, one.last) for one in run] for run in parts]


def fill(archive: Path, *names: str, day: str = "date=2013-01-01") -> Path:
    for name in names:
        directory = archive / day / f"batch={name}"
        directory.mkdir(parents=True)
        (directory / "part-0.parquet").write_bytes(b"rows")
    return archive / day


def names(day: Path) -> list[str]:
    return sorted(path.name.removeprefix("batch=") for path in day.iterdir())


def test_small_neighbours_become_one_up_to_the_size():
    parts = [part(0), part(1), part(4), part(5)]
    assert ranges(plan_merges(parts, 3 * MIB)) == [[(0, 0), (1, 1), (4, 4)]]
    assert ranges(plan_merges(parts, 4 * MIB)) == [[(0, 0), (1, 1), (4, 4), (5, 5)]]
    assert ranges(plan_merges(parts, 2 * MIB)) == [[(0, 0), (1, 1)], [(4, 4), (5, 5)]]


def test_a_large_part_is_left_alone_and_nothing_is_merged_across_it():
    parts = [part(0), part(1), part(2, size=9 * MIB), part(3), part(4)]
    assert ranges(plan_merges(parts, 8 * MIB)) == [[(0, 0), (1, 1)], [(3, 3), (4, 4)]]


def test_a_part_of_one_file_stays_and_one_of_several_becomes_one():
    assert ranges(plan_merges([part(0, 9)])) == []
    assert ranges(plan_merges([part(0, files=4)])) == [[(0, 0)]]
    assert ranges(plan_merges([])) == []


def test_a_kill_between_a_merge_and_its_deletions_is_finished(tmp_path):
    day = fill(tmp_path, batch_name(3), "b00000003-00000005", batch_name(4), batch_name(5), batch_name(6))
    finish_merges(tmp_path)
    assert names(day) == ["b00000003-00000005", "b00000006"]


def test_a_single_batch_that_was_merged_alone_is_told_from_its_merge(tmp_path):
    day = fill(tmp_path, batch_name(3), "b00000003-00000003")
    finish_merges(tmp_path)
    assert names(day) == ["b00000003-00000003"]


def test_what_was_not_finished_is_thrown_away(tmp_path):
    for left in ("_merging", ".spark-staging-1"):
        (tmp_path / left / "date=2013-01-01").mkdir(parents=True)
    day = fill(tmp_path, batch_name(0))
    finish_merges(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [day.name]
    assert names(day) == ["b00000000"]


def test_other_files_of_a_day_are_no_parts(tmp_path):
    day = fill(tmp_path, batch_name(0), "00000001", "b1")
    assert [(one.first, one.last, one.file_count, one.size) for one in parts_of(day)] == [(0, 0, 1, 4)]


class Spark:
    """Writes one file for whatever it is given; notes what that was."""

    def __init__(self):
        self.read = self.write = self
        self.merged = []
        self._parts = ()

    def parquet(self, *paths):
        if not self._parts:
            self._parts = paths
            return self
        Path(paths[0]).mkdir()
        (Path(paths[0]) / "part-0.parquet").write_bytes(b"merged")
        self.merged.append([Path(path).name for path in self._parts])
        self._parts = ()
        return self

    def repartition(self, count):
        assert count == 1
        return self

    def sortWithinPartitions(self, *columns):  # noqa: N802
        assert columns == ("brokerName", "queueId", "queueOffset")
        return self

    def mode(self, mode):
        assert mode == "overwrite"
        return self


def test_each_days_files_become_one(tmp_path):
    first = fill(tmp_path, batch_name(0), batch_name(1))
    second = fill(tmp_path, batch_name(1), "b00000002-00000003", day="date=2013-01-02")
    spark = Spark()

    assert merge_small_files(spark, tmp_path) == 2

    assert names(first) == ["b00000000-00000001"]
    assert names(second) == ["b00000001-00000003"]
    assert spark.merged[0] == ["batch=b00000000", "batch=b00000001"]
    assert merge_small_files(spark, tmp_path) == 0


@pytest.mark.parametrize("number", [0, 12, 123_456_789])
def test_the_name_of_a_batch_is_read_again(tmp_path, number):
    assert [one.first for one in parts_of(fill(tmp_path, batch_name(number)))] == [number]


class Query:
    """A query that ends after some looks at it."""

    def __init__(self, batches, error=None):
        self.recentProgress = []
        self._left, self._error, self.stopped = list(batches), error, False

    def awaitTermination(self, seconds):  # noqa: N802
        if not self._left:
            if self._error:
                raise self._error
            return True
        self.recentProgress.append({"numInputRows": self._left.pop(0)})
        return False

    def stop(self):
        self.stopped = True


def test_rows_are_told_while_a_query_runs_and_at_its_end():
    query, told = Query([3, 4]), []

    assert run_to_end(lambda: query, told.append) == 7

    assert told == [3, 7, 7]
    assert query.stopped


def test_a_query_that_fails_is_one_sentence():
    query = Query([3], StreamingQueryException("the topic is gone\nat java.lang.Thread"))

    with pytest.raises(JobFailed, match="the topic is gone") as raised:
        run_to_end(lambda: query, lambda rows: None)

    assert "Thread" not in str(raised.value)
    assert query.stopped


def test_an_interrupted_query_is_stopped():
    query = Query([], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_to_end(lambda: query, lambda rows: None)
    assert query.stopped
