"""The fast path of a server: answers to whole frames that are found without decoding them into commands.

Most requests of a NameServer or broker look alike. What a program knows about its own is behind this protocol; the
connection asks it before it decodes anything.
"""

from __future__ import annotations

from typing import Protocol

from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import Frame


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
