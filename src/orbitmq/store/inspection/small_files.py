"""The check of the small files next to the logs: begin, rebuild, deleted, jumps, abort, and what lies in quarantine."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from pathlib import Path

from orbitmq.store.inspection.issues import RESTORE, Issue, note
from orbitmq.store.inspection.layout import list_names
from orbitmq.store.inspection.log_walk import LogFile, LogWalk
from orbitmq.store.inspection.reading import ReadOnlyFile, read_small
from orbitmq.store.log.clock_jumps import parse_clock_jumps
from orbitmq.store.log.segment import segment_name
from orbitmq.store.log.start_offset import parse_start_offset
from orbitmq.store.quarantine import NOTE_ENDING, REPLACED
from orbitmq.store.queues.deletions import parse_deletions
from orbitmq.store.queues.rebuild import parse_rebuild_mark
from orbitmq.wire.messages.record import Record

_CHECKED: Mapping[str, tuple[Callable[[bytes], Sized], str]] = {
    "rebuild": (
        parse_rebuild_mark,
        "start the broker, or run `orbitmq store rebuild`: either begins the rebuilding again",
    ),
    "deleted": (parse_deletions, f"{RESTORE}; without it deleted topics may come back"),
    "jumps": (
        parse_clock_jumps,
        f"{RESTORE}; without it searches by time may miss messages that a wrong clock has stored",
    ),
}
"""Files of lines: how many can be understood, and what to do about others."""
SMALL_SIZE_MAX = 256 << 20
QUARANTINED = "commitlog-"
_ZEROS_CUT = 2
"""Recovery copies up to the last byte that is not a zero: the size of a last record's properties, when it has none, is missing."""


def check_small_files(root: Path, log_start: int, *, is_live: bool) -> Iterator[Issue]:
    """Yield what is wrong with the files of a store that are neither log, queue nor configuration.

    Args:
        log_start: the CommitLog's first byte.
        is_live: a broker runs.
    """
    yield from _check_begin(root, log_start)
    for name, (parse, remedy) in _CHECKED.items():
        content = yield from _content(root, name)
        if content is not None:
            damage = _check_lines(name, content, len(parse(content)), remedy)
            if damage is not None:
                yield damage
            elif name == "rebuild" and not is_live:
                yield Issue(name, None, f"the rebuilding of {len(parse(content))} queues was interrupted", remedy)
    if not is_live and (root / "abort").exists():
        yield note("abort", "the last stop was not an orderly one", "the next start reads again what may be missing")
    yield from check_quarantine(root)


def check_quarantine(root: Path) -> Iterator[Issue]:
    """Yield what recovery has set aside, and what is wrong with it."""
    for path in _named_as_quarantined(root):
        name = str(path.relative_to(root))
        if not path.is_file():
            yield Issue(name, None, "is not a regular file", "move it elsewhere; nothing reads it")
            continue
        try:
            count = sum(1 for _ in records_in(path))
        except OSError as error:
            yield Issue(name, None, f"cannot be read: {error.strerror}", RESTORE)
            continue
        if _reason_of(path) == REPLACED:
            yield note(
                name, "another master's records have replaced these bytes: they were never acknowledged", "delete it"
            )
        elif count:
            what = f"{count} whole records that recovery has set aside"
            yield Issue(name, None, what, "`orbitmq store salvage` brings them back")
        else:
            yield note(name, "bytes that recovery has set aside, no whole record among them", "delete it")


def quarantined(root: Path) -> list[Path]:
    """Return the files that recovery has set aside, the first bytes of the log first; what else has such a name is none."""
    return [path for path in _named_as_quarantined(root) if path.is_file()]


def _named_as_quarantined(root: Path) -> list[Path]:
    directory = root / "quarantine"
    return [
        directory / name
        for name in list_names(directory)
        if name.startswith(QUARANTINED) and not name.endswith(NOTE_ENDING) and _offset_of(name) is not None
    ]


def records_in(path: Path) -> Iterator[Record]:
    """Yield the whole records in a file that recovery has set aside. Raises OSError."""
    with ReadOnlyFile(path) as file:
        size = file.size
    base = _offset_of(path.name) or 0
    for found in LogWalk([LogFile(base, size + _ZEROS_CUT, path, _ZEROS_CUT)]).run():
        if isinstance(found, Record):
            yield found


def _offset_of(name: str) -> int | None:
    """Return where the bytes of a quarantined file lay, by its name: commitlog-<offset>-<n>."""
    offset, _, number = name.removeprefix(QUARANTINED).partition("-")
    return int(offset) if offset.isdecimal() and number.isdecimal() else None


def _reason_of(path: Path) -> object:
    """Return why a quarantined file was set aside, None when its note does not say so."""
    try:
        return json.loads(read_small(path.with_name(path.name + NOTE_ENDING), 1 << 20) or b"")["reason"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _check_begin(root: Path, log_start: int) -> Iterator[Issue]:
    """Yield what the broker knows of the log's start, and the log has not."""
    content = yield from _content(root, "begin")
    begin = parse_start_offset(content or b"")
    if content is not None and begin is None:
        yield Issue("begin", 0, "cannot be read", "the next start writes it again")
    elif begin is not None and begin < log_start:
        what = f"the log began here, and begins at {log_start} now: files are missing"
        yield Issue(f"commitlog/{segment_name(begin)}", begin, what, RESTORE)


def _check_lines(path: str, content: bytes, understood_count: int, remedy: str) -> Issue | None:
    """Judge a file of lines by how many of them could be understood."""
    count = len([line for line in content.split(b"\n") if line])
    if not content:
        return Issue(path, 0, "is empty", remedy)
    if understood_count < count or not content.endswith(b"\n"):
        return Issue(path, 0, f"{max(count - understood_count, 1)} of {count} lines cannot be read", remedy)
    return None


def _content(root: Path, name: str) -> Generator[Issue, None, bytes | None]:
    """Read a small file; yield why it cannot be read. Returns None when there is none."""
    try:
        return read_small(root / name, SMALL_SIZE_MAX)
    except OSError as error:
        yield Issue(name, None, f"cannot be read: {error.strerror}", RESTORE)
        return None
