"""Frames of classic replication, both ways. Pure: bytes in any slices in, values out.

    slave to master:  | 0  max physical offset 8 |
    master to slave:  | 0  physical offset 8 | 8  size 4 | 12  bytes of the CommitLog, `size` |

All numbers are big-endian. A size of 0 is a heartbeat; its offset is the next byte to be sent.

Source: Java DefaultHAClient, DefaultHAConnection; docs/formats/replication.md.
"""

from __future__ import annotations

from struct import Struct

from orbitmq.errors import FrameError

HEADER = Struct(">qi")
REPORT = Struct(">q")


class ReportDecoder:
    """Collects a slave's bytes in any slices; each 8 of them report where its log ends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Return the last report that these bytes complete, None without one.

        Raises:
            FrameError: a report is no offset.
        """
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        offset: int = REPORT.unpack_from(data, whole - REPORT.size)[0]
        if offset < 0:
            raise FrameError(f"a slave reports {offset}, which is no offset of a log")
        return offset


def format_header(physical_offset: int, size: int) -> bytes:
    """Return what stands before `size` bytes of the log that begin at `physical_offset`."""
    return HEADER.pack(physical_offset, size)
