"""The queue of logins: few passwords are compared at the same time, in turns of the addresses that they come from."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orbitmq.errors import OrbitError

WAITING_MAX = 16
_KNOWN = ""
"""Of `_waiting`: logins from where the name has logged in before; their turn comes first."""


class TooManyLogins(OrbitError):
    """The queue is full."""

    def __init__(self) -> None:
        super().__init__("too many logins at the same time: try again in a few seconds")


class LoginQueue:
    """Gives each login its turn.

    Args:
        running_max: logins at the same time.
    """

    def __init__(self, running_max: int) -> None:
        self._free = running_max
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str, *, is_known: bool) -> AsyncIterator[None]:
        """Wait for the turn of a login of an address.

        Args:
            is_known: the name has logged in from there before.

        Raises:
            TooManyLogins: the queue is full. Of the address that has most in it the newest has to leave first.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(_KNOWN if is_known else address)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str) -> None:
        if sum(map(len, self._waiting.values())) >= WAITING_MAX:
            self._make_room(address)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            self._leave(address, turn)
            raise

    def _make_room(self, address: str) -> None:
        others = [waiting for waiting in self._waiting if waiting != _KNOWN]
        longest = max(others, key=lambda waiting: len(self._waiting[waiting]), default=None)
        own = len(self._waiting.get(address, ()))
        if longest is None or (address != _KNOWN and len(self._waiting[longest]) <= own + 1):
            raise TooManyLogins
        newest = self._waiting[longest][-1]
        self._leave(longest, newest)
        newest.set_exception(TooManyLogins())

    def _leave(self, address: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(address, deque())
        if turn in waiting:
            waiting.remove(turn)
        if not waiting:
            self._waiting.pop(address, None)

    def _pass_on(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        address = _KNOWN if _KNOWN in self._waiting else next(iter(self._waiting))
        turn = self._waiting[address][0]
        self._leave(address, turn)
        if address in self._waiting:
            self._waiting.move_to_end(address)
        turn.set_result(None)
