"""The lines of stdin, as a terminal, a pipe or a file gives them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

READ_SIZE = 65_536


async def read_stdin() -> AsyncIterator[list[bytes]]:
    """Yield the lines of stdin as they come, those of one read together."""
    descriptor = sys.stdin.fileno()
    tail = b""
    while await _readable(descriptor) and (data := os.read(descriptor, READ_SIZE)):
        *lines, tail = (tail + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if tail:
        yield [tail]


async def _readable(descriptor: int) -> bool:
    """Wait for a terminal or a pipe without blocking the loop; a file is always readable."""
    import asyncio

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:
        return True
    try:
        return await ready.wait()
    finally:
        loop.remove_reader(descriptor)
