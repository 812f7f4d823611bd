"""Reading the CommitLog's files as a batch: the plan in the driver, the records of a split in a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import SysFlag
from orbitmq.spark.commitlog.log import find_log
from orbitmq.spark.commitlog.options import FileOptions
from orbitmq.spark.commitlog.scan import RecordBlock, SegmentScan
from orbitmq.spark.commitlog.splits import SegmentFile, Split, split_log
from orbitmq.spark.error_messages import in_sentences
from orbitmq.spark.gather import Flags
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.record_batches import Records, parse_records
from orbitmq.spark.schema import COLUMN_NAMES, PHYSICAL_OFFSET, chosen_columns, default_columns
from orbitmq.spark.worker import prepare_worker
from orbitmq.store.inspection.reading import ReadOnlyFile
from orbitmq.wire.messages.record import parse_record

log = logging.getLogger(__name__)


def file_schema(options: FileOptions) -> StructType:
    """Return the columns that a query gets when it does not choose its own."""
    names = [*COLUMN_NAMES, PHYSICAL_OFFSET.name]
    return default_columns(names, include_body=options.include_body, include_decode_error=options.include_decode_error)


@dataclass
class FilePartition(InputPartition):  # type: ignore[misc]
    """One Spark task: a split of one file."""

    wanted: Split


@in_sentences
class FileReader(DataSourceReader):  # type: ignore[misc]
    """Reads a broker's log directory as it is when the query is planned; takes no filters of the query."""

    def __init__(self, schema: StructType, options: FileOptions) -> None:
        self._names = chosen_columns(schema)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return one task per 64 MiB."""
        found = find_log(self._options.path)
        for start, end in found.missing:
            if start < found.end:
                _lose(self._options, self._options.path, start, min(end, found.end), "the file is missing")
        segments = [SegmentFile(str(file.path), file.base, file.size) for file in found.files]
        splits = split_log(segments, found.end, found.checked_from, self._options.partition_count_min)
        return [FilePartition(split) for split in splits] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task."""
        prepare_worker()
        if isinstance(partition, FilePartition):
            yield from SplitReader(partition.wanted, self._options, self._names).batches()


class SplitReader:
    """Reads one split.

    Args:
        wanted: the split.
        options: which messages, and what a gap leads to.
        names: the columns to decode.
    """

    def __init__(self, wanted: Split, options: FileOptions, names: Sequence[str]) -> None:
        self._split = wanted
        self._options = options
        self._names = names
        self._topics: dict[str, bool] = {}
        """Whether a topic is wanted, of those met so far."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the split's messages in the order of the log.

        Raises:
            DataLoss: bytes of it are not records, or its file is gone.
        """
        split = self._split
        try:
            with ReadOnlyFile(Path(split.segment.path)) as content:
                scan = SegmentScan(content, split.segment.base, split.segment.size)
                start = split.begin and scan.first_record(split.begin, split.end)
                for run in scan.runs(split.end if start is None else start, split.end, self._damaged):
                    yield from self._decode(run)
        except FileNotFoundError:  # retention has removed it since the query was planned
            self._damaged(split.begin, split.end, "the file is gone")

    def _decode(self, run: RecordBlock) -> Iterator[pa.RecordBatch]:
        if run.physical_offset + len(run.raw) > self._split.checked_from:
            records = parse_records(run.raw, self._valid(run, self._split.checked_from))
        else:
            try:
                records = parse_records(run.raw, run.starts)
            except CorruptRecord:
                records = parse_records(run.raw, self._valid(run, self._split.segment.base + self._split.segment.size))
        options = self._options
        yield from records.where(self._wanted(records)).batches(
            self._names, options.broker_name, options.tags, fails=options.fail_on_data_loss
        )

    def _valid(self, run: RecordBlock, checked_from: int) -> list[int]:
        """Return where the records start that hold what they should; report the others."""
        valid = []
        for start in run.starts:
            place = run.physical_offset + start
            try:
                parse_record(run.raw[start:], place, check_crc=place >= checked_from)
            except CorruptRecord as error:
                size = int.from_bytes(run.raw[start : start + 4], "big")
                at = place - self._split.segment.base
                self._damaged(at, at + size, error.reason)
            else:
                valid.append(start)
        return valid

    def _wanted(self, records: Records) -> Flags:
        """Return which records the query asks for; those that no queue ever had are none."""
        kind = records.head["sys_flag"] & SysFlag.TRANSACTION_MASK
        wanted: Flags = (kind != SysFlag.TRANSACTION_PREPARED) & (kind != SysFlag.TRANSACTION_ROLLBACK)
        options = self._options
        if options.start_ms is not None:
            wanted &= records.stored_at_ms >= options.start_ms
        if options.end_ms is not None:
            wanted &= records.stored_at_ms < options.end_ms
        if options.topics or options.topic_pattern is not None:
            encoded = records.topic_names.dictionary_encode()
            chosen = np.array([self._is_wanted(topic) for topic in encoded.dictionary.to_pylist()], np.bool_)
            wanted &= chosen[np.frombuffer(encoded.indices.buffers()[1] or b"", np.int32)[: len(records)]]
        return wanted

    def _is_wanted(self, topic: str) -> bool:
        if topic not in self._topics:
            self._topics[topic] = self._options.wants_topic(topic)
        return self._topics[topic]

    def _damaged(self, start: int, end: int, reason: str = "no record begins here") -> None:
        base = self._split.segment.base
        _lose(self._options, self._split.segment.path, base + start, base + end, reason)


def _lose(options: FileOptions, path: str, start: int, end: int, reason: str) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(
            f"bytes {start} to {end - 1} of the CommitLog in {path} cannot be read: {reason}. "
            "Set failOnDataLoss to false to go on without them."
        )
    log.warning("bytes %d to %d of the CommitLog in %s cannot be read: %s; going on", start, end - 1, path, reason)
