"""One call of a user's handler, async or not, with a time limit; and the log of handlers that fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import TracebackType
from typing import TypeVar

from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue

T = TypeVar("T")


async def call_handler(handler: Callable[[T], Awaitable[object] | object], argument: T, timeout_ms: int) -> None:
    """Call a handler and wait until it has ended.

    Args:
        timeout_ms: an async handler that takes longer is cancelled.

    Raises:
        Exception: what the handler raises; TimeoutError when it takes too long.
    """
    try:
        result = handler(argument)
        if isawaitable(result):
            async with asyncio.timeout(timeout_ms / 1000):
                await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Not the task that handles messages was cancelled, but something that the handler waited for. Passed on, it
        # would end that task for ever.
        raise RuntimeError("what the handler waited for was cancelled") from error


log = logging.getLogger(__name__)

TRACEBACK_INTERVAL_S = 60.0
"""A traceback costs more time than most messages: one that was logged is not logged again for so long."""
PLACES_MAX = 256


class FailureLog:
    """Logs every failure of a handler: in full the first time that it comes from a line of code, then in one line.

    Args:
        group: the consumer group.
        clock: tells the time in seconds.
    """

    def __init__(self, group: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._group = group
        self._clock = clock
        self._places: dict[tuple[type[BaseException], str, int], float] = {}
        """When the traceback of an error from a line of a file was logged."""

    def failed(self, error: BaseException, what: str, *details: object) -> None:
        """Log that a handler failed.

        Args:
            error: what it raised.
            what: a format for `details`: on which messages.
        """
        if self._is_new(error):
            log.error(f"group %s: the handler failed on {what}", self._group, *details, exc_info=error)
        else:
            # No second line of the error's text: one failure, one line.
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            log.error(f"group %s: the handler failed on {what}: %s", self._group, *details, text)

    def undecodable(self, message: StoredMessage, queue: MessageQueue) -> None:
        """Log that a message is kept from the handler, which would take the stored bytes for its body."""
        log.error(
            "group %s: message %s of %s at offset %d cannot be decoded, it is given up: %s",
            self._group, message.message_id, queue, message.queue_offset, message.decode_error,
        )  # fmt: skip

    def _is_new(self, error: BaseException) -> bool:
        place, now_s = (type(error), *_line_of(error.__traceback__)), self._clock()
        logged_s = self._places.get(place)
        if logged_s is not None and now_s < logged_s + TRACEBACK_INTERVAL_S:
            return False
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[place] = now_s
        return True


def _line_of(trace: TracebackType | None) -> tuple[str, int]:
    """Return the file and the line that raised."""
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
