"""The index files of a store, oldest first: which of them are trusted, and how the next one is begun.

A file that cannot be what was written is moved into the quarantine, together with those after it, and the index is built
again from the log from there on. After a stop that was not orderly only that is trusted which the note `indexed`, or for
full files the checkpoint, covers.

Source: Java IndexService; docs/formats/index_file.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import localtime, strftime

from orbitmq.clock import Clock
from orbitmq.errors import IndexDamaged
from orbitmq.store.disk import Disk
from orbitmq.store.index.index_file import IndexFile, IndexWriter
from orbitmq.store.index.layout import SLOT_SIZE, IndexNote, IndexSizes, flaw_of

log = logging.getLogger(__name__)

_NAME_LENGTH = 17
_LOOKED_MAX = 1_000
"""Messages that are looked at to see whether a file is missing; those without keys may go on for ever."""
_SAMPLES = 16


def index_name(now_ms: int) -> str:
    """Return the name of a file that is begun now: local time, as Java writes it."""
    return f"{strftime('%Y%m%d%H%M%S', localtime(now_ms / 1000))}{now_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Say whether a file of the directory is an index file."""
    return len(name) == _NAME_LENGTH and name.isascii() and name.isdecimal()


class IndexFiles:
    """The files of one directory.

    Args:
        quarantine: where a file is moved that cannot be trusted.
        keys_at: tells of the record that starts at a place of the log (bytes) where it ends, and how many keys it has;
            0 and 0 where none does.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        sizes: IndexSizes,
        *,
        quarantine: Path,
        clock: Clock,
        keys_at: Callable[[int], tuple[int, int]],
    ) -> None:
        self.files: list[IndexFile] = []
        self.set_aside: list[Path] = []
        """Files that were moved into the quarantine since the start."""
        self.known_keys = 0
        """So many keys of the first message where the index goes on have entries already, in files before."""
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._quarantine = quarantine
        self._clock = clock
        self._keys_at = keys_at
        self._covered: IndexNote | None = None
        self._is_prepared = False
        self._newest_name = ""
        """Of the files that were set aside: what covered it must not cover another one of its name."""

    @property
    def last(self) -> IndexFile | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def load(self, note: IndexNote | None, *, is_clean: bool, full_ms: int, log_min: int, log_end: int) -> int:
        """Find the files, and decide which are trusted.

        Args:
            is_clean: the broker's last stop was orderly, ours or Java's.
            full_ms: full files that end at this time or earlier are on the disk, says the checkpoint.

        Returns:
            Where the index goes on, in bytes of the log.
        """
        self.files = [
            IndexFile(self._disk, self._directory / name, self._sizes)
            for name in self._disk.names(self._directory)
            if is_index_name(name)
        ]
        self._covered = None
        if not is_clean or not (note is None or note.is_whole):
            self._forget_uncovered(note, full_ms, log_end)
        self._drop_flawed(log_end)
        self._drop_behind_gap(log_min)
        if note is not None and self._is_of_last(note) and not self._has_entries_at(note.position):
            return self._within(note.position, log_min, log_end)
        return self.behind_last(log_min)

    def _is_of_last(self, note: IndexNote) -> bool:
        last = self.last
        if last is None:
            return not note.file  # no message before the place has a key
        return last.path.name == note.file and (self._covered is not None or note.header == last.header)

    def _has_entries_at(self, position: int) -> bool:
        """Say whether some keys of the message where the index goes on have entries already."""
        last = self.last
        return last is not None and last.header.next_number > 1 and last.header.end_offset >= position

    def _forget_uncovered(self, note: IndexNote | None, full_ms: int, log_end: int) -> None:
        """Remove what cannot be trusted after a crash."""
        names = [file.path.name for file in self.files]
        if note is not None and note.file in names and note.position <= log_end:
            self._remove_behind(names.index(note.file) + 1)
            self._covered = note
            return
        if note is not None and not note.file and not note.is_whole:
            # The checkpoint may mean a file that was set aside: it does not cover the one in its place.
            self._remove_behind(0)
            return
        is_last_word = False
        for at, file in enumerate(self.files):
            if self._has_size(file):
                file.load_header()
                file.close()
                # Of two that end in the millisecond that the checkpoint names, it may have meant the first.
                if not file.is_full or file.header.end_ms > full_ms or is_last_word:
                    self._remove_behind(at)
                    return
                is_last_word = file.header.end_ms == full_ms

    @property
    def is_unverified(self) -> bool:
        """Say whether slots may lead behind the last file's end: `prepare` puts that right."""
        return self._covered is not None

    def prepare(self, log_min: int) -> int | None:
        """Read what writing into the last file needs. It waits until something is written, so that a start does not.

        Returns:
            Where the index goes on instead, because the file cannot be trusted; None: as before.

        Raises:
            OSError: the disk does not let it; it is as before.
        """
        last, position = self.last, None
        if last is not None and not last.is_full:
            position = self._prepare_last(last, log_min)
        self._is_prepared, self._covered = True, None
        return position

    def _prepare_last(self, last: IndexFile, log_min: int) -> int | None:
        writer = IndexWriter(self._disk, last.path, self._sizes, last.header)
        try:
            writer.load_slots()
            is_valid = self._covered is None or writer.cut(self._covered.header)
        except BaseException:
            writer.release()
            raise
        last.close()
        if is_valid:
            # Whether slots are missing is counted when a search comes: a start does not wait for it.
            writer.are_slots_counted = last.are_slots_counted
            self.files[-1] = writer
            return None
        writer.release()
        self._set_aside_from(len(self.files) - 1, "a slot leads to an entry that was lost")
        return self.behind_last(log_min)

    @property
    def is_prepared(self) -> bool:
        """Say whether `prepare` was called."""
        return self._is_prepared

    def writer(self) -> IndexWriter:
        """Return the file that is being filled; the next one where the last is full. Raises OSError."""
        last = self.last
        if isinstance(last, IndexWriter) and not last.is_full:
            return last
        name = index_name(self._clock())
        before = max(self._newest_name, "" if last is None else last.path.name)
        if name <= before:
            name = f"{int(before) + 1:0{_NAME_LENGTH}d}"
        writer = IndexWriter(
            self._disk, self._directory / name, self._sizes, since_ms=0 if last is None else last.header.end_ms
        )
        try:
            writer.make()  # an error comes before it counts
        except OSError:
            writer.release()
            raise
        writer.is_ours = True
        self.files.append(writer)
        return writer

    def seal(self, writer: IndexWriter) -> None:
        """Put a full file that is on the disk in the place of its writer."""
        sealed = IndexFile(self._disk, writer.path, self._sizes, writer.header)
        sealed.is_ours, sealed.are_slots_counted = writer.is_ours, writer.are_slots_counted
        self.files[self.files.index(writer)] = sealed
        writer.release()

    def uncounted_before(self, file: IndexFile, size_max: int) -> list[IndexFile]:
        """Return files before one whose slots are not counted yet, the newest first: as many as have so many bytes with it."""
        at = self.files.index(file) if file in self.files else 0
        found = [one for one in reversed(self.files[:at]) if not (one.is_ours or one.are_slots_counted)]
        return found[: max(size_max // (self._sizes.slots * SLOT_SIZE) - 1, 0)]

    def move_away(self, name: str, why: str) -> None:
        """Move a file that a search has found damaged away, with those after it. May run on another thread.

        Searches begin with the newest file: those before it are looked at first, or each would be rebuilt in its turn.

        Raises:
            OSError: the disk does not let it; once more, and those that are left follow.
        """
        at = next((at for at, file in enumerate(self.files) if file.path.name >= name), len(self.files))
        for earlier, file in enumerate(self.files[:at]):
            if not (file.is_ours or file.are_slots_counted):
                try:
                    file.slots_check()()
                    file.are_slots_counted = True
                except IndexDamaged as error:
                    at, why = earlier, str(error)
                    break
        self._set_aside_from(at, why)

    def expired(self, log_min: int) -> IndexFile | None:
        """Take out the oldest file, when all of its messages are gone; the last one stays. Its file is the caller's."""
        if len(self.files) < 2 or self.files[0].header.end_offset >= log_min:
            return None
        return None if isinstance(self.files[0], IndexWriter) else self.files.pop(0)

    def close(self) -> None:
        """Close every file."""
        for file in self.files:
            file.release() if isinstance(file, IndexWriter) else file.close()

    def _within(self, position: int, log_min: int, log_end: int) -> int:
        if position in (log_min, log_end) or position < log_min or self._keys_at(position)[0]:
            return max(position, log_min)
        self._set_aside_from(0, f"{position} is no place where a record begins")
        return log_min

    def behind_last(self, log_min: int) -> int:
        """Return the place behind the last message that has entries."""
        self.known_keys = 0
        while (last := self.last) is not None:
            end_offset = last.header.end_offset
            if last.header.next_number <= 1:
                self._remove_behind(len(self.files) - 1)
                continue
            if end_offset < log_min:
                return log_min
            end, key_count = self._keys_at(end_offset)
            if end:
                # The rest of its keys may have been in a file that is not there any more.
                known = self._count_last_keys(end_offset, key_count)
                self.known_keys = known if known < key_count else 0
                return end_offset if self.known_keys else end
            self._set_aside_from(len(self.files) - 1, f"its last message, at {end_offset}, is not in the log")
        return log_min

    def _count_last_keys(self, place: int, count_max: int) -> int:
        """Count the entries that lead to a place, from the last one back."""
        count = 0
        for file in reversed(self.files):
            number = file.header.next_number - 1
            while number > 0 and count < count_max and file.entry(number).physical_offset == place:
                count += 1
                number -= 1
            file.close()
            if number or count >= count_max:
                break
        return count

    def _drop_flawed(self, log_end: int) -> None:
        end_offset = 0
        for at, file in enumerate(self.files):
            flaw = self._flaw(file, end_offset, log_end)
            if flaw is not None:
                self._set_aside_from(at, flaw)
                return
            end_offset = file.header.end_offset

    def _drop_behind_gap(self, log_min: int) -> None:
        """Set files aside before which one is missing: the keys of its messages would not be found, and that would go unnoticed."""
        place = log_min
        for at, file in enumerate(self.files):
            header = file.header
            if header.next_number > 1 and self._are_keys_between(place, header.begin_offset):
                self._set_aside_from(at, f"keys of messages from {place} on, before its first, are in no file")
                return
            place = self._keys_at(header.end_offset)[0]
            if not place:
                return

    def _are_keys_between(self, start: int, end: int) -> bool:
        """Say whether one of the first messages between two places has keys."""
        for _ in range(_LOOKED_MAX):
            if start >= end:
                return False
            start, key_count = self._keys_at(start)
            if key_count or not start:
                return key_count > 0
        return False

    def _flaw(self, file: IndexFile, after: int, log_end: int) -> str | None:
        """Return why a file cannot be trusted, None when nothing speaks against it: a few entries are looked at."""
        if not self._has_size(file):
            return f"it has {self._disk.size(file.path)} bytes, configured are {self._sizes.file_size}"
        try:
            file.load_header()
            if self._covered is not None and file is self.files[-1]:
                file.header = self._covered.header
            header = file.header
            flaw = flaw_of(header, self._sizes)
            if header.next_number <= 1 and file is not self.files[-1]:
                return "it has no entries"
            if flaw is None and header.next_number > 1:
                if not after <= header.begin_offset or header.end_offset >= max(log_end, 1):
                    return f"it is of messages from {header.begin_offset} to {header.end_offset}, which cannot be"
                flaw = _flaw_of_entries(file)
            return flaw
        finally:
            file.close()

    def _has_size(self, file: IndexFile) -> bool:
        return self._disk.size(file.path) == self._sizes.file_size

    def _set_aside_from(self, first: int, why: str) -> None:
        """Move files away, the last one first: no gap comes to be. Those of this run show nothing, and go."""
        while len(self.files) > first:
            file = self.files[-1]
            target = self._free_path(file.path.name)
            if file.is_ours:
                self._disk.remove(file.path)
            else:
                self._disk.move(file.path, target)
            self.files.pop()
            self._newest_name = max(self._newest_name, file.path.name)
            file.release() if isinstance(file, IndexWriter) else file.close()
            if file.is_ours:
                continue
            self.set_aside.append(target)
            reason = why if len(self.files) == first else "it follows one that cannot be trusted"
            log.warning(
                "the index file %s is not trusted, %s: it is in %s now, and the index is rebuilt from the log",
                file.path, reason, target,
            )  # fmt: skip

    def _free_path(self, name: str) -> Path:
        paths = (self._quarantine / f"index-{name}-{number}" for number in count(1))
        return next(path for path in paths if not self._disk.exists(path))

    def _remove_behind(self, first: int) -> None:
        """Remove files that cannot be trusted: they were begun shortly before a crash."""
        for file in reversed(self.files[first:]):
            file.close()
            self._disk.remove(file.path)
            log.info("the index file %s was not finished when the last run ended: it is written again", file.path)
        del self.files[first:]


def _flaw_of_entries(file: IndexFile) -> str | None:
    header = file.header
    span = header.next_number - 1
    for number in sorted({1 + span * sample // _SAMPLES for sample in range(_SAMPLES)} | {span}):
        entry = file.entry(number)
        if (
            entry.key_hash < 0
            or not header.begin_offset <= entry.physical_offset <= header.end_offset
            or not 0 <= entry.previous < number
        ):
            return f"its entry {number} cannot be one"
        if number == 1 and entry.physical_offset != header.begin_offset:
            return "its first entry is not of its first message"
        if number == span and entry.physical_offset != header.end_offset:
            return "its last entry is not of its last message"
    return None
