"""The slave's side of its connection: a master's bytes in any slices in, whole records out. Pure.

State: how far the master's log has come, and the record that is not whole yet. In: bytes of the connection. Out: records
and fillers in the order of the log, each checked as recovery would check it; so a slave's log never ends amid a record, and what
it reports is what it can open again.

Source: Java DefaultHAClient, which writes whatever comes and looks at it later.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, FrameError
from orbitmq.wire.messages.record import BLANK_SIZE_MIN, MAGIC_BLANK, PREFIX, Blank, Record, parse_record

HEADER = Struct(">qi")
REPORT = Struct(">q")


_HELLO = Struct(">8sqq")
_HELLO_MAGIC = b"\xffORBIT\x00\x01"
"""Read as a report it is a negative offset, which ends the connection at a master that expects none."""


class Hello(NamedTuple):
    """What a member of a controlled group sends before its first report: who it is, and of which epoch its master should be.

    It has made its log a part of that master's before.
    """

    broker_id: int
    epoch: int


def format_hello(hello: Hello) -> bytes:
    """Encode a hello."""
    return _HELLO.pack(_HELLO_MAGIC, *hello)


class HelloDecoder:
    """Collects a member's first bytes in any slices."""

    def __init__(self) -> None:
        self._content = b""

    def feed(self, data: bytes) -> tuple[Hello, bytes] | None:
        """Return the hello, and what came behind it; None while it is not whole.

        Raises:
            FrameError: it is none.
        """
        content = self._content = self._content + data
        if not _HELLO_MAGIC.startswith(content[: len(_HELLO_MAGIC)]):
            raise FrameError("a slave that is not a member of the controlled group, or another program")
        if len(content) < _HELLO.size:
            return None
        self._content = b""
        _, broker_id, epoch = _HELLO.unpack_from(content)
        return Hello(broker_id, epoch), content[_HELLO.size :]


class ReportDecoder:
    """Collects a slave's bytes in any slices; each 8 of them report where its log ends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Return the last report that these bytes complete, None without one.

        Raises:
            FrameError: a report is not an offset.
        """
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        offset: int = REPORT.unpack_from(data, whole - REPORT.size)[0]
        if offset < 0:
            raise FrameError(f"a slave reports {offset}, which is not an offset of a log")
        return offset


def format_header(physical_offset: int, size: int) -> bytes:
    """Return what stands before `size` bytes of the log that begin at `physical_offset`."""
    return HEADER.pack(physical_offset, size)


FRAME_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of the log in one frame: Java's slaves take as many."""


class FollowedLog:
    """A master's log as it arrives.

    Args:
        end: where the slave's own log ends, in bytes; 0: it is empty, and begins where the master says.
        segment_size: bytes of each file of the slave's log.
    """

    def __init__(self, end: int, segment_size: int) -> None:
        self.end = end
        """Up to here whole records and fillers have come, in bytes."""
        self.received = end
        """Up to here the log has come."""
        self._segment_size = segment_size
        self._is_empty = end == 0
        self._frames = bytearray()
        self._left = 0
        self._tail = bytearray()

    @property
    def report(self) -> int:
        """What the slave reports: what it has of whole records, and not more than it was sent."""
        return min(self.end, self.received)

    def feed(self, data: bytes) -> Iterator[tuple[Record | Blank, bytes]]:
        """Take the connection's next bytes; yield the records that they complete, each with its bytes, and fillers.

        Raises:
            FrameError: the master goes on somewhere else, or its files have another size.
            CorruptRecord: what came is not a record of a log.
        """
        self._frames += data
        while self._take_payload() or self._take_header():
            yield from self._take_records()

    def _take_header(self) -> bool:
        if len(self._frames) < HEADER.size:
            return False
        offset, size = HEADER.unpack_from(self._frames)
        if not 0 <= size <= FRAME_SIZE_MAX:
            raise FrameError(f"the master sends a frame of {size} bytes, {FRAME_SIZE_MAX} are the limit")
        # An empty log takes the master's first offset as its own start, which has to be the start of a file.
        if self._is_empty and size:
            if offset < 0 or offset % self._segment_size:
                raise FrameError(
                    f"the master begins at {offset}, and no file of {self._segment_size} bytes does: "
                    "mappedFileSizeCommitLog has to be the master's"
                )
            self.end = self.received = offset
            self._is_empty = False
        # Afterwards every frame goes on where the last one ended: a gap or a repetition is an error of the protocol.
        elif offset != self.received and not self._is_empty:
            raise FrameError(f"the master goes on at {offset}, and this log ends at {self.received}")
        del self._frames[: HEADER.size]
        self._left = size
        return True

    def _take_payload(self) -> bool:
        # Frames and records have nothing to do with one another: a record may take several frames.
        part = self._frames[: self._left]
        if not part:
            return False
        del self._frames[: len(part)]
        self._left -= len(part)
        # What is left of a filler is passed over: its head says all.
        passed_over = min(max(self.end - self.received, 0), len(part))
        self._tail += part[passed_over:]
        self.received += len(part)
        return True

    def _take_records(self) -> Iterator[tuple[Record | Blank, bytes]]:
        at = 0
        try:
            while len(self._tail) - at >= PREFIX.size:
                size, magic = PREFIX.unpack_from(self._tail, at)
                # A record never crosses the end of a file; a filler takes exactly what is left of it.
                room = self._segment_size - self.end % self._segment_size
                if magic == MAGIC_BLANK:
                    if size != room:
                        raise CorruptRecord(self.end, f"filler of {size} bytes where a file has {room} left")
                    # Only the head of a filler was needed: its bytes may not even have come yet.
                    content = b""
                    found: Record | Blank = Blank(size)
                else:
                    if not PREFIX.size < size <= room - BLANK_SIZE_MIN:
                        raise CorruptRecord(self.end, f"record of {size} bytes where a file has {room} left")
                    # The rest of this record comes with a later frame.
                    if size > len(self._tail) - at:
                        return
                    content = bytes(self._tail[at : at + size])
                    found = parse_record(content, self.end)
                    assert isinstance(found, Record), "another magic was seen above"
                at = min(at + size, len(self._tail))
                self.end += size
                yield found, content
        finally:
            # Once for all records of a call: deleting at the front moves every byte behind.
            del self._tail[:at]
