"""Changes of files, as something to await."""

from __future__ import annotations

import asyncio
from typing import Any


async def saved(change: Any, *arguments: Any) -> None:
    """Ask for a change and wait until it is saved; raises why it was not."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    change(*arguments, done)
    await future
