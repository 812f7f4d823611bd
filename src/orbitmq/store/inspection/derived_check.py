"""The check of index files and of the timers' files, which are derived: one finding for a file, by what a start looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orbitmq.store.index.index_file import HEADER, NO_ENTRIES, IndexSizes, flaw_of, parse_header
from orbitmq.store.index.index_files import is_index_name
from orbitmq.store.inspection.issues import DIFFERS, REBUILD, RESTORE, Issue, note
from orbitmq.store.inspection.layout import SizedFile, list_names, log_files, size_of, usual_size
from orbitmq.store.inspection.reading import ReadOnlyFile, read_small
from orbitmq.store.log.segment import segment_name
from orbitmq.store.timers.checkpoint import BODY_SIZE, TimerCheckpoint, parse_timer_checkpoint
from orbitmq.store.timers.wheel import SLOT_COUNT, SLOT_SIZE

DELIVERED_AGAIN = f"{RESTORE}; without it the next start delivers again what is in the timer log"
_TIMER_LOG_FILE_SIZE = 100 * 1024 * 1024
_CHECKPOINT_SIZE_MAX = 1 << 20
_WHEEL_SIZE = 2 * SLOT_COUNT * SLOT_SIZE
_CHECKPOINT, _WHEEL = "config/timercheck", "timerwheel"


def check_index(root: Path, sizes: IndexSizes | None, log_end: int, *, is_settled: bool) -> Iterator[Issue]:
    """Yield the first index file that does not agree with the log: those behind it are rebuilt with it.

    Args:
        sizes: of the files; None: it is not known whether they have Java's usual ones.
        is_settled: the last stop was orderly, and no broker runs. Otherwise the first file that is not full ends the check:
            it is being filled, or the next start rebuilds it.
    """
    known, after = sizes or IndexSizes(), 0
    for name in filter(is_index_name, list_names(root / "index")):
        path = f"index/{name}"
        try:
            with ReadOnlyFile(root / path) as file:
                size, header = file.size, parse_header(file.read(0, HEADER.size).ljust(HEADER.size, b"\0"))
        except OSError:
            size, header = 0, NO_ENTRIES
        if sizes is None and size != known.file_size:
            yield note("index", "is not checked: its files have other sizes", "name the broker's settings with -c")
            return
        if not is_settled and header.next_number < known.entries:
            return
        if size != known.file_size or flaw_of(header, known, after, log_end) is not None:
            yield Issue(path, None, DIFFERS, REBUILD)
            return
        after = header.end_offset


def check_timers(
    root: Path, file_size: int | None, queue_end: int | None, *, is_live: bool, is_settled: bool
) -> Iterator[Issue]:
    """Yield what is wrong with the timers' checkpoint, and which file of the timer log or wheel does not agree with it.

    Args:
        file_size: mappedFileSizeTimerLog; None: as most files are.
        queue_end: of the timers' queue, in messages; None: unknown.
        is_live: a broker runs, and the files change.
        is_settled: the last stop was orderly: everything is written to its end.
    """
    files = log_files(root / "timerlog")
    if is_live:
        if files:
            yield note("timerlog", "timers are not checked while the broker runs")
        return
    try:
        content = read_small(root / _CHECKPOINT, _CHECKPOINT_SIZE_MAX)
    except OSError:
        content = b""
    checkpoint = parse_timer_checkpoint(content or b"")
    if content is None:
        if files and is_settled:
            yield Issue(_CHECKPOINT, None, "is missing", DELIVERED_AGAIN)
    elif len(content) < BODY_SIZE or (files and not any(checkpoint[:4])):
        yield Issue(_CHECKPOINT, 0, "cannot be used", DELIVERED_AGAIN)
    elif is_settled and queue_end is not None and checkpoint.queue_offset > queue_end:
        what = f"says that {checkpoint.queue_offset} messages of the timers' queue are in the wheel; it ends at {queue_end}"
        yield Issue(_CHECKPOINT, 16, what, RESTORE)
    differing = _differing_file(root, files, file_size, checkpoint)
    if differing is not None:
        yield Issue(differing, None, DIFFERS, "the next start rebuilds it")


def _differing_file(
    root: Path, files: list[SizedFile], file_size: int | None, checkpoint: TimerCheckpoint
) -> str | None:
    """Return the first file of the timer log that has not its size, or is not there; or the wheel, if it has not its size."""
    size = file_size or usual_size((file.size for file in files), _TIMER_LOG_FILE_SIZE)
    end = files[0].base if files else 0
    for file in files:
        if file.base != end or file.size != size:
            return f"timerlog/{segment_name(min(end, file.base))}"
        end += size
    if files and end < checkpoint.log_position:
        return f"timerlog/{segment_name(end)}"
    return _WHEEL if files and size_of(root / _WHEEL) not in (None, _WHEEL_SIZE) else None
