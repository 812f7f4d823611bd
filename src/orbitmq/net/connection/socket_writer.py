"""Writes to a connection's socket: straight to the kernel where nothing waits, else through the transport's buffer.

A transport keeps what is written until the end of the loop's turn. Answers are joined per read already, so that waiting
only costs; and large parts reach the kernel without being joined first, which is the greater part of serving a large
route (docs/adr/0007-writing-past-the-transport.md, benchmarks/).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

JOINED_SIZE_MAX = 4096
"""Bytes of a part from which on joining it with others costs more than naming it to the kernel."""
_PARTS_MAX = 1024
"""Parts that one system call takes (IOV_MAX)."""
_IS_SOCKET_A_FILE = os.name == "posix"


class SocketWriter:
    """Writes to one transport, in order, whichever way.

    Args:
        on_left: is called after each write of which the kernel took only a part.
    """

    __slots__ = ("_fd", "_on_left", "_transport")

    def __init__(self, transport: asyncio.Transport, on_left: Callable[[], None]) -> None:
        self._transport = transport
        self._on_left = on_left
        socket = transport.get_extra_info("socket")
        # Encrypted bytes are made by the transport: nothing may bypass it to the socket.
        is_plain = socket is not None and transport.get_extra_info("ssl_object") is None
        self._fd: int = socket.fileno() if is_plain and _IS_SOCKET_A_FILE else -1

    def write(self, parts: Sequence[bytes]) -> int:
        """Write all parts, at least one, or leave to the transport what the kernel does not take now.

        Returns:
            Their size in bytes.
        """
        transport = self._transport
        # An empty buffer is the condition for order: what waits in the transport must not be overtaken. And once the
        # transport is closing, its descriptor may soon be another connection's.
        is_direct = self._fd >= 0 and not transport.get_write_buffer_size() and not transport.is_closing()
        # A read's last answer stands for all of them: looking at each would cost more than a wrong guess.
        if len(parts[-1]) > JOINED_SIZE_MAX and len(parts) <= _PARTS_MAX:
            return self._write_apart(parts, is_direct)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        sent = 0
        if is_direct:
            try:  # noqa: SIM105 - suppress() would cost more than all else here
                sent = os.write(self._fd, data)
            except OSError:  # would block, or broken: the transport finds out, and tells the protocol
                pass
        if sent < len(data):
            transport.write(data[sent:])
            self._on_left()
        return len(data)

    def _write_apart(self, parts: Sequence[bytes], is_direct: bool) -> int:
        """Write large parts without joining them: one system call gathers them where they are."""
        size, sent = sum(map(len, parts)), 0
        if is_direct:
            try:  # noqa: SIM105
                sent = os.writev(self._fd, parts)
            except OSError:
                pass
        if sent < size:
            self._transport.writelines(_without_first(sent, parts))
            self._on_left()
        return size


def _without_first(count: int, parts: Sequence[bytes]) -> list[bytes | memoryview]:
    """Return the parts without their first `count` bytes."""
    unsent: list[bytes | memoryview] = []
    for part in parts:
        if count < len(part):
            # Mostly not a copy, for one message may wait for the readers of many connections; but a short rest must
            # not keep the whole of a large part alive.
            unsent.append(memoryview(part)[count:] if count < len(part) // 4 else part[count:])
        count = max(0, count - len(part))
    return unsent
