"""Rows in files: read in order, a few at a time. tests/spark/jobs/test_resending.py lets Spark write them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orbitmq.errors import JobFailed
from orbitmq.spark.jobs import sorted_files as module
from orbitmq.spark.jobs.sorted_files import ROWS_PER_BATCH, read_rows, spilled


class Frame:
    """A DataFrame that writes parts, by their numbers."""

    def __init__(self, parts):
        self.parts = parts
        self.write = self

    def mode(self, mode):
        assert mode == "overwrite"
        return self

    def options(self, **_):
        return self

    def parquet(self, url):
        directory = Path(url.removeprefix("file://"))
        directory.mkdir()
        for number, offsets in self.parts.items():
            write(directory, number, offsets)


def write(directory, number, offsets):
    properties = pa.array(
        [[("k", "v")] if offset % 2 else None for offset in offsets], pa.map_(pa.string(), pa.string())
    )
    table = pa.table({"queueOffset": pa.array(offsets, pa.int64()), "properties": properties})
    pq.write_table(table, directory / f"part-{number:05}-a1-c000.snappy.parquet")


def offsets(rows):
    return [row["queueOffset"] for row in rows]


def test_parts_are_read_in_the_order_of_their_numbers_any_number_of_times(tmp_path):
    frame = Frame({100_000: [7], 2: [1, 2], 99_999: [6], 0: [0], 10: [3, 4, 5]})
    with spilled(frame, tmp_path / "rows", 8) as read:
        assert offsets(read()) == offsets(read()) == list(range(8))


def test_properties_are_a_dict(tmp_path):
    write(tmp_path, 0, [0, 1])
    assert [row["properties"] for row in read_rows(tmp_path)] == [{}, {"k": "v"}]


@pytest.mark.parametrize("count", [100, 20_000])
def test_no_more_rows_are_held_of_many_than_of_few(tmp_path, monkeypatch, count):
    write(tmp_path, 0, range(count))
    decoded = []

    class Counting(pq.ParquetFile):
        def iter_batches(self, **options):
            for batch in super().iter_batches(**options):
                decoded.append(batch.num_rows)
                yield batch

    monkeypatch.setattr(module, "_open", Counting)
    rows = read_rows(tmp_path)
    for number in range(80):
        assert next(rows)["queueOffset"] == number
        assert sum(decoded) <= number + ROWS_PER_BATCH


def test_the_files_are_gone_at_the_end_whatever_it_is(tmp_path):
    with pytest.raises(ZeroDivisionError), spilled(Frame({0: [0]}), tmp_path / "rows", 1):
        raise ZeroDivisionError
    assert not (tmp_path / "rows").exists()


def test_rows_that_were_written_elsewhere_are_missed(tmp_path):
    with (
        pytest.raises(JobFailed, match=r"1 of 2 rows .*every executor has to see"),
        spilled(Frame({0: [0]}), tmp_path / "rows", 2),
    ):
        pass
