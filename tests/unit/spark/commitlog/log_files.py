"""Segments of a log, made of records that the tests describe, and read by copies as the real ones are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orbitmq.store.log.segment import segment_name
from orbitmq.wire.messages.record import MAGIC_BLANK, PREFIX, format_record


class Bytes:
    """A file's content in memory."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.read_size = 0

    def read_into(self, buffer: memoryview, at: int) -> int:
        found = self.raw[at : at + len(buffer)]
        self.read_size += len(found)
        buffer[: len(found)] = found
        return len(found)

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        if start < min(end, len(self.raw)):
            yield start, min(end, len(self.raw))


class LogBuilder:
    """Records back to back, each knowing where it lies."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.raw = bytearray()
        self.starts: list[int] = []
        self._offsets: dict[str, int] = {}

    @property
    def place(self) -> int:
        """Where the next byte lies in the log."""
        return self.base + len(self.raw)

    def add(self, topic: str = "orders", body: bytes = b"hello", **fields: Any) -> LogBuilder:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        self.starts.append(len(self.raw))
        given = {"queue_offset": offset, "stored_at_ms": 1000 + len(self.starts)} | fields
        self.raw += format_record(topic=topic, body=body, physical_offset=self.place, **given)
        return self

    def fill(self, size: int, rest: bytes = b"") -> LogBuilder:
        """Close the segment, which has `size` bytes; `rest` is what lies in the filler."""
        left = size - len(self.raw)
        self.raw += (PREFIX.pack(left, MAGIC_BLANK) + rest).ljust(left, b"\0")
        return self

    def write(self, directory: Path, size: int | None = None) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / segment_name(self.base)
        path.write_bytes(bytes(self.raw).ljust(size or 0, b"\0"))
        return path


def fakes(place: int, count: int, size: int = 120) -> bytes:
    """Return bytes that are records as far as can be told, if they are stored at `place`."""
    raw = b""
    for _ in range(count):
        raw += format_record(topic="fake", body=b"?".ljust(size, b"?"), physical_offset=place + len(raw))
    return raw
