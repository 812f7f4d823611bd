"""The building of the index behind the log: from a place of its own it reads up to the readable end, slice by slice.

No message pays for it when it is stored: hundreds are read, hashed and written together. What the disk refuses waits, and
is written by the next slice.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from orbitmq.errors import CorruptRecord
from orbitmq.store.index.hashes import hash_keys
from orbitmq.store.index.index_file import IndexWriter
from orbitmq.store.index.index_files import IndexFiles
from orbitmq.store.index.keys import KeyReader, NotedKeys
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.scanning import whole_records
from orbitmq.wire.messages.record import PREFIX

log = logging.getLogger(__name__)

SLICE_SIZE = 128 * 1024
_KEYS_PER_SLICE = 512
_WORDS_USUAL = 4
"""Keys of a message that has more than its own one. Others have at most 33 that are noted: some ten milliseconds a slice."""
_NOTED_MAX = 16_384
_SEALS_MAX = 2
"""So many full files may wait for the disk before the next one is filled."""


class IndexBuilder:
    """Adds the entries of one message after another.

    Args:
        readable_end: tells how far the log may be read, in bytes.
    """

    def __init__(self, commit_log: CommitLog, files: IndexFiles, readable_end: Callable[[], int]) -> None:
        self.position = 0
        """Every message before this place of the log (bytes) has its entries, but for those that wait for the disk."""
        self.noted: deque[NotedKeys] = deque(maxlen=_NOTED_MAX)
        """Messages whose keys were known when they were stored: those need not be read from the log again."""
        self.unsealed: deque[IndexWriter] = deque()
        """Full files that are not on the disk yet, oldest first."""
        self._commit_log = commit_log
        self._files = files
        self._readable_end = readable_end
        self._reader = KeyReader()
        self._hashes: list[int] = []
        self._offsets: list[int] = []
        self._times_ms: list[int] = []

    @property
    def behind(self) -> int:
        """Bytes of the log that wait for their entries."""
        return max(self._readable_end() - max(self.position, self._commit_log.min_offset), 0) + bool(self._hashes)

    @property
    def is_writing(self) -> bool:
        """Return True if entries wait for the disk."""
        return bool(self._hashes)

    def step(self) -> bool:
        """Add the entries of one slice of the log.

        Returns:
            True: it may go on. False: it has caught up, or waits for full files to get to the disk.

        Raises:
            OSError: the disk does not take entries; the next step tries again.
            StoreUnavailable: the log's file was cut.
        """
        if len(self.unsealed) >= _SEALS_MAX:
            return False
        if not self._hashes:
            end = self._readable_end()
            # What was deleted needs no entries any more.
            self.position = max(self.position, min(self._commit_log.min_offset, end))
            if self.position >= end:
                return False
            self._read(end)
        self._put()
        return True

    def begin_again(self, position: int) -> None:
        """Go on at an earlier place of the log: files that had the entries behind it are gone."""
        self.position = position
        self.unsealed = deque(writer for writer in self.unsealed if writer in self._files.files)
        self._hashes, self._offsets, self._times_ms = [], [], []

    def _read(self, end: int) -> None:
        reader = self._reader
        reader.clear()
        used = self._take_noted(end) or self._read_log(end)
        hashes = hash_keys(reader.keys, reader.starts)
        self.position += used
        self._hashes, self._offsets, self._times_ms = hashes, reader.offsets, reader.times_ms

    def _take_noted(self, end: int) -> int:
        """Take what was noted of the next messages, if that is whole; return how many bytes of the log they are."""
        noted, place = self.noted, self.position
        while noted and noted[0][0] < place:
            noted.popleft()
        if not noted or noted[0][0] != place:
            return 0
        count_max = _KEYS_PER_SLICE // _WORDS_USUAL if noted[0][-1] else _KEYS_PER_SLICE
        taken = [noted.popleft() for _ in range(min(len(noted), count_max))]
        # With SYNC_FLUSH the disk has to have them first; and others may lie between them, op messages between half messages.
        used, size = self._reader.take_noted(taken, place, end)
        noted.extendleft(reversed(taken[used:]))
        return size

    def _read_log(self, end: int) -> int:
        """Read the keys of a slice of the log; return how many bytes were read."""
        reader, place = self._reader, self.position
        until_noted = self.noted[0][0] - place if self.noted else 0
        data = self._commit_log.read(place, min(SLICE_SIZE, end - place, until_noted or SLICE_SIZE))
        try:
            return reader.read(data, place, _KEYS_PER_SLICE) or self._read_large(data, end)
        except CorruptRecord as damage:
            return damage.physical_offset - place or self._pass_over(end)

    def _read_large(self, data: bytes, end: int) -> int:
        """Read a record that is longer than a slice."""
        place = self.position
        size = PREFIX.unpack_from(data)[0] if len(data) >= PREFIX.size else 0
        if not len(data) < size <= end - place:
            raise CorruptRecord(place, "no record begins here")
        used = self._reader.read(self._commit_log.read(place, size), place, _KEYS_PER_SLICE)
        if used != size:
            raise CorruptRecord(place, "its lengths do not add up")
        return used

    def _pass_over(self, end: int) -> int:
        """Return how many bytes to pass over, up to the next whole record behind damage."""
        place = self.position
        following = (record.physical_offset for record in whole_records(self._commit_log, place, end))
        return next((found for found in following if found > place), end) - place

    def _put(self) -> None:
        while self._hashes:
            writer = self._files.writer()
            count = writer.put(self._hashes, self._offsets, self._times_ms)
            self._hashes, self._offsets, self._times_ms = (
                self._hashes[count:], self._offsets[count:], self._times_ms[count:],
            )  # fmt: skip
            if writer.is_full:
                self.unsealed.append(writer)
