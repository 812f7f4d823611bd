"""The fast path of a server: answers to whole frames that are found without decoding them into commands.

Most requests of a NameServer or broker look alike. What a program knows about its own is behind this protocol; the
connection asks it before it decodes anything.
"""

from __future__ import annotations

import logging
from typing import Protocol

from orbitmq.codes import ResponseCode
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command, encode_response
from orbitmq.wire.frame import Frame

log = logging.getLogger(__name__)


class FastPath(Protocol):
    """Answers the frames that it knows, as the handlers would."""

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known frames at the start of `data`; return how many bytes those frames take.

        Answers that are not known yet go out later through `connection.answer_held`.
        """
        ...

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """See how a handler answered a request."""
        ...


def answer_to_failure(error: Exception, opaque: int, peer: Peer) -> bytes:
    """Return the answer to a request in whose midst something failed unexpectedly, as the dispatcher answers it.

    For requests that may have changed something: left to their handlers, they would change it once more.
    """
    peer.counters.failed_requests += 1
    if is_worth_a_line(peer.counters.failed_requests):
        log.error("a request from %s failed", peer.remote, exc_info=error)
    return encode_response(ResponseCode.SYSTEM_ERROR, opaque, f"{type(error).__name__}: {error}", None)
