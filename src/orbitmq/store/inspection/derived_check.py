"""The check of index files and of the timers' files, which are derived: one finding for a file, by what a start looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orbitmq.store.index.index_file import HEADER, NO_ENTRIES, IndexSizes, flaw_of, parse_header
from orbitmq.store.index.index_files import is_index_name
from orbitmq.store.inspection.issues import DIFFERS, REBUILD, RESTORE, Issue, note
from orbitmq.store.inspection.layout import SizedFile, list_names, log_files, usual_size
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
    except OSError as error:
        yield Issue(_CHECKPOINT, 0, f"cannot be read: {error}", DELIVERED_AGAIN)
        content = b""
    else:
        if (files and is_settled) or content is not None:
            yield from _check_checkpoint(content, queue_end if is_settled else None, has_log=bool(files))
    checkpoint = parse_timer_checkpoint(content or b"")
    differing = _differing_file(files, file_size, checkpoint)
    if differing is not None:
        yield Issue(differing, None, DIFFERS, REBUILD)
    elif files:
        try:
            with ReadOnlyFile(root / _WHEEL) as wheel:
                if wheel.size != _WHEEL_SIZE:
                    yield Issue(_WHEEL, None, DIFFERS, REBUILD)
        except FileNotFoundError:
            yield note(_WHEEL, "is not there: the next start makes it from the timer log")
        except OSError:
            yield Issue(_WHEEL, None, DIFFERS, REBUILD)


def _check_checkpoint(content: bytes | None, queue_end: int | None, *, has_log: bool) -> Iterator[Issue]:
    if content is None:
        yield Issue(_CHECKPOINT, None, "is missing", DELIVERED_AGAIN)
        return
    checkpoint = parse_timer_checkpoint(content)
    if len(content) < BODY_SIZE:
        yield Issue(_CHECKPOINT, 0, f"has {len(content)} bytes of {BODY_SIZE}", DELIVERED_AGAIN)
    elif not any(checkpoint[:4]):
        if has_log:
            yield Issue(_CHECKPOINT, 0, "holds nothing that can be", DELIVERED_AGAIN)
    elif queue_end is not None and checkpoint.queue_offset > queue_end:
        what = f"says that {checkpoint.queue_offset} messages of the timers' queue are in the wheel; it ends at {queue_end}"
        yield Issue(_CHECKPOINT, 16, what, RESTORE)


def _differing_file(files: list[SizedFile], file_size: int | None, checkpoint: TimerCheckpoint) -> str | None:
    """Return the first file of the timer log that has not its size, or is not there."""
    size = file_size or usual_size((file.size for file in files), _TIMER_LOG_FILE_SIZE)
    end = files[0].base if files else 0
    for file in files:
        if file.base != end or file.size != size:
            return f"timerlog/{segment_name(min(end, file.base))}"
        end += size
    return f"timerlog/{segment_name(end)}" if files and end < checkpoint.log_position else None
