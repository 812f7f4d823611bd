"""Rows in order, in files: Spark writes them there, and this process reads them, a few at a time.

`toLocalIterator` would spare the files, but Spark's driver holds every part that it has handed on, until the iterator ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
"""A row by the names of its columns; `properties` is a dict."""

ROWS_PER_BATCH = 16
"""Rows that are decoded at a time: bodies have up to 4 MiB and more."""
_WRITING = {"parquet.block.size": str(16 * 2**20), "parquet.block.size.row.check.min": "10"}
"""What a task holds of the rows that it writes, and after how many rows it looks for the first time."""


@contextmanager
def spilled(rows: DataFrame, directory: Path, count: int) -> Iterator[Callable[[], Iterator[Row]]]:
    """Write rows to a directory, which is removed at the end; give a function that reads them in their order, any number of times.

    Args:
        directory: one that a killed run has left is replaced.
        count: how many rows there are.

    Raises:
        JobFailed: not all of them are in the directory: executors elsewhere have written to disks of their own.
    """
    try:
        rows.write.mode("overwrite").options(**_WRITING).parquet(f"file://{directory}")
        found = sum(_open(file).metadata.num_rows for file in _files(directory))
        if found != count:
            raise JobFailed(f"{found:,} of {count:,} rows are in {directory}: every executor has to see this directory")
        yield lambda: read_rows(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_rows(directory: Path) -> Iterator[Row]:
    """Yield the rows of a directory, part after part; never more than a few are held."""
    for file in _files(directory):
        for batch in _open(file).iter_batches(batch_size=ROWS_PER_BATCH):
            for row in batch.to_pylist():
                yield {**row, "properties": dict(row.get("properties") or ())}


def _files(directory: Path) -> list[Path]:
    """Return the files of the parts in their order: part-NUMBER-..."""
    return sorted(directory.glob("part-*.parquet"), key=lambda file: int(file.name.split("-")[1]))


def _open(file: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(file)
