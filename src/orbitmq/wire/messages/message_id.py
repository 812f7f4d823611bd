"""Both forms of a message's id: the broker's (where it lies) and the client's (unique key). Pure.

```
offset message id   | IP 4 or 16 | port 4 | physical offset 8 |                 hex, 32 or 56 characters
unique key          | IP 4 or 16 | pid 2 | seed 4 | ms since month start 4 | counter 2 |      the same lengths
```
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Host

_OFFSET_LENGTH = 16


def offset_message_id(host: Host, physical_offset: int) -> str:
    """Return the id by which a broker finds the message again: its address and the message's place in its log."""
    return f"{_host_part(host)}{physical_offset:016X}"


def parse_offset_message_id(message_id: str) -> tuple[Host, int]:
    """Take an offset message id apart.

    Returns:
        (broker address, physical offset).

    Raises:
        InvalidArgument: not 32 or 56 hexadecimal digits.
    """
    host, offset = _host_of(message_id[:-_OFFSET_LENGTH]), _bytes_of(message_id[-_OFFSET_LENGTH:])
    if host is None or offset is None:
        raise InvalidArgument("message_id", message_id, "an offset message id of 32 or 56 hexadecimal digits")
    return host, int.from_bytes(offset, "big")


@lru_cache(maxsize=64)
def _host_of(digits: str) -> Host | None:
    raw = _bytes_of(digits)
    if raw is None or len(raw) not in (8, 20):
        return None
    return Host(str(ip_address(raw[:-4])), int.from_bytes(raw[-4:], "big"))


def _bytes_of(digits: str) -> bytes | None:
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    return raw if 2 * len(raw) == len(digits) else None  # blanks are not digits


class UniqueKeys:
    """Makes unique keys (UNIQ_KEY) for one client process.

    Args:
        ip: the client's address; any stable one will do.
        pid: the process id; its lower 16 bits are used.
        seed: 32 bits that tell clients with the same address and pid apart.
    """

    def __init__(self, ip: str, pid: int, seed: int) -> None:
        fixed = ip_address(ip).packed + (pid & 0xFFFF).to_bytes(2, "big") + (seed & 0xFFFFFFFF).to_bytes(4, "big")
        self._fixed = fixed.hex().upper()
        self._counter = 0
        self._month_start_ms = 0
        self._month_end_ms = 0

    def next(self, now_ms: int) -> str:
        """Return the next key. Readers take the month from their own clock, so time is kept within it."""
        if not self._month_start_ms <= now_ms < self._month_end_ms:
            self._month_start_ms, self._month_end_ms = _month_of(now_ms)
        count = self._counter
        self._counter = (count + 1) & 0xFFFF
        return f"{self._fixed}{now_ms - self._month_start_ms:08X}{count:04X}"

    def reserve(self, now_ms: int, count: int) -> tuple[str, int]:
        """Take the next `count` keys, at most 65,536, for callers that write them out together.

        Returns:
            What all of them begin with, and the counter of the first; the counter is 16 bits, and follows in hexadecimal.
        """
        first = self.next(now_ms)
        self._counter = (self._counter + count - 1) & 0xFFFF
        return first[:-4], int(first[-4:], 16)


def _month_of(now_ms: int) -> tuple[int, int]:
    """Return start and end of the local month, in ms. (Local, because Java's clients read it so.)"""
    first = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp() * 1000), int(following.timestamp() * 1000)


@lru_cache(maxsize=1024)
def _host_part(host: Host) -> str:
    return (ip_address(host.ip).packed + host.port.to_bytes(4, "big")).hex().upper()
