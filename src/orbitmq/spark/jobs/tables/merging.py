"""Small files of an archive, put together day by day.

```
date=2026-11-23/batch=b00000004/           what micro-batch 4 has of this day
date=2026-11-23/batch=b00000004-00000017/  what micro-batches 4 to 17 have: put together
```

A merged directory appears whole, by one rename, before those that it replaces are deleted. Whoever is killed between the two
leaves both, and `finish_merges` deletes the replaced ones.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_SIZE_MAX = 256 * 1024 * 1024
"""Bytes; what is larger is not put together any more."""
ORDER = ("brokerName", "queueId", "queueOffset")
_NAME = re.compile(r"batch=b(\d{8,})(?:-(\d{8,}))?")
_MERGING = "_merging"


class Part(NamedTuple):
    """A directory with the rows of some micro-batches, of one day."""

    path: Path
    first: int
    last: int
    file_count: int
    size: int


def batch_name(number: int) -> str:
    """Return the value of the column `batch` for the rows of one micro-batch."""
    return f"b{number:08}"


def merge_small_files(spark: SparkSession, archive: Path) -> int:
    """Put small files together; return how many there are fewer. No query may be writing."""
    saved = 0
    for day in _days(archive):
        for run in plan_merges(parts_of(day)):
            _merge(spark, archive / _MERGING, day, run)
            saved += sum(part.file_count for part in run) - 1
    return saved


def finish_merges(archive: Path) -> None:
    """Finish what a run has left that was killed."""
    for left in (archive / _MERGING, *archive.glob(".spark-staging-*")):
        shutil.rmtree(left, ignore_errors=True)
    for day in _days(archive):
        merged_to = -1
        for part in parts_of(day):
            if part.last <= merged_to:
                shutil.rmtree(part.path)
            else:
                merged_to = part.last


def parts_of(day: Path) -> list[Part]:
    """Return the parts of one day; one that replaces others comes before them."""
    parts = []
    for path in day.iterdir():
        if (found := _NAME.fullmatch(path.name)) is not None:
            files = [file.stat().st_size for file in path.glob("*.parquet")]
            first, last = int(found[1]), int(found[2] or found[1])
            parts.append(Part(path, first, last, len(files), sum(files)))
    return sorted(parts, key=lambda part: (part.first, -part.last, -len(part.path.name)))


def plan_merges(parts: Sequence[Part], size_max: int = FILE_SIZE_MAX) -> Iterator[list[Part]]:
    """Yield the neighbours that become one file."""
    run: list[Part] = []
    for part in parts:
        if run and sum(other.size for other in run) + part.size > size_max:
            yield from _worthwhile(run)
            run = []
        if part.size <= size_max:
            run.append(part)
    yield from _worthwhile(run)


def _worthwhile(run: list[Part]) -> Iterator[list[Part]]:
    if sum(part.file_count for part in run) > 1:
        yield run


def _merge(spark: SparkSession, workplace: Path, day: Path, run: list[Part]) -> None:
    merged = day / f"batch={batch_name(run[0].first)}-{run[-1].last:08}"
    rows = spark.read.parquet(*(str(part.path) for part in run))
    rows.repartition(1).sortWithinPartitions(*ORDER).write.mode("overwrite").parquet(str(workplace))
    workplace.rename(merged)
    for part in run:
        shutil.rmtree(part.path)


def _days(archive: Path) -> list[Path]:
    return sorted(archive.glob("date=*"))
