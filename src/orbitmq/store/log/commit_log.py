"""The CommitLog: every message of a broker, one record after another. Source: docs/formats/commit_log.md.

It knows bytes, offsets and times; which queue offset a message has, and whether it may be read, is decided in `store.py`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from operator import add, ne
from pathlib import Path
from struct import error as StructError
from typing import NoReturn
from zlib import crc32

from orbitmq.errors import CorruptRecord, FileCut, InvalidArgument, StoreError, StoreUnavailable
from orbitmq.model.message import PROPERTIES_SIZE_MAX, Host
from orbitmq.store.disk import Buffer, Disk, DiskFile
from orbitmq.store.log.open_files import OpenFiles
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.store.values import Draft
from orbitmq.wire.messages.record import (
    BLANK_SIZE_MIN,
    CRC_MASK,
    CRC_PROPERTY_SIZE,
    HEADS,
    LONG,
    LOST_SECTOR,
    LOST_SECTOR_SIZE,
    MAGIC_BLANK,
    PREFIX,
    PROPERTIES_SIZE,
    STORED_AT_AT,
    Record,
    crc_property,
    format_host,
    parse_record,
    queue_offset_in,
)

log = logging.getLogger(__name__)

RESERVE_SIZE = 1024 * 1024

RECORD_HEAD_SIZE = STORED_AT_AT + 20
"""Bytes of a record up to behind its store time, with an IPv6 host before it."""
_V4_SIZE = 8
_HOST_FLAGS = 0x30
FEW_RECORDS = 256
"""Records that are gathered one by one; of more it is looked which of them lie one behind the other."""


class CommitLog:
    """Appends records to segments and reads them back.

    Args:
        segment_size: bytes of each file; a record never spans two.
        store_host: this broker's address, as it stands in every record.
        record_crc: append the whole record's checksum to its properties.
        open_files: see SegmentLog.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        segment_size: int,
        *,
        store_host: Host,
        record_crc: bool = False,
        open_files: OpenFiles | None = None,
    ) -> None:
        self.log = SegmentLog(disk, directory, segment_size, RESERVE_SIZE, open_files=open_files)
        self.end = 0
        """Where the next record goes, in bytes."""
        self.on_cut: list[Callable[[FileCut], None]] = []
        """Called when a file was cut from outside, before the reader of its bytes gets StoreUnavailable."""
        self._record_size_max = segment_size - BLANK_SIZE_MIN
        self.record_crc = record_crc
        self._properties_size_max = PROPERTIES_SIZE_MAX - (CRC_PROPERTY_SIZE + 1 if record_crc else 0)
        self._store_host = format_host(store_host)
        store_flag = 0 if len(self._store_host) == _V4_SIZE else 0x20
        self._v4_head = HEADS[store_flag >> 4]
        self._v6_head = HEADS[store_flag >> 4 | 1]
        self._v4_flag = store_flag
        self._v6_flag = store_flag | 0x10
        # The segment that is being written, in plain attributes for `append`.
        self._written: Segment | None = None
        self._file: DiskFile | None = None
        self._buffer: Buffer = bytearray()
        self._base = 0
        self._room_end = 0

    @property
    def min_offset(self) -> int:
        """The first byte that there is."""
        return self.log.base

    def append(self, draft: Draft, magic: int, topic_part: bytes, queue_offset: int, stored_at_ms: int) -> int:
        """Write one record at `end`.

        Args:
            magic: as `topic_part`, from `format_topic`.
            topic_part: the topic with its size before it.

        Returns:
            The record's size; it starts at `end` minus that.

        Raises:
            InvalidArgument: the record does not fit the format or a segment.
            StoreUnavailable: the disk is full; nothing was written.
        """
        (
            _topic, queue_id, body, properties, flag, sys_flag, born_at_ms, born_host, reconsume_times,
            prepared_transaction_offset, _tag_code,
        ) = draft  # fmt: skip
        born = format_host(born_host)
        if len(born) == _V4_SIZE:
            head = self._v4_head
            sys_flag = sys_flag & ~_HOST_FLAGS | self._v4_flag
        else:
            head = self._v6_head
            sys_flag = sys_flag & ~_HOST_FLAGS | self._v6_flag
        properties_size = len(properties)
        # Zeros are how a sector looks that a power cut has lost. No checksum covers properties, so zeros must not be
        # stored: recovery could not tell them from a torn record.
        if properties_size > LOST_SECTOR_SIZE or properties[-1:] == b"\0":
            self.check_properties(properties)
        if self.record_crc:
            if properties and properties[-1] != 2:
                properties += b"\x02"
            properties_size = len(properties) + CRC_PROPERTY_SIZE
        body_size = len(body)
        size = head.size + body_size + len(topic_part) + 2 + properties_size
        start = self.end - self._base
        # Room for a filler's head is kept behind every record: closing a segment must not fail on a full disk.
        if start + size + BLANK_SIZE_MIN > self._room_end:
            self.make_room(size)
            start = self.end - self._base
        try:
            # One bytes object and one copy into the map: packing field by field touches the map a dozen times.
            record = (
                head.pack(
                    size, magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, self.end, sys_flag, born_at_ms,
                    born, stored_at_ms, self._store_host, reconsume_times, prepared_transaction_offset, body_size,
                )
                + body + topic_part + PROPERTIES_SIZE.pack(properties_size) + properties
            )  # fmt: skip
        except StructError as error:
            raise InvalidArgument("message", draft.topic, f"numbers that the record can hold ({error})") from error
        if self.record_crc:
            record += crc_property(record)
        self._buffer[start : start + size] = record
        self.end += size
        return size

    def append_copy(self, content: bytes, physical_offset: int) -> None:
        """Write a record of another broker's log at the place that it has there.

        Raises:
            StoreError: it does not go here.
            StoreUnavailable: the disk is full; nothing was written.
        """
        if not self.log.segments:
            if physical_offset % self.log.segment_size:
                raise StoreError(f"no file of {self.log.segment_size} bytes begins at {physical_offset}")
            with self._disk_room():
                self.log.extend(base=physical_offset)
            self.end = physical_offset
            self._enter(physical_offset)
        if physical_offset != self.end:
            raise StoreError(f"a record of {physical_offset} does not go to {self.end}")
        room = self.log.segment_size - self.end % self.log.segment_size
        if len(content) + BLANK_SIZE_MIN > room:
            raise StoreError(f"a record of {len(content)} bytes does not go into the {room} that are left of the file")
        start = self.end - self._base
        # Disk space is reserved ahead, since a full disk under a mapping is a SIGBUS and not an error.
        if start + len(content) + BLANK_SIZE_MIN > self._room_end:
            self.make_room(len(content))
            start = self.end - self._base
        self._buffer[start : start + len(content)] = content
        self.end += len(content)

    def close_segment(self, size: int) -> None:
        """Fill up the segment as another broker's log has it. Raises StoreError where it has not `size` bytes left."""
        segment = self.log.find(self.end)
        if segment is None or segment.end - self.end != size:
            raise StoreError(f"a filler of {size} bytes does not go to {self.end}")
        self._fill(segment.end)

    def make_room(self, size: int) -> None:
        """Make sure that `size` bytes and the filler's head can be written; fill up the segment where they do not fit.

        Raises:
            InvalidArgument: more than a segment holds.
            StoreUnavailable: the disk is full; nothing was written.
        """
        if size > self._record_size_max:
            raise InvalidArgument("message", f"{size} bytes", f"a record of at most {self._record_size_max} bytes")
        self.check_written()
        with self._disk_room():
            segment = self.log.find(self.end)
            if segment is not None and segment.end - self.end < size + BLANK_SIZE_MIN:
                self._fill(segment.end)
                segment = None
            if segment is None:
                segment = self.log.find(self.end) or self.log.extend()
                self._enter(self.end)
            self._room_end = segment.reserve(self.end - segment.base + size + BLANK_SIZE_MIN)

    @contextmanager
    def _disk_room(self) -> Iterator[None]:
        """Raise StoreUnavailable where the disk gives no room."""
        try:
            yield
        except OSError as error:
            what = "no space left on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
            raise StoreUnavailable(f"{self.log.directory} takes no more messages: {what}") from error

    def make_room_for(self, drafts: Sequence[Draft]) -> None:
        """Make sure that all of these can be appended, next to each other where one segment can hold them.

        Raises: as `append`.
        """
        total = 0
        for draft in drafts:
            self.check_properties(draft.properties)
            total += record_size_max(draft.topic, len(draft.body) + len(draft.properties))
        self.make_room_together(total)

    def make_room_together(self, total: int) -> None:
        """Make room for records of so many bytes in all, where one segment can hold them. Raises as `make_room`."""
        if self.end - self._base + total + BLANK_SIZE_MIN > self._room_end and total <= self._record_size_max:
            self.make_room(total)

    def start(self, end: int) -> None:
        """Go on writing at `end`; what lies behind it is cut off."""
        self.log.truncate(end)
        self.end = end
        # No room anywhere: the next append asks for it, and enters the segment that it gets.
        self._base = end
        self._room_end = 0
        if self.log.find(end) is not None:
            self._enter(end)

    def close(self) -> None:
        """Close every file."""
        if self._written is not None:
            self._written.release()
            self._written = self._file = None
        self.log.close()

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return `size` bytes from `physical_offset` on, fewer where the segment ends.

        The caller has checked that they lie before `end`; below `min_offset` there is nothing.
        """
        segment = self.log.find(physical_offset)
        if segment is None:
            return b""
        start = physical_offset - segment.base
        return bytes(self._look(segment)[start : start + size])

    def join(self, runs: list[tuple[int, int]]) -> bytes:
        """Return the bytes of all runs, each (start, end) within one segment, in one piece: one copy."""
        # Views of a map keep it open as long as they live: they end with this method, what it returns is a copy.
        slices: list[memoryview] = []
        base = segment_end = 0
        view = memoryview(b"")
        for start, end in runs:
            if not base <= start < segment_end:
                segment = self.log.find(start)
                assert segment is not None, "the consume queue leads into the log"
                base, segment_end, view = segment.base, segment.end, memoryview(self._look(segment))
            slices.append(view[start - base : end - base])
        return b"".join(slices)

    def gather(self, offsets: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Return the bytes of records in one piece: of those that lie in the segment of the lowest one, if it is there.

        Args:
            offsets: where each begins; at least one.
        """
        segment = self.log.find(min(offsets))
        if segment is None:
            return b""
        base, view = segment.base, memoryview(self._look(segment))
        if len(offsets) > FEW_RECORDS:
            # Records that lie one behind the other are one slice.
            ends = list(map(add, offsets, sizes))
            cuts = list(compress(range(1, len(ends)), map(ne, ends, offsets[1:])))
            runs = zip([0, *cuts], [*cuts, len(ends)], strict=True)
            return b"".join([view[offsets[first] - base : ends[stop - 1] - base] for first, stop in runs])
        return b"".join(
            [view[offset - base : offset - base + size] for offset, size in zip(offsets, sizes, strict=True)]
        )

    def look(self, physical_offset: int) -> tuple[int, int, Buffer]:
        """Return base, end and bytes of the segment that holds a byte; good until another file is opened."""
        segment = self.log.find(physical_offset)
        assert segment is not None, "the consume queue leads into the log"
        return segment.base, segment.end, self._look(segment)

    def stored_at_ms(self, physical_offset: int) -> int:
        """Return the store time of the record that starts there, 0 where no record can be."""
        if physical_offset + RECORD_HEAD_SIZE > self.end:
            return 0
        return stored_at_in(self.read(physical_offset, RECORD_HEAD_SIZE))

    def record_at(self, physical_offset: int, *, check_crc: bool = True) -> bytes | None:
        """Return the record that starts at `physical_offset` and ends before `end`, None when none does."""
        return self.whole_at(physical_offset, check_crc=check_crc)[0]

    def parsed_at(self, physical_offset: int, *, check_crc: bool = False) -> Record | None:
        """Return the parsed record that starts there and ends before `end`, None when none does."""
        return self.whole_at(physical_offset, check_crc=check_crc)[1]

    def whole_at(self, physical_offset: int, *, check_crc: bool = False) -> tuple[bytes, Record] | tuple[None, None]:
        """Return the record that starts there and ends before `end`, as it is and parsed; None twice when none does."""
        if not self.min_offset <= physical_offset < self.end:
            return None, None
        base, segment_end, buffer = self.look(physical_offset)
        start = physical_offset - base
        size = int.from_bytes(buffer[start : start + 4], "big")
        if size > min(self.end, segment_end) - physical_offset:
            return None, None
        encoded = bytes(buffer[start : start + size])
        try:
            found = parse_record(encoded, physical_offset, check_crc=check_crc)
        except CorruptRecord:
            return None, None
        return (encoded, found) if isinstance(found, Record) else (None, None)

    def queue_offset_at(
        self, physical_offset: int, size: int, queue_id: int, topic: str, form: tuple[int, bytes]
    ) -> int:
        """Return the queue offset of the record of a queue that starts there, -1 when none of this size does; no checksums.

        Args:
            form: of `format_topic`.
        """
        segment = self.log.find(physical_offset)
        if segment is None or size <= 0 or physical_offset + size > min(self.end, segment.end):
            return -1
        found = queue_offset_in(
            self._look(segment), physical_offset - segment.base, size, physical_offset, queue_id, *form
        )
        if found is not None:
            return found
        record = self.parsed_at(physical_offset)
        if record is None or (record.size, record.topic, record.queue_id) != (size, topic, queue_id):
            return -1
        return record.queue_offset

    def rewrite(self, start: int, end: int) -> None:
        """Write these bytes once more and sync them: an earlier sync may have failed unseen. Raises OSError."""
        # After a failed write-back Linux marks pages clean and reports the error once: a sync by the next process
        # would succeed without writing them. Writing makes them dirty again (apache/rocketmq#2706).
        for segment in self.log.between(start, end):
            low, high = max(start - segment.base, 0), min(end, segment.end) - segment.base
            buffer = segment.buffer
            for at in range(low, high, RESERVE_SIZE):
                stop = min(at + RESERVE_SIZE, high)
                buffer[at:stop] = bytes(buffer[at:stop])
            segment.file.sync()

    def check_written(self) -> None:
        """Make sure that the segment that is being written still has its size. Raises StoreUnavailable."""
        if self._file is not None and not self._file.is_whole():
            self._refuse(FileCut(f"{self._written and self._written.path} was cut short from outside"))

    def _look(self, segment: Segment) -> Buffer:
        """Return a segment's bytes, which are all there: a look at what was cut off would kill the process."""
        try:
            file = segment.file
            if file.is_whole():
                return file.buffer
            raise FileCut(f"{segment.path} was cut short from outside")
        except FileCut as error:
            self._refuse(error)

    def _refuse(self, error: FileCut) -> NoReturn:
        for tell in self.on_cut:
            tell(error)
        raise StoreUnavailable(f"{error}: what was in it is gone") from error

    def _fill(self, segment_end: int) -> None:
        """Close the segment with a filler; its head was reserved along with the record before it."""
        size = segment_end - self.end
        start = self.end - self._base
        segment = self.log.find(self.end)
        assert segment is not None
        segment.reserve(start + BLANK_SIZE_MIN)
        PREFIX.pack_into(self._buffer, start, size, MAGIC_BLANK)
        self.end = segment_end

    def _enter(self, position: int) -> None:
        """Write into the segment that holds `position` from now on."""
        segment = self.log.find(position)
        assert segment is not None
        # The one before it was synced, so it may be closed now.
        self._file = segment.hold()
        self._buffer = self._file.buffer
        if self._written is not None:
            self._written.release()
        self._written = segment
        self._base = segment.base
        segment.reserve_from(position - segment.base)
        self._room_end = 0

    def check_properties(self, properties: bytes) -> None:
        """Refuse properties that a record cannot hold, or that would look like those of a torn record."""
        if len(properties) > self._properties_size_max:
            raise InvalidArgument(
                "properties", f"{len(properties)} bytes", f"at most {self._properties_size_max} bytes"
            )
        if properties[-1:] == b"\0" or LOST_SECTOR in properties:
            raise InvalidArgument("properties", "zeros at the end or 512 in a row", "names and values of text")


def record_size_max(topic: str, size: int) -> int:
    """Return how many bytes a message with body and properties of `size` bytes takes at most, checksum and all."""
    return HEADS[3].size + len(topic.encode()) + 2 + size + CRC_PROPERTY_SIZE + 3


def stored_at_in(head: bytes) -> int:
    """Return the store time (ms) in the first bytes of a record, 76 of them; 0 where there are fewer."""
    if len(head) < RECORD_HEAD_SIZE:
        return 0
    at = STORED_AT_AT + 12 if head[39] & 0x10 else STORED_AT_AT
    stored_at: int = LONG.unpack_from(head, at)[0]
    return stored_at
