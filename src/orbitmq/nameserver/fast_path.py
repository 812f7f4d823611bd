"""The fast path of a NameServer's port: requests that repeat earlier ones are answered without being parsed."""

from __future__ import annotations

from orbitmq.nameserver.cache.route_queries import RouteQueryCache
from orbitmq.nameserver.registration.fast_path import RegistrationFastPath
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import Frame


class NameServerFastPath:
    """Answers route queries and registrations that were seen before, all but their opaque (a `net.dispatch.fast_path.FastPath`).

    Args:
        registrations: None where each registration has to be looked at.
    """

    def __init__(self, routes: RouteQueryCache, registrations: RegistrationFastPath | None) -> None:
        self._routes = routes
        self._registrations = registrations

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known requests at the start of `data`; return how many bytes those requests have."""
        size = self._routes.answer(data, answers, connection)
        if not size and self._registrations is not None:
            return self._registrations.answer(data, answers, connection)
        return size

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Keep what a handler answered to a request."""
        self._routes.learn(frame, command, reply)
        if self._registrations is not None:
            self._registrations.learn(frame, command, reply)
