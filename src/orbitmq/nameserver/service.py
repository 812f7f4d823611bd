"""The service of a NameServer: the route table with everything that lives on its changes, as the handlers see it.

Handlers change the table through `change`, registrations by themselves (`registration.pipeline`). After each change the
caches drop what it outdates, the journal writes it down, and listeners are told. No clock and no socket.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from orbitmq.clock import Clock, monotonic_ms
from orbitmq.model.route import TopicRoute
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.fast_path import RegistrationFastPath, RouteQueryCache
from orbitmq.nameserver.monitoring.route_history import RouteHistory
from orbitmq.nameserver.monitoring.unknown_topics import UnknownTopics
from orbitmq.nameserver.persistence.config_store import ConfigStore
from orbitmq.nameserver.persistence.kv_config import KvConfig
from orbitmq.nameserver.registration.body_cache import BodyCache
from orbitmq.nameserver.registration.pipeline import ORDER_TOPIC_NAMESPACE, RegistrationPipeline, answering
from orbitmq.nameserver.registration.queue import Concerns, PendingChange, RegistrationQueue
from orbitmq.nameserver.route_cache import EncodedRouteCache
from orbitmq.nameserver.routing.events import Cause, MinIdNotice, Trigger
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.route_table import SLICE_TOPICS, RouteTable
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.routing.views import show_acting_masters
from orbitmq.nameserver.upstream import Upstream
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.wire.bodies.route import RouteEncoder
from orbitmq.wire.slices import Slices

log = logging.getLogger(__name__)

BROKER_WORK = 50
"""Topics whose removal takes as long as that of a broker without any."""


class NameServerService:
    """What the handlers of a NameServer work on.

    `health` describes how the NameServer is doing, as a JSON document, and `forget_lost` lets a lost broker no longer be missed: both
    are its monitor's, once there is one.

    Args:
        started_at_ms: wall clock.
        lease_clock: what leases are measured on, see `pause_aware_clock`.
        upstream: is asked for unknown topics in cluster-test mode.
        on_notice: is told of every group whose smallest broker id is another one.
        on_unfinished: is called when changes begin to wait: `queue.step` once per turn of the event loop then.
        slice_topics: how many topics of a registration are entered in one slice.
        memories: False computes every answer again, for tests that compare the two.
    """

    def __init__(
        self,
        config: NameServerConfig,
        *,
        started_at_ms: int = 0,
        lease_clock: Clock = monotonic_ms,
        upstream: Upstream | None = None,
        on_notice: Callable[[MinIdNotice], None] = lambda notice: None,
        on_unfinished: Callable[[], None] = lambda: None,
        slice_topics: int = SLICE_TOPICS,
        memories: bool = True,
    ) -> None:
        self.config = config
        self.lease_clock = lease_clock
        self.upstream = upstream
        self.health: Callable[[], dict[str, Any]] = dict
        self.forget_lost: Callable[[str, int], None] = lambda _broker_name, _broker_id: None
        self.kv = KvConfig(config.kv_config_path, on_change=self._forget_order)
        self.config_store = ConfigStore(lambda: self.config, self.reconfigure)
        self.route_history = RouteHistory(config.route_history_size, started_at_ms)
        self.unknown_topics = UnknownTopics()
        self.routes = EncodedRouteCache(self._encode_route, is_on=memories)
        self.route_queries = RouteQueryCache()
        self.tables = Tables()
        self.route_table = RouteTable(
            self.tables,
            on_change=(self.routes.outdate, self.route_queries.outdate, self.route_history.add),
            on_end=self._forget_broker,
            on_notice=on_notice,
            deletes_missing_topics=config.delete_topic_with_broker_registration,
            slice_topics=slice_topics,
        )
        self.bodies = BodyCache(is_on=memories)
        self.queue = RegistrationQueue(on_unfinished)
        self.registrations = RegistrationPipeline(
            self.route_table,
            self.bodies,
            self.queue,
            self.kv,
            lease_clock=lease_clock,
            tells_order_topics=config.return_order_topic_config_to_broker,
            slice_topics=slice_topics,
        )
        self.registration_fast_path = RegistrationFastPath(
            self.route_table, self.bodies, self.queue, lease_clock=lease_clock
        )
        self._encoder = RouteEncoder()
        self._serves_from_ms = started_at_ms

    def change(
        self,
        call: Call[Any],
        cause: Cause,
        concerns: Concerns,
        slices_of: Callable[[Trigger], Slices[Reply]],
    ) -> Reply | Literal[Later.LATER]:
        """Let a request change the table, behind unfinished changes of the same brokers, and in slices.

        Args:
            concerns: the broker names that may be changed.
            slices_of: returns the work and, in the end, the answer.
        """
        trigger = Trigger(cause, call.now_ms, call.connection.remote)
        return self.answer_in_slices(call, slices_of(trigger), concerns)

    def answer_in_slices(
        self, call: Call[Any], slices: Slices[Reply], concerns: Concerns = frozenset()
    ) -> Reply | Literal[Later.LATER]:
        """Return the answer of the slices; later, when it takes more than one, or has to wait.

        Raises:
            Rejected: too much waits already.
        """
        slices = self.route_table.publishing(slices)
        if not self.queue.has_before(concerns):
            try:
                next(slices)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
        else:
            self.queue.refuse_if_full()
        job = PendingChange(call.connection.id, len(call.command.body), concerns, answering(call, slices))
        self.queue.append(job)
        return LATER

    def disconnect(self, connection_id: int, now_ms: int, remote: str) -> None:
        """Take out every broker whose last connection is gone, after what came through it before."""
        owned = self.tables.leases.owned_by(connection_id)
        concerns = self.queue.concerns_from(connection_id).union(key.broker_name for key in owned)
        if concerns:
            trigger = Trigger(Cause.CONNECTION_CLOSED, now_ms, remote)
            self._do(connection_id, concerns, self.route_table.disconnect(connection_id, trigger))

    def expire(self, now_ms: int, tell: Callable[[BrokerKey, Lease], None]) -> None:
        """Take out every broker that has been silent for too long; `tell` is called for each that is gone.

        A broker with an unfinished change is left until the next time: it may be registering.
        """
        trigger = Trigger(Cause.LEASE_EXPIRED, now_ms)
        work = 0
        for key, _ in self.tables.leases.over(self.lease_clock()):
            concerns: Concerns = frozenset([key.broker_name])
            if self.queue.has_before(concerns):
                continue
            self._do(0, concerns, self._expiring(key, trigger, tell), is_immediate=work < SLICE_TOPICS)
            group = self.tables.group_of(key.broker_name)
            work += BROKER_WORK + (len(group.topics) if group is not None else 0)

    def _do(self, connection_id: int, concerns: Concerns, slices: Slices[Any], *, is_immediate: bool = True) -> None:
        """Do a change that expects no answer.

        Args:
            is_immediate: do its first slice in this turn of the event loop, if nothing is before it.
        """
        guarded = _guarded(self.route_table.publishing(slices))
        if is_immediate and not self.queue.has_before(concerns):
            try:
                next(guarded)
            except StopIteration:
                return
        self.queue.append(PendingChange(connection_id, 0, concerns, guarded))

    def _expiring(self, key: BrokerKey, trigger: Trigger, tell: Callable[[BrokerKey, Lease], None]) -> Slices[None]:
        lease = yield from self.route_table.expire(key, trigger, self.lease_clock())
        if lease is not None:
            tell(key, lease)

    def find_route(self, topic: str) -> TopicRoute | None:
        """Return a topic's route as clients see it, None when there is none."""
        route = self.tables.lookup(topic)
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
        self.route_table.deletes_missing_topics = config.delete_topic_with_broker_registration
        self.registrations.tells_order_topics = config.return_order_topic_config_to_broker
        self.bodies.clear()  # the settings decide what a body changes
        self.registration_fast_path.clear()
        self.routes.clear()
        self.route_queries.clear()

    async def save(self) -> None:
        """Refuse further changes of the files, and wait until those that were asked for are on disk, and answered."""
        await self.kv.close()
        await self.config_store.close()

    def _forget_broker(self, key: BrokerKey) -> None:
        """Drop what is kept of a broker that is gone, in whatever way it went."""
        self.bodies.forget(key)
        self.registration_fast_path.forget(key)

    def _forget_order(self, namespace: str, topic: str) -> None:
        """Drop what is kept of a topic whose order has changed: its route, and the answers to brokers, which list it."""
        if namespace == ORDER_TOPIC_NAMESPACE:
            self.registrations.forget_order_topics()
            self.registration_fast_path.clear()
            self.routes.forget((topic,))
            self.route_queries.forget((topic,))

    def _encode_route(self, topic: str, standard: bool) -> bytes | None:
        route = self.find_route(topic)
        if route is None:
            return None
        return self._encoder.encode(route, standard=standard)


def _guarded(slices: Slices[Any]) -> Slices[None]:
    """Do the slices; an error of ours is logged and ends them alone."""
    try:
        yield from slices
    except Exception:
        log.exception("a change of the route table failed")
