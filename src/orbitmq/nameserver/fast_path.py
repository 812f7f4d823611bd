"""What a NameServer answers from memory: queries and registrations that it has seen before."""

from __future__ import annotations

from orbitmq.nameserver.cache.routes import RouteMemo
from orbitmq.nameserver.registration.fast_path import RepeatedRegistrations
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import Frame


class KnownRequests:
    """Answers requests that repeat earlier ones, all but their opaque (a `net.dispatch.fast_path.FastPath`).

    Args:
        registrations: None where each registration has to be looked at.
    """

    def __init__(self, routes: RouteMemo, registrations: RepeatedRegistrations | None) -> None:
        self._routes = routes
        self._registrations = registrations

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known requests at the start of `data`; return how many bytes those take."""
        taken = self._routes.answer(data, answers, connection)
        if not taken and self._registrations is not None:
            return self._registrations.answer(data, answers, connection)
        return taken

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """See how a request was answered the long way."""
        self._routes.learn(frame, command, reply)
        if self._registrations is not None:
            self._registrations.learn(frame, command, reply)
