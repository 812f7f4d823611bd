"""One queue's messages in a broker's files: its consume queue read as columns, and the CommitLog mapped.

A copy through a socket costs more than all that is done with a record here: columns are gathered out of the mapping. What
is not in the files, or is not what the consume queue says, ends the reading; nothing is waited for and nothing is guessed.

Source: docs/formats/consume_queue.md, docs/formats/commit_log.md.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from orbitmq.errors import CorruptRecord
from orbitmq.spark.gather import Flags, Positions, gather_fields
from orbitmq.spark.reading.record_batches import Records, parse_records
from orbitmq.store.inspection.layout import SizedFile, log_files
from orbitmq.wire.messages.record import RECORD_SIZE_MIN

DECODE_SIZE = 4 * 1024 * 1024
"""Bytes of records that become one batch."""
ENTRY = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tag_code", ">i8")])
ENTRY_COUNT = 8192
"""Entries that are read in one pass."""
SEGMENT_SIZE_MAX = 2**31 - 1
"""Bytes of a file that positions in Arrow reach."""

_SIZE = np.dtype([("size", ">i4")])
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class StorePaths(NamedTuple):
    """Where a broker keeps its log and its consume queues."""

    commit_log: Path
    consume_queues: Path


class QueueFileReader:
    """Reads one queue.

    Args:
        paths: of the broker's store.

    Raises:
        OSError: the files cannot be read.
    """

    def __init__(self, paths: StorePaths, topic: str, queue_id: int) -> None:
        self._queue_id = queue_id
        self._entry_files = log_files(paths.consume_queues / topic / str(queue_id))
        self._log_files = log_files(paths.commit_log)
        if not self._entry_files or not self._log_files:
            raise FileNotFoundError(f"{paths.commit_log} has no log, or no queue {queue_id} of {topic}")
        self._mapped: dict[int, memoryview] = {}
        """Files of the log by where they begin. Batches hold them as long as they need them."""

    def end(self, begin: int, end: int) -> int:
        """Return how far the files have entries, from `begin` on and not further than `end`.

        The entry of a message may come into its file seconds after the message itself.
        """
        # Entries have no gaps: what is there before the first that is not is a prefix.
        least, most = begin, end
        while least < most:
            middle = (least + most) // 2
            if len(self._entries(middle, middle + 1)):
                least = middle + 1
            else:
                most = middle
        return least

    def record(self, queue_offset: int) -> bytes:
        """Return one message's record; nothing if it is not in the files."""
        for records in self.records(queue_offset, queue_offset + 1):
            start, size = int(records.starts[0]), int(records.head["size"][0])
            return records.data[start : start + size].tobytes()
        return b""

    def records(self, begin: int, end: int) -> Iterator[Records]:
        """Yield the records of a range in order, some megabytes at a time, as far as the files have them.

        Raises:
            CorruptRecord: a record is not what its entry says.
            OSError: a file cannot be read.
        """
        while begin < end:
            entries = self._entries(begin, min(end, begin + ENTRY_COUNT))
            if not len(entries):
                return
            for part in self._parts(entries):
                records = self._parse(part, begin)
                if records is None:
                    return
                yield records
                begin += len(part)

    def _entries(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the entries from `begin` on that one file has; fewer than asked for where it ends."""
        file = _file_of(self._entry_files, begin * ENTRY.itemsize)
        if file is None:
            return np.empty(0, ENTRY)
        descriptor = os.open(file.path, _READ_ONLY)
        try:
            raw = os.pread(descriptor, (end - begin) * ENTRY.itemsize, begin * ENTRY.itemsize - file.base)
        finally:
            os.close(descriptor)
        entries = np.frombuffer(raw, ENTRY, len(raw) // ENTRY.itemsize)
        # No entry yet, or one that stands before the first message of a queue: its size is that of no record.
        absent = np.flatnonzero((entries["size"] < RECORD_SIZE_MIN) | (entries["size"] > SEGMENT_SIZE_MAX // 2))
        return entries[: absent[0]] if len(absent) else entries

    def _parts(self, entries: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
        """Cut entries where their records go on in another file of the log, and behind DECODE_SIZE bytes."""
        bases = np.array([file.base for file in self._log_files])
        files = np.searchsorted(bases, entries["physical_offset"].astype(np.int64), side="right")
        sizes = np.cumsum(entries["size"].astype(np.int64)) // DECODE_SIZE
        cuts = np.flatnonzero((np.diff(files) != 0) | (np.diff(sizes) != 0)) + 1
        yield from np.split(entries, cuts)

    def _parse(self, entries: npt.NDArray[Any], queue_offset: int) -> Records | None:
        """Return the records that entries lead to, all in one file; None where that is gone."""
        file = _file_of(self._log_files, int(entries["physical_offset"][0]))
        if file is None:
            return None
        physical_offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
        starts = physical_offsets - file.base
        # Whatever follows takes for granted that records lie one behind the other in the file, and end where they say.
        if starts[0] < 0 or (np.diff(starts) < sizes[:-1]).any() or starts[-1] + sizes[-1] > file.size:
            raise CorruptRecord(int(physical_offsets[0]), "entries lead out of the log's file, or into one another")
        raw = self._map(file)
        said = gather_fields(np.frombuffer(raw, np.uint8), starts, _SIZE)["size"]
        _check(physical_offsets, said == sizes)
        records = parse_records(raw, starts)
        head = records.head
        as_said = (head["physical_offset"] == physical_offsets) & (head["queue_id"] == self._queue_id)
        as_said &= head["queue_offset"] == np.arange(queue_offset, queue_offset + len(entries))
        _check(physical_offsets, as_said)
        return records

    def _map(self, file: SizedFile) -> memoryview:
        if file.base not in self._mapped:
            if file.size > SEGMENT_SIZE_MAX:
                raise FileNotFoundError(f"{file.path} is larger than what positions in Arrow reach")
            descriptor = os.open(file.path, _READ_ONLY)
            try:
                self._mapped[file.base] = memoryview(mmap.mmap(descriptor, file.size, prot=mmap.PROT_READ))
            finally:
                os.close(descriptor)
        return self._mapped[file.base]


def _check(physical_offsets: Positions, as_said: Flags) -> None:
    if not as_said.all():
        raise CorruptRecord(int(physical_offsets[int(np.argmin(as_said))]), "the entry of a queue says something else")


def _file_of(files: list[SizedFile], place: int) -> SizedFile | None:
    """Return the file that has a place of a log; None where there is none."""
    index = bisect_right([file.base for file in files], place) - 1
    return files[index] if index >= 0 and place < files[index].base + files[index].size else None
