"""A session: the memory of one end of a connection, between its bytes and its commands. Pure.

State: the unfinished frame, the requests that wait for their answers, the bytes that wait to be written together.
In: bytes as they arrive, requests, the time. Out: frames, waiters and what they are told, one block of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from orbitmq.errors import ClientError
from orbitmq.wire.command import FLAG_ONEWAY, Command, encode_command
from orbitmq.wire.frame import FRAME_SIZE_MAX, FrameDecoder
from orbitmq.wire.header import code_of, encode_header

OPAQUE_MAX = 0x7FFFFFFF

Waiter = Callable[[Command | ClientError], None]
"""Is called once: with the answer, or with the error that says why there will be none."""


class Pending(NamedTuple):
    """A request that waits for its answer."""

    opaque: int
    code: int
    waiter: Waiter
    reads: int
    """The connection's count of reads when the request was sent: unchanged at time-out means the peer is silent."""


_NO_PENDING: dict[int, Pending] = {}
_NO_DEADLINES: list[tuple[int, int]] = []
"""Shared by all sessions that have asked nothing yet, which is most of a server's; never added to."""


class Session(FrameDecoder):
    """Cuts bytes into frames, matches answers with requests, and joins what is to be written."""

    __slots__ = ("_deadlines", "_next_opaque", "_pending", "out")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        super().__init__(frame_size_max)
        self._next_opaque = 0
        self._pending = _NO_PENDING
        self._deadlines = _NO_DEADLINES
        self.out: list[bytes] = []
        """Frames to be written, in order."""

    @property
    def pending_count(self) -> int:
        """Requests that wait for their answers."""
        return len(self._pending)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do at the earliest; None when nothing waits."""
        return self._deadlines[0][0] if self._deadlines else None

    def request(self, command: Command, waiter: Waiter, deadline_ms: int, reads: int = 0) -> int:
        """Queue a request and return its opaque; the waiter is called when it is answered."""
        if self._pending is _NO_PENDING:
            self._pending, self._deadlines = {}, []
        opaque = self._new_opaque()
        self.out.append(encode_command(command._replace(opaque=opaque)))
        self._pending[opaque] = Pending(opaque, command.code, waiter, reads)
        heappush(self._deadlines, (deadline_ms, opaque))
        return opaque

    def oneway(self, command: Command) -> None:
        """Queue a one-way request."""
        self.out.append(encode_command(command._replace(opaque=self._new_opaque(), flag=FLAG_ONEWAY)))

    def resolve(self, answer: Command) -> bool:
        """Hand an answer to the request's waiter. False: no request waits for it, or none any more."""
        pending = self._pending.pop(answer.opaque, None)
        if pending is None:
            return False
        self._drop_answered_deadlines()
        pending.waiter(answer)
        return True

    def expire(self, now_ms: int) -> list[Pending]:
        """Forget the requests whose time is over and return them; the caller tells their waiters."""
        expired: list[Pending] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            pending = self._pending.pop(heappop(self._deadlines)[1], None)
            if pending is not None:
                expired.append(pending)
        self._drop_answered_deadlines()
        return expired

    def abandon(self) -> list[Pending]:
        """Forget every waiting request and return them, oldest first: the connection is gone."""
        pending = list(self._pending.values())
        self._pending.clear()
        self._deadlines.clear()
        return pending

    def take_out(self) -> bytes:
        """Return everything that waits to be written as one block."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def _new_opaque(self) -> int:
        opaque = self._next_opaque
        self._next_opaque = (opaque + 1) & OPAQUE_MAX
        while opaque in self._pending:  # after 2^31 requests an old long poll may still hold the number
            opaque = self._next_opaque
            self._next_opaque = (opaque + 1) & OPAQUE_MAX
        return opaque

    def _drop_answered_deadlines(self) -> None:
        deadlines, pending = self._deadlines, self._pending
        while deadlines and deadlines[0][1] not in pending:
            heappop(deadlines)


def make_request(header: object, body: bytes = b"", *, code: int | None = None) -> Command:
    """Return the command of a typed header.

    Args:
        code: for a header type that travels under several request codes; else the type's own.
    """
    return Command(code_of(type(header)) if code is None else code, ext_fields=encode_header(header), body=body)
