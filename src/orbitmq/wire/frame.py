"""Frames, the units of the remoting protocol, cut from bytes that arrive in any slices.

State: the bytes of at most one unfinished frame. In: bytes as the network slices them. Out: frames, or FrameError.

Source: docs/formats/wire_frame.md.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, NoReturn

from orbitmq.errors import FrameError

FRAME_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of a frame without its length prefix (Java: com.rocketmq.remoting.frameMaxLength)."""
HEADER_SIZE_MAX = 256 * 1024
"""Bytes of a header. The largest honest one carries 32,767 bytes of properties, each escaped to six."""
SERIALIZE_TYPE_MAX = 1

LENGTH = Struct(">i")
"""A frame's first field: the bytes that follow it. Signed, as in Java, so that nonsense is shown as the peer meant it."""
PREFIX = Struct(">iI")
"""The fixed fields before each header: LENGTH, then the header's serialize type (8 bits) and size (24 bits)."""
HEADER_SIZE_MASK = 0xFFFFFF
"""The part of a prefix's second field that is the header's size."""

_MARK_MAX = SERIALIZE_TYPE_MAX << 24 | HEADER_SIZE_MASK
_unpack_prefix = PREFIX.unpack_from
_new = tuple.__new__

_FOREIGN = (
    (b"PRI * HTTP/2", "HTTP/2"),
    (b"PRI ", "HTTP/2"),
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HEAD", "HTTP"),
    (b"DELE", "HTTP"),
    (b"OPTI", "HTTP"),
    (b"PATC", "HTTP"),
    (b"CONN", "HTTP"),
    (b"TRAC", "HTTP"),
    (b"SSH-", "SSH"),
    (b"\x16\x03", "TLS"),
    (b"\x03\x00", "RDP"),
    (b"PROXY ", "PROXY protocol"),
    (b"\r\n\r\n\x00\r\nQUIT\n", "PROXY protocol"),
)


class Frame(NamedTuple):
    """One whole frame: the type byte of its header, the header's bytes, the body's bytes."""

    serialize_type: int
    header: bytes
    body: bytes


class FrameDecoder:
    """Collects bytes in any slices and yields the frames they complete."""

    __slots__ = ("_frame_size_max", "_needed", "partial")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._frame_size_max = frame_size_max
        self.partial = bytearray()
        """What has arrived of the unfinished frame."""
        self._needed = 0

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Take the next bytes and return the frames that are whole now; what is kept of the bytes is copied.

        Raises:
            FrameError: a declared length or type that no frame has. Nothing was allocated for it; the stream
                cannot be read any further.
        """
        if not self.partial:
            return self._cut(data)
        self.partial += data
        if len(self.partial) < self._needed:
            return []
        assembled, self.partial = self.partial, bytearray()
        with memoryview(assembled) as view:  # megabytes are copied once
            return self._cut(view)

    def take_partial(self) -> bytes:
        """Return what has arrived of the unfinished frame, and forget it: it is going to be fed again, with what follows."""
        taken = bytes(self.partial)
        self.partial = bytearray()
        return taken

    def _cut(self, data: bytes | memoryview) -> list[Frame]:
        frames: list[Frame] = []
        start, end = 0, len(data)
        size_max = self._frame_size_max
        # This runs for every frame: 8 and 4 are PREFIX.size and LENGTH.size, written out.
        while end - start >= 8:
            size, mark = _unpack_prefix(data, start)
            header_size = mark & HEADER_SIZE_MASK
            if not 4 <= size <= size_max or header_size > size - 4 or header_size > HEADER_SIZE_MAX or mark > _MARK_MAX:
                self._refuse(size, mark >> 24, header_size, bytes(data[start : start + 16]))
            frame_end = start + 4 + size
            if frame_end > end:
                break
            header_start = start + 8
            body_start = header_start + header_size
            header, body = bytes(data[header_start:body_start]), bytes(data[body_start:frame_end])
            frames.append(_new(Frame, (mark >> 24, header, body)))
            start = frame_end
        if start < end:
            self._keep(data[start:])
        return frames

    def _refuse(self, size: int, serialize_type: int, header_size: int, first_bytes: bytes) -> NoReturn:
        if not LENGTH.size <= size <= self._frame_size_max:
            kind = sniff_foreign(first_bytes)
            hint = f" ({kind} bytes on a remoting port)" if kind else ""
            raise FrameError(f"frame of {size} bytes, allowed 4 to {self._frame_size_max}{hint}")
        if header_size > size - LENGTH.size:
            raise FrameError(f"header of {header_size} bytes in a frame of {size}")
        if header_size > HEADER_SIZE_MAX:
            raise FrameError(f"header of {header_size} bytes, limit {HEADER_SIZE_MAX}")
        raise FrameError(f"header type {serialize_type}, known are 0 (JSON) and 1 (ROCKETMQ)")

    def _keep(self, rest: bytes | memoryview) -> None:
        self.partial += rest
        if len(rest) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(rest)
            # Less than a prefix is there: a bogus length is refused as soon as the prefix is whole.
            self._needed = PREFIX.size if len(rest) < PREFIX.size else LENGTH.size + size
        else:
            self._needed = PREFIX.size


def count_frames(data: bytes, end: int) -> int:
    """Return how many frames the bytes up to `end` hold; they are known to be whole."""
    count = start = 0
    while start < end:
        (size,) = LENGTH.unpack_from(data, start)
        start += LENGTH.size + size
        count += 1
    return count


def sniff_foreign(first_bytes: bytes) -> str | None:
    """Name the protocol whose connections start like this, or None.

    No real frame starts so: read as a length, each of these prefixes is far over the limit.
    """
    for prefix, name in _FOREIGN:
        if first_bytes.startswith(prefix):
            return name
    return None
