"""The fast path of a broker's port: a read that begins with a request which has a way of its own is given to that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.broker.fast_path.acks import AckFastPath
from orbitmq.broker.fast_path.end_transactions import EndTransactionFastPath
from orbitmq.broker.fast_path.pull import PullFastPath
from orbitmq.broker.fast_path.send import SendFastPath
from orbitmq.broker.handlers.pop import PopTables
from orbitmq.broker.handlers.pull import PullTables
from orbitmq.broker.sending.tables import SendTables
from orbitmq.clock import Clock
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import Frame

_CODE = slice(16, 19)
"""Where the first three characters of a request's code stand when its JSON header begins with it, as clients write it."""

Way = Callable[[bytes, list[bytes], Peer], int]
"""As `FastPath.answer`."""


class FastPaths:
    """Several fast paths as one (a `net.dispatch.fast_path.FastPath`).

    Args:
        by_code: the ways, by what stands in the slice `_CODE` of a frame; each looks for itself what stands around.
    """

    def __init__(self, by_code: Mapping[bytes, Way]) -> None:
        self.is_open = True
        """False: everything takes the slow path."""
        self._by_code = by_code

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Answer the requests at the start of `data` that have a fast path; return how many bytes their frames take."""
        way = self._by_code.get(data[_CODE])
        return 0 if way is None or not self.is_open else way(data, answers, connection)

    def use(self, others: FastPaths) -> None:
        """Take these ways from now on: settings have changed."""
        self._by_code = others._by_code

    def close(self) -> None:
        """Send all requests to the slow path from now on: the broker stops, and the slow path refuses them."""
        self.is_open = False

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Nothing is learnt here: no two of these requests are alike."""


def broker_fast_path(sends: SendTables, pulls: PullTables, pops: PopTables, clock: Clock) -> FastPaths:
    """Return the fast path of a broker; with SYNC_FLUSH only sends and pulls have one: others would have to wait for the disk."""
    ways: dict[bytes, Way] = {b"310": SendFastPath(sends).answer, b"11,": PullFastPath(pulls, clock).answer}
    if not sends.is_sync:
        ways[b"200"] = AckFastPath(pops).answer
        if sends.transactions is not None:
            ways[b"37,"] = EndTransactionFastPath(sends.store, sends.transactions, clock).answer
    return FastPaths(ways)
