"""The files of a CommitLog as a query finds them: which there are, where the log ends, and what no sync covers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from orbitmq.errors import ConfigError, CorruptRecord
from orbitmq.spark.commitlog.scan import RECORD_SIZE_MAX, RecordBlock, SegmentScan
from orbitmq.store.inspection.layout import SizedFile, log_files, usual_size
from orbitmq.store.inspection.log_walk import LogFile
from orbitmq.store.inspection.reading import ReadOnlyFile, is_running, read_small
from orbitmq.store.sync.checkpoint import StoreCheckpoint, parse_checkpoint
from orbitmq.wire.messages.record import Record, parse_record

log = logging.getLogger(__name__)

_CHECKPOINT_SIZE_MAX = 1 << 20


@dataclass(frozen=True)
class FoundLog:
    """A log as it was at one moment.

    `end` is where reading ends; `checked_from` is from where on bodies' checksums are compared, because nothing says that
    the bytes were synced. `missing` are ranges between files. All are bytes of the log.
    """

    files: Sequence[LogFile]
    end: int
    checked_from: int
    missing: Sequence[tuple[int, int]]


def find_log(path: str) -> FoundLog:
    """Look at a log: at its directory, or at the store that has it as `commitlog`.

    A running broker's log ends at the position that the broker calls confirmed; where it names none (Java's does only with
    a controller), and for a broker that is stopped, at the last whole record.

    Raises:
        ConfigError: there are no such files.
        OSError: they cannot be read.
    """
    directory = Path(path) / "commitlog" if (Path(path) / "commitlog").is_dir() else Path(path)
    found = log_files(directory)
    if not found:
        raise ConfigError("commitLogPath", path, "a directory with a CommitLog's files on every machine of the query")
    root = directory.parent
    files = _with_logical_sizes(found)
    missing = [(one.end, two.base) for one, two in pairwise(files) if one.end < two.base]
    checkpoint = parse_checkpoint(read_small(root / "checkpoint", _CHECKPOINT_SIZE_MAX) or b"")
    is_live = is_running(root)
    if is_live and checkpoint.confirmed_offset > files[0].base:
        end = min(checkpoint.confirmed_offset, files[-1].end)
        return FoundLog(files, end, end, missing)
    end = _last_end(files)
    is_orderly = not is_live and not (root / "abort").exists()
    return FoundLog(files, end, end if is_orderly else _covered(checkpoint, files, end), missing)


def _with_logical_sizes(found: Sequence[SizedFile]) -> list[LogFile]:
    """Return the files as long as they are in the log: one that was cut short lacks what is behind its end."""
    usual = usual_size((file.size for file in found), 0)
    next_bases = [*(file.base for file in found[1:]), None]
    files = []
    for file, next_base in zip(found, next_bases, strict=True):
        size = max(file.size, usual) if next_base is not None else file.size
        files.append(LogFile(file.base, size if next_base is None else min(size, next_base - file.base), file.path))
    return files


def _covered(checkpoint: StoreCheckpoint, files: Sequence[LogFile], end: int) -> int:
    """Return up to where the bytes were synced for sure; without a word of the checkpoint, the last file was not."""
    last = next(file.base for file in reversed(files) if file.base <= end)
    return max(checkpoint.durable_offset or last, files[0].base)


def _last_end(files: Sequence[LogFile]) -> int:
    """Return where the last whole record of a log ends; files that were made ahead hold none."""
    for file in reversed(files):
        end = _end_within(file)
        if end > file.base:
            return end
    return files[0].base


def _end_within(file: LogFile) -> int:
    with ReadOnlyFile(file.path) as content:
        scan = SegmentScan(content, file.base, file.size)
        ranges = list(content.data_ranges(0, file.size))
        # Most of a file need not be walked: a little before where its data ends is enough, if a record is there.
        near = max(0, (ranges[-1][1] if ranges else 0) - 2 * RECORD_SIZE_MAX)
        for begin in dict.fromkeys((near, 0)):
            start = scan.first_record(begin, file.size)
            end = None if start is None else _end_of_walk(scan, start)
            if end is not None:
                return end
    return file.base


def _end_of_walk(scan: SegmentScan, start: int) -> int | None:
    end, stored_at_ms = None, 0
    damage: list[int] = []
    for run in scan.runs(start, scan.size, lambda start, _end: damage.append(start)):
        first = _whole_record(run, run.starts[0])
        if damage and first is not None and first.stored_at_ms < stored_at_ms:
            # What Java's broker has cut off stays in the file behind the log's end (apache/rocketmq#10666).
            break
        damage.clear()
        last = next((found for at in reversed(run.starts) if (found := _whole_record(run, at)) is not None), None)
        if last is not None:
            end, stored_at_ms = last.physical_offset + last.size, last.stored_at_ms
    return end


def _whole_record(run: RecordBlock, at: int) -> Record | None:
    try:
        found = parse_record(run.raw[at:], run.physical_offset + at)
    except CorruptRecord:
        return None
    return found if isinstance(found, Record) else None
