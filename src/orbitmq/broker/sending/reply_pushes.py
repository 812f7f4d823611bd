"""Pushes of replies to the clients that asked: the second half of a request's way back, within limits.

State: how many pushes, of how many bytes, each client has not confirmed yet. In: replies, clients' answers. Out: for
each push, once, whether the client has it.

Source: Java ReplyMessageProcessor.pushReplyMessage, Broker2Client.callClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from orbitmq.broker.groups.members import GroupMembers
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.session import make_request
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PushReply

log = logging.getLogger(__name__)

PUSH_TIMEOUT_MS = 10_000
"""How long a client may take to confirm a reply (Java: Broker2Client.callClient)."""
_CLIENT_SHARE = 4
"""One client may hold the fourth part of each limit: one that confirms nothing must not stop the others' replies."""

Done = Callable[[str | None], None]
"""Is told None when the client has confirmed, else why it has not."""


class _Load:
    """What one client has not confirmed."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class ReplyPushes:
    """Hands replies to producers, which are found by the client ids of their heartbeats.

    Args:
        members: tells the clients' connections.
        count_max: pushes under way.
        size_max: bytes of their bodies and properties. One push is always allowed.
    """

    def __init__(self, members: GroupMembers[Peer], *, count_max: int, size_max: int) -> None:
        self.count = 0
        """Pushes that wait for their clients' confirmation."""
        self.size = 0
        self.confirmed_count = 0
        """Replies that their clients confirmed, since the start."""
        self.failed_count = 0
        """Replies that found no client, or got no confirmation."""
        self.over_count = 0
        """Replies that were refused since the start, because too many were under way."""
        self.over_size = 0
        """The same, because they were too large."""
        self._members = members
        self._count_max = count_max
        self._size_max = size_max
        self._loads: dict[Peer, _Load] = {}

    def push(self, client_id: str, header: PushReply, body: bytes, done: Done) -> None:
        """Send a reply to a client; `done` is called once, in this very call where the client is not there.

        Raises:
            Rejected: 2, too many replies wait for confirmation.
        """
        peer = self._members.producer_connection(client_id)
        if peer is None:
            self._fail(f"push reply message fail, channel of <{client_id:.260}> not found.", done)
            return
        size = len(body) + len(header.properties or "")
        load = self._enter(peer, size)

        def answered(answer: Command | ClientError) -> None:
            self._leave(peer, load, size)
            if isinstance(answer, ClientError):
                self._fail(f"push reply message to {client_id:.260} fail: {answer}", done)
            elif answer.code != ResponseCode.SUCCESS:
                why = f"it answered {answer.code} ({answer.remark})"
                self._fail(f"push reply message to {client_id:.260} fail: {why:.400}", done)
            else:
                self.confirmed_count += 1
                done(None)

        peer.send_request(make_request(header, body), answered, timeout_ms=PUSH_TIMEOUT_MS)

    def _enter(self, peer: Peer, size: int) -> _Load:
        load = self._loads.get(peer) or _Load()
        is_over_count = self.count >= self._count_max or load.count >= self._count_max // _CLIENT_SHARE
        if (
            is_over_count
            or self._is_too_large(self.size, size, 1)
            or self._is_too_large(load.size, size, _CLIENT_SHARE)
        ):
            self.over_count += is_over_count
            self.over_size += not is_over_count
            raise Rejected(
                ResponseCode.SYSTEM_BUSY,
                f"{self.count} replies of {self.size} bytes wait for their clients, {load.count} of them for this one: "
                "see replyPushesMax and replyPushesSizeMax",
            )
        self._loads[peer] = load
        load.count += 1
        load.size += size
        self.count += 1
        self.size += size
        return load

    def _is_too_large(self, held: int, size: int, share: int) -> bool:
        return held > 0 and held + size > self._size_max // share

    def _leave(self, peer: Peer, load: _Load, size: int) -> None:
        self.count -= 1
        self.size -= size
        load.count -= 1
        load.size -= size
        if not load.count:
            del self._loads[peer]

    def _fail(self, remark: str, done: Done) -> None:
        self.failed_count += 1
        if is_worth_a_line(self.failed_count):
            log.warning("%s (%d replies have not reached their clients since the start)", remark, self.failed_count)
        done(remark)
