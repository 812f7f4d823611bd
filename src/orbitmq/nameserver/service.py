"""The route table with everything that lives on its changes: cached answers, listeners, settings, key-value store.

Handlers change the table inside `changing`, registrations inside `changing_in_slices`; when that ends, whatever the change
outdates is dropped and the listeners (journal, log) are told. No clock and no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from orbitmq.model.route import TopicRoute
from orbitmq.nameserver.cache.routes import RouteAnswers, RouteMemo
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.kv_config import KvConfig
from orbitmq.nameserver.registration.body_cache import UnchangedRegistrations
from orbitmq.nameserver.registration.fast_path import RepeatedRegistrations
from orbitmq.nameserver.registration.queue import Unfinished
from orbitmq.nameserver.routing.events import Cause, Change, MinIdNotice, Origin
from orbitmq.nameserver.routing.journal import History
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.unknown_topics import MissingTopics
from orbitmq.nameserver.routing.views import show_acting_masters
from orbitmq.nameserver.upstream import ProductEnvironment
from orbitmq.wire.bodies.route import RouteEncoder
from orbitmq.wire.slices import Slices

T = TypeVar("T")

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"


class Registry:
    """What the handlers of a NameServer work on."""

    def __init__(self, config: NameServerConfig, kv: KvConfig, *, started_at_ms: int = 0) -> None:
        self.config = config
        self.kv = kv
        self.table = RouteTable(deletes_missing_topics=config.delete_topic_with_broker_registration)
        self.answers = RouteAnswers(self._encode_route)
        self._encoder = RouteEncoder()
        self.memo = RouteMemo()
        self.unchanged = UnchangedRegistrations()
        self.unfinished = Unfinished()
        self.repeats = RepeatedRegistrations(self.table, self.unchanged, self.unfinished)
        self.history = History(config.route_history_size, started_at_ms)
        self.missing = MissingTopics()
        self.warnings: list[str] = []
        """Sentences about the way this NameServer is set up that its operator should know."""
        self.health: Callable[[], dict[str, Any]] = dict
        """Describes how the NameServer is doing; whoever observes it puts its own function here."""
        self.product: ProductEnvironment | None = None
        """Who is asked for unknown topics in cluster-test mode."""
        self.on_change: list[Callable[[Change], None]] = []
        self.on_notice: list[Callable[[MinIdNotice], None]] = []
        self._serves_from_ms = started_at_ms
        self.reconfigure(config)

    @contextmanager
    def changing(self, cause: Cause, now_ms: int, remote: str = "") -> Iterator[Origin]:
        """Change the table in here, after what is unfinished; afterwards nobody sees anything of before."""
        self.unfinished.finish()
        try:
            yield Origin(cause, now_ms, remote)
        finally:
            self._settle()

    def changing_in_slices(self, slices: Slices[T]) -> Slices[T]:
        """Let a registration change the table; after each slice nobody sees anything of before that slice."""
        while True:
            try:
                next(slices)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._settle()
            yield

    def disconnect(self, connection_id: int, now_ms: int, remote: str) -> None:
        """Take out every broker whose newest connection is gone, after what came through it before."""
        if self.unfinished.is_from(connection_id):
            self.unfinished.finish()
        if not self.table.owns_leases(connection_id):
            return
        with self.changing(Cause.CONNECTION_CLOSED, now_ms, remote) as origin:
            for key in self.table.disconnect(connection_id, origin):
                self.unchanged.forget(key)

    def find_route(self, topic: str) -> TopicRoute | None:
        """Return a topic's route as clients see it, None when there is none."""
        route = self.table.lookup(topic)
        if route is None:
            return None
        if self.config.support_acting_master:
            route = show_acting_masters(topic, route)
        if self.config.order_message_enable or self.config.cluster_test:
            route = replace(route, order_topic_conf=self.kv.get(ORDER_TOPIC_NAMESPACE, topic))
        return route

    def is_ready(self, now_ms: int) -> bool:
        """False while brokers are given time to register after the start (`needWaitForService`)."""
        if not self.config.need_wait_for_service or self.config.cluster_test:
            return True
        return now_ms >= self._serves_from_ms + self.config.wait_seconds_for_service * 1000

    def reconfigure(self, config: NameServerConfig) -> None:
        """Work with other settings from now on."""
        self.config = config
        self.table.deletes_missing_topics = config.delete_topic_with_broker_registration
        self.forget_answers()

    def forget_answers(self, topic: str | None = None) -> None:
        """Drop what is cached of a topic's route, or of all, and of the answers to brokers."""
        self.repeats.clear()
        if topic is None:
            self.answers.clear()
            self.memo.clear()
        else:
            self.answers.forget((topic,))
            self.memo.forget((topic,))

    def _settle(self) -> None:
        for change in self.table.take_changes():
            topics = change.affected_topics
            self.answers.forget(topics)
            self.memo.forget(topics)
            self.history.add(change)
            for listener in self.on_change:
                listener(change)
        for notice in self.table.take_notices():
            for hear in self.on_notice:
                hear(notice)

    def _encode_route(self, topic: str, standard: bool) -> bytes | None:
        route = self.find_route(topic)
        if route is None:
            return None
        return self._encoder.encode(route, standard=standard)
