"""A NameServer's service without a server, and connections that ask it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from orbitmq.errors import HeaderError, Rejected
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.registration.queue import PendingChange, RegistrationQueue
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import LATER, Call, Reply
from orbitmq.wire.command import Command
from orbitmq.wire.header import code_of
from orbitmq.wire.slices import Slices

from ..support import CLUSTER, address_of

TOPICS = ("t0", "t1", "t2", "t3")


def drain(queue: RegistrationQueue) -> None:
    """Do all that is left, as the event loop's turns would."""
    while queue.step():
        pass


class Peers:
    """A service without a server, and connections that ask it; every registration takes several slices."""

    def __init__(self, *, in_one_go: bool = False, deletes_missing_topics: bool = False) -> None:
        config = NameServerConfig(delete_topic_with_broker_registration=deletes_missing_topics)
        self.service = NameServerService(config, lease_clock=lambda: self.now_ms, slice_topics=1)
        self.done: list[tuple[int, Any]] = []
        """Numbers and answers of what was asked, in the order in which it took effect."""
        self._in_one_go = in_one_go
        self.now_ms = 0
        self._handlers = handlers.bind(self.service)

    def ask(self, number: int, connection: int, header: object, body: bytes = b"") -> None:
        self.now_ms = 1_000 + number
        peer: Any = SimpleNamespace(id=connection, remote=f"x:{connection}")
        peer.answer_later = lambda _, reply, was_pending: self.done.append((number, reply))
        call: Call[Any] = Call(header, Command(code_of(type(header)), body=body), peer, self.now_ms)
        _, handle, part, _ = self._handlers[code_of(type(header))]
        try:
            reply = handle(part, call)
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except HeaderError as error:
            reply = Reply(1, str(error))
        if reply is not LATER:
            self.done.append((number, reply))
        if self._in_one_go:
            drain(self.service.queue)

    def leave(self, number: int, connection: int) -> None:
        self.service.disconnect(connection, 1_000 + number, "")

        def note() -> Slices[None]:
            self.done.append((number, None))
            return
            yield

        concerns = self.service.queue.concerns_from(connection)
        if concerns:  # it waits, or has begun: this is done right behind it, before what else concerns the same
            self.service.queue.append(PendingChange(0, 0, concerns, note()))
        else:
            self.done.append((number, None))
        if self._in_one_go:
            drain(self.service.queue)

    def look(self) -> Any:
        tables = self.service.tables
        leases = {
            (name, broker_id): tables.lease_of(BrokerKey(CLUSTER, name, address_of(name, broker_id)))
            for name in "ab"
            for broker_id in (0, 1)
        }
        routes = {topic: tables.lookup(topic) for topic in TOPICS}
        return (
            leases,
            {
                topic: (set(route.queues), route.brokers and len(route.brokers))
                for topic, route in routes.items()
                if route
            },
            {name: dict(found.addresses) for name, found in tables.cluster_info().brokers.items()},
        )
