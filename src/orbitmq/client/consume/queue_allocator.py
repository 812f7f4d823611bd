"""The queues that a consumer is to read now, computed from the topics' routes and the group's members.

Members learn at different moments that a broker left the route, or came back, and shared out by different lists queues of other brokers
would have two readers. So the queues of a broker that left stay shared out for `DEPARTED_S`: a restart changes nothing. And a broker
that was just started does not know all members yet: for `UNSETTLED_S` those that were known before count, too.

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
        self._departed_s: dict[tuple[str, str], float] = {}
        """When a topic's route was first without a broker whose queues are shared out still."""
        self._answering: frozenset[str] | None = None
        """The brokers that have named members in the last round."""
        self._unsettled_s: dict[str, float] = {}
        """When a broker last came, went, or did not know this member."""
        self._last_members: frozenset[str] = frozenset()
        self._silent: set[str] = set()
        """The brokers without an answer in the last round, which were warned of."""

    async def allocate(self, topics: Collection[str]) -> dict[str, list[MessageQueue] | None]:
        """Return the queues to read per topic; None where that cannot be told now and nothing is to change."""
        await self._look_for_departed()
        routes = dict(zip(topics, await asyncio.gather(*map(self._route, topics)), strict=True))
        self._first = {topic: queues for topic, queues in self._first.items() if topic in routes}
        self._shared = {topic: queues for topic, queues in self._shared.items() if topic in routes}
        self._departed_s = {key: since for key, since in self._departed_s.items() if key[0] in routes}
        if self._message_model is MessageModel.BROADCASTING:
            return {
                topic: None if route is None else list(readable_queues(topic, route)) for topic, route in routes.items()
            }
        names = {broker.broker_name for route in routes.values() if route is not None for broker in route.brokers}
        members = await self._members(names)
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
        """Take note of which brokers have named members; a broker that came, went or did not know this member may name too few."""
        now_s = asyncio.get_running_loop().time()
        before = answering if self._answering is None else self._answering
        self._answering = answering
        self._unsettled_s |= dict.fromkeys(unknown | (answering ^ before), now_s)
        self._unsettled_s = {name: since for name, since in self._unsettled_s.items() if now_s < since + UNSETTLED_S}
        if answering and not self._unsettled_s:
            self._last_members = members

    async def _look_for_departed(self) -> None:
        """Ask for one route of each broker that has left some: where it is back, its other topics' routes are asked for, too."""
        topics: dict[str, list[str]] = {}
        for topic, broker_name in self._departed_s:
            topics.setdefault(broker_name, []).append(topic)
        for first, *others in topics.values():
            if await self._has_changed(first):
                await asyncio.gather(*map(self._has_changed, others))

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
        before = self._departed_s
        self._departed_s = {key: since for key, since in before.items() if key[0] != topic}
        for key in {(topic, queue.broker_name) for queue in left}:
            since = before.get(key, now_s)
            if now_s < since + DEPARTED_S:
                self._departed_s[key] = since
        kept = {queue for queue in left if (topic, queue.broker_name) in self._departed_s}
        self._shared[topic] = current | kept
        return self._shared[topic]

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
        return decode_consumer_list(expect(answer, broker_name).body)

    def _warn(self, topic: str, error: OrbitError) -> None:
        """Warn once; a retry topic that does not exist yet is in order."""
        is_expected = topic.startswith(RETRY_PREFIX) and isinstance(error, RouteNotFound)
        is_news = topic not in self._missing and not is_expected
        self._missing.add(topic)
        log.log(logging.WARNING if is_news else logging.DEBUG, "group %s: %s", self._group, error)
