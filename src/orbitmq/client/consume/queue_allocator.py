"""The queues that a consumer is to read now, computed from the topics' routes and the group's members.

Members learn at different moments that a broker left the route, or came back, and shared out by different lists queues of other brokers
would have two readers. So the queues of a broker that left stay shared out for `DEPARTED_S`: a restart changes nothing. A member that
joins meanwhile does not know these queues: then all members share out what the route names. And a broker that was just started
does not know all members yet: for `UNSETTLED_S` those that were known before count, too.

Source: Java RebalanceImpl.rebalanceByTopic, MQClientInstance.findConsumerIdList.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from orbitmq.client.consume.allocation import Strategy, allocate
from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.client.session.session import OTHERS_MS, ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, OrbitError, RouteNotFound
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.heartbeat import decode_consumer_list
from orbitmq.wire.headers import GetConsumerList

log = logging.getLogger(__name__)

DEPARTED_S = 30.0
"""How long queues stay shared out whose broker has left the route: as long as Java's clients keep an old route."""
UNSETTLED_S = 5.0
"""How long the members that were known before count next to those that are named after a broker has come or gone."""
RETURNED_S = 300.0
"""How long a broker that has left the route is looked for, so that all members learn of its return within `POLL_S`."""
POLL_S = 2.0
"""How often routes are asked for a broker that has left them, and members after a broker has come or gone."""


