"""Group commit: changes of a file that become visible, and are answered, when they are on disk.

The event loop never waits for the disk: a thread writes, one file at a time. Changes that come during a write wait, and
share the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from orbitmq.codes import ResponseCode
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.dispatch.handlers import Call, Reply

log = logging.getLogger(__name__)

C = TypeVar("C")
D = TypeVar("D")

Done = Callable[[OrbitError | None], None]
"""Is told that a change is durable and visible (None), or why it is not."""

WAITING_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of changes that may wait for a slow disk."""


class GroupCommit(Generic[C, D]):
    """Saves changes in the order in which they came, all those that wait in one write.

    Args:
        save: applies changes to a copy of the state and writes it; called in a thread, never twice at the same time. An error
            means that none of them counts.
        publish: makes what was saved visible, on the event loop; returns for each change why it was refused, or None.
    """

    def __init__(
        self, save: Callable[[Sequence[C]], D], publish: Callable[[D], Sequence[OrbitError | None]], *, name: str
    ) -> None:
        self._save = save
        self._publish = publish
        self._name = name
        self._waiting: list[tuple[C, Done]] = []
        self._waiting_size = 0
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, change: C, size: int, done: Done) -> None:
        """Save a change soon, and tell `done` how that went.

        Raises:
            Rejected: too much waits already, or the server stops.
        """
        if self._is_closed:
            raise Rejected(ResponseCode.SYSTEM_BUSY, f"{self._name}: the server stops")
        if self._waiting_size >= WAITING_SIZE_MAX:
            raise Rejected(
                ResponseCode.SYSTEM_BUSY,
                f"{self._name}: {self._waiting_size} bytes of changes wait for the disk, try again later",
            )
        self._waiting.append((change, done))
        self._waiting_size += size
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Refuse further changes, and wait until those that were submitted are saved and answered."""
        self._is_closed = True
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                self._waiting_size = 0
                errors = await self._commit([change for change, _ in batch])
                for (_, done), error in zip(batch, errors, strict=True):
                    done(error)
        finally:
            self._task = None

    async def _commit(self, changes: Sequence[C]) -> Sequence[OrbitError | None]:
        try:
            return self._publish(await asyncio.to_thread(self._save, changes))
        except Exception as error:
            log.exception("%d changes of %s are lost", len(changes), self._name)
            # Not the error's whole text: it names a path.
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            return [Rejected(ResponseCode.SYSTEM_ERROR, f"{self._name} cannot be saved: {reason}")] * len(changes)


def answer_when_saved(call: Call[Any]) -> Done:
    """Return a function that answers a request whose handler returns LATER."""

    def done(error: OrbitError | None) -> None:
        call.answer(Reply() if error is None else _refusal(error))

    return done


def _refusal(error: OrbitError) -> Reply:
    if isinstance(error, Rejected):
        return Reply(error.code, error.remark)
    return Reply(ResponseCode.SYSTEM_ERROR, str(error))
