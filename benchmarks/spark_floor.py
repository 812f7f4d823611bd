"""A Python data source that costs nothing: each task hands out one ready Arrow batch again and again.

What Spark takes for the rows of any source in Python, whatever it reads from: nothing that orbitmq does can be faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

BATCH_SIZE = 4 * 1024 * 1024
"""Bytes of a batch, about: as our source makes them."""


class Slice(InputPartition):  # type: ignore[misc]
    """How many rows a task hands out."""

    def __init__(self, count: int) -> None:
        super().__init__(None)
        self.count = count


class FloorSource(DataSource):  # type: ignore[misc]
    """Options: `path` (a file of one Arrow batch), `rows` and `tasks`; for streams `rowsPerBatch`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format()` is given."""
        return "floor"

    def schema(self) -> StructType:
        """Return the batch's, as the one who wrote it has told it."""
        return StructType.fromJson(json.loads(self.options["schema"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return FloorReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return FloorStreamReader(self.options)


class FloorReader(DataSourceReader):  # type: ignore[misc]
    """Hands out all rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[Slice]:
        """Return the tasks."""
        return _slices(int(self._options["rows"]), int(self._options["tasks"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        assert isinstance(partition, Slice)
        return _hand_out(self._options["path"], partition.count)


class FloorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Hands out `rowsPerBatch` rows in each micro-batch, and no more after `rows`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names
        """Return the beginning."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch may take: `rowsPerBatch` is no business of Spark's."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """There is an end in any case."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch."""
        return {"rows": min(start["rows"] + int(self._options["rowsPerBatch"]), int(self._options["rows"]))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Slice]:
        """Return the tasks."""
        return _slices(end["rows"] - start["rows"], int(self._options["tasks"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        assert isinstance(partition, Slice)
        return _hand_out(self._options["path"], partition.count)


def _slices(count: int, tasks: int) -> list[Slice]:
    return [Slice(count * (task + 1) // tasks - count * task // tasks) for task in range(tasks)]


def _hand_out(path: str, count: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    while count > 0:
        yield batch if count >= batch.num_rows else batch.slice(0, count)
        count -= batch.num_rows


def floor_options(frame: Any, path: Path, rows: int, tasks: int) -> dict[str, str]:
    """Write one batch of a frame's rows to a file; return the options of a source that hands it out."""
    found = frame.limit(64).toArrow()
    size = max(1, int(BATCH_SIZE / (found.nbytes / found.num_rows)))
    table = pa.concat_tables([found] * (size // found.num_rows + 1)).slice(0, size).combine_chunks()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_batch(table.to_batches()[0])
    return {"path": str(path), "schema": frame.schema.json(), "rows": str(rows), "tasks": str(tasks)}


def register(spark: Any) -> None:
    """Make the source known; workers get its code, wherever they were started."""
    import benchmarks.spark_floor as this

    cloudpickle.register_pickle_by_value(this)
    spark.dataSource.register(FloorSource)