class QueueAllocator:
    """Computes one consumer's queues.

    Args:
        session: carries the requests.
        group: the consumer group.
        message_model: whether the group shares the queues.
        strategy: how it shares them.
    """

    def __init__(self, session: ClientSession, group: str, message_model: MessageModel, strategy: Strategy) -> None:
        self._session = session
        self._group = group
        self._message_model = message_model
        self._strategy = strategy
        self._missing: set[str] = set()
        self._first: dict[str, frozenset[MessageQueue]] = {}
        """The queues that each topic had when it was first asked for: none where it did not exist."""
        self._shared: dict[str, frozenset[MessageQueue]] = {}
        """The queues of each topic that were shared out last."""
        self._departed_s: dict[str, dict[str, float]] = {}
        """By topic and broker name: when the route was first without a broker whose queues were shared out."""
        self._answering: frozenset[str] | None = None
        """The brokers that have named members in the last round."""
        self._unknown: set[str] = set()
        """The brokers that did not know this member in the last round."""
        self._connections: dict[str, int] = {}
        """The connection on which each broker has named members last."""
        self._reconnected: set[str] = set()
        """The brokers that have named members on another connection since the last round: restarted, or another master."""
        self._unsettled_s: dict[str, float] = {}
        """When a broker last came, went, was connected again, or did not know this member any more."""
        self._last_members: frozenset[str] = frozenset()
        """Those that were known before that."""
        self._known: frozenset[str] = frozenset()
        """The members of the last round that a broker has answered."""
        self._has_grown = False
        """True in a round that knows a member more than the one before."""
        self._silent: set[str] = set()
        """The brokers without an answer in the last round, which were warned of."""

    async def allocate(self, topics: Collection[str]) -> dict[str, list[MessageQueue] | None]:
        """Return the queues to read per topic; None where that cannot be told now and nothing is to change."""
        await self._refresh_routes(self._topics_by_departed())
        routes = await self._routes(topics)
        self._first = {topic: queues for topic, queues in self._first.items() if topic in routes}
        self._shared = {topic: queues for topic, queues in self._shared.items() if topic in routes}
        self._departed_s = {topic: since for topic, since in self._departed_s.items() if topic in routes}
        if self._message_model is MessageModel.BROADCASTING:
            return {
                topic: None if route is None else list(readable_queues(topic, route)) for topic, route in routes.items()
            }
        by_broker = _topics_by_broker(routes)
        members = await self._members(by_broker)
        silent = {name: found for name, found in by_broker.items() if name not in members}
        if await self._refresh_routes(silent):  # it has left: other members may know that, too
            routes = await self._routes(topics)
        unknown = {name for name, found in members.items() if self._session.id not in found}
        if unknown:  # a broker that was just started waits for our heartbeat
            await self._session.send_heartbeats()
            members |= await self._members(unknown)
        known = frozenset(member for found in members.values() for member in found)
        self._note_answers(frozenset(members), unknown, known)
        return {topic: self._share(topic, route, members) for topic, route in routes.items()}

    @property
    def next_round_s(self) -> float | None:
        """After how many seconds the queues have to be computed again though nothing is heard; None: not by themselves."""
        return POLL_S if self._departed_s or self._unsettled_s else None

    def _note_answers(self, answering: frozenset[str], unknown: set[str], members: frozenset[str]) -> None:
        """Take note of who has answered, and of the members; a broker that came, went or did not know this one may name too few."""
        now_s = asyncio.get_running_loop().time()
        before = answering if self._answering is None else self._answering
        changed = self._reconnected | (unknown - self._unknown) | (answering ^ before)
        self._answering, self._unknown, self._reconnected = answering, unknown, set()
        if changed:
            self._last_members = self._known
        self._unsettled_s |= dict.fromkeys(changed, now_s)
        self._unsettled_s = {name: since for name, since in self._unsettled_s.items() if now_s < since + UNSETTLED_S}
        if not answering:
            return
        if self._unsettled_s:
            members |= self._last_members
        self._has_grown = not members <= self._known
        self._known = members

    def _topics_by_departed(self) -> dict[str, list[str]]:
        """Return the topics whose route each broker has left."""
        topics: dict[str, list[str]] = {}
        for topic, since in self._departed_s.items():
            for broker_name in since:
                topics.setdefault(broker_name, []).append(topic)
        return topics

    async def _refresh_routes(self, topics_by_broker: Mapping[str, list[str]]) -> bool:
        """Ask for one route of each broker, and for the others of its topics where that one has changed; True if one has."""
        is_changed = False
        for first, *others in topics_by_broker.values():
            if await self._has_changed(first):
                is_changed = True
                await asyncio.gather(*map(self._has_changed, others))
        return is_changed

    async def _has_changed(self, topic: str) -> bool:
        try:
            return await self._session.routes.refresh(topic)
        except OrbitError:
            return False

    def _queues(self, topic: str, route: TopicRoute) -> frozenset[MessageQueue]:
        """Return the queues to share out: those of the route, and for some time those of brokers that have left it."""
        now_s = asyncio.get_running_loop().time()
        current = frozenset(readable_queues(topic, route))
        there = {broker.broker_name for broker in route.brokers} | {queue.broker_name for queue in current}
        left = {queue for queue in self._shared.get(topic, ()) if queue.broker_name not in there}
        before = self._departed_s.pop(topic, {})
        since = {name: before.get(name, now_s) for name in before.keys() | {queue.broker_name for queue in left}}
        since = {name: at_s for name, at_s in since.items() if name not in there and now_s < at_s + RETURNED_S}
        if since:
            self._departed_s[topic] = since
        kept = {
            queue
            for queue in left
            if not self._has_grown and now_s < since.get(queue.broker_name, -DEPARTED_S) + DEPARTED_S
        }
        self._shared[topic] = current | kept
        return self._shared[topic]

    async def _routes(self, topics: Collection[str]) -> dict[str, TopicRoute | None]:
        return dict(zip(topics, await asyncio.gather(*map(self._route, topics)), strict=True))

    async def _route(self, topic: str) -> TopicRoute | None:
        try:
            route = await self._session.routes.find(topic)
        except OrbitError as error:
            if isinstance(error, RouteNotFound):
                self._first.setdefault(topic, frozenset())
            self._warn(topic, error)
            return None
        if topic not in self._first:
            self._first[topic] = frozenset(readable_queues(topic, route))
        return route

    def has_appeared(self, queue: MessageQueue) -> bool:
        """Return True if a queue came after its topic was first asked for."""
        return queue not in self._first.get(queue.topic, (queue,))

    def _share(
        self, topic: str, route: TopicRoute | None, members: Mapping[str, Collection[str]]
    ) -> list[MessageQueue] | None:
        """Return this member's queues of a topic.

        The group's members are those that any of the topic's brokers knows: one that was just started has not heard of all yet.
        """
        if route is None:
            return None
        if not route.brokers:
            self._warn(topic, RouteNotFound("the route names no broker"))
            return None
        names = {broker.broker_name for broker in route.brokers}
        known = {member for name in names for member in members.get(name, ())}
        if self._session.id not in known:
            return None
        if self._unsettled_s:
            known |= self._last_members
        self._missing.discard(topic)
        return allocate(self._queues(topic, route), sorted(known), self._session.id, self._strategy)

    async def _members(self, broker_names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Ask all brokers at the same time for the group's members; those without an answer are left out, with one warning.

        After the first list the others have `OTHERS_MS`: a broker that stands still keeps no queue of the others waiting.
        """
        tasks = {asyncio.ensure_future(self._members_by(name)): name for name in sorted(broker_names)}
        found: dict[str, tuple[str, ...]] = {}
        silent: dict[str, str] = {}
        pending, until_s = set(tasks), None
        loop = asyncio.get_running_loop()
        try:
            while pending:
                limit_s = None if until_s is None else max(0.0, until_s - loop.time())
                done, pending = await asyncio.wait(pending, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for task in done:
                    try:
                        found[tasks[task]] = task.result()
                    except ClientError as error:
                        silent[tasks[task]] = str(error)
                if found and until_s is None:
                    until_s = loop.time() + OTHERS_MS / 1000
        finally:
            for task in pending:
                task.cancel()
        silent |= {tasks[task]: f"broker {tasks[task]} has not answered" for task in pending}
        is_news = not silent.keys() <= self._silent
        self._silent = set(silent)
        for name in {tasks[task] for task in pending}:
            self._session.note_silence(name)  # the warning below is enough for its pulls, too
        for name in found:
            self._session.note_return(name)
        if silent:
            text = "group %s: its members are not known by %d of %d brokers now: %s"
            told = "; ".join(silent[name] for name in sorted(silent))
            log.log(logging.WARNING if is_news else logging.DEBUG, text, self._group, len(silent), len(tasks), told)
        return found

    async def _members_by(self, broker_name: str) -> tuple[str, ...]:
        answer = await self._session.call(broker_name, GetConsumerList(consumer_group=self._group))
        if answer.code == ResponseCode.SYSTEM_ERROR:  # how a broker says that the group has no member
            return ()
        found = decode_consumer_list(expect(answer, broker_name).body)
        connection = await self._session.connection(broker_name)
        if self._connections.get(broker_name, connection) != connection:
            self._reconnected.add(broker_name)
        self._connections[broker_name] = connection
        return found

    def _warn(self, topic: str, error: OrbitError) -> None:
        """Warn once; a retry topic that does not exist yet is in order."""
        is_expected = topic.startswith(RETRY_PREFIX) and isinstance(error, RouteNotFound)
        is_news = topic not in self._missing and not is_expected
        self._missing.add(topic)
        log.log(logging.WARNING if is_news else logging.DEBUG, "group %s: %s", self._group, error)


def _topics_by_broker(routes: Mapping[str, TopicRoute | None]) -> dict[str, list[str]]:
    topics: dict[str, list[str]] = {}
    for topic, route in routes.items():
        for broker in () if route is None else route.brokers:
            topics.setdefault(broker.broker_name, []).append(topic)
    return topics
