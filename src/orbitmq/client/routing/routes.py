"""The routes that a client uses, kept up to date: asked for when they are missing, and again while they are watched.

Watched topics are refreshed 10 ms after the start and then every 30 s, and a few times in the seconds after a change. One that
does not exist yet is asked for twice a second, so that a consumer that waits for a topic is not late for its first message. An
answer replaces what is known only when it says something else; while no NameServer answers, what is known stays in use.

Source: Java MQClientInstance (updateTopicRouteInfoFromNameServer, and the poll every 30 s).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from orbitmq.client.routing.nameserver_client import NameServerClient, query_route
from orbitmq.client.routing.route_cache import RouteCache, address_of
from orbitmq.errors import NoNameServer, OrbitError, RouteNotFound
from orbitmq.model.route import MASTER_ID, MessageQueue, TopicRoute
from orbitmq.model.topic import RETRY_PREFIX

log = logging.getLogger(__name__)

FIRST_POLL_MS = 10
POLL_INTERVAL_MS = 30_000
MISSING_POLL_MS = 500
"""Watched topics without a route are asked for this often; not retry topics, most of which will never be."""
TOGETHER = 64
"""Topics that a poll asks for at the same time: thousands of answers in one turn of the loop would let others wait."""
FORGET_AFTER_S = 60.0
"""A topic that a producer sends to is no longer watched when no NameServer has known it for so long."""
FOLLOW_UP_MS = (1_000, 2_000, 4_000, 8_000)
"""After a change more are likely: a topic that is being created appears on one broker after the other."""
CHASE_MS = 75
"""A topic whose broker has failed is asked for this often, up to `CHASE_COUNT` times: another broker may lead in a moment."""
CHASE_COUNT = 20
FIRST_QUIET_S, QUIET_S_MAX = 0.25, 16.0
"""Between two chases of a broker that brought no change: the first pause, and the longest; each is twice as long as the last."""

SEEK_S = 1.0
"""For a broker that no route names routes are asked this often at most, however many queues wait for it."""

RouteListener = Callable[[str, TopicRoute], None]
"""Is called with a topic and its new route."""


class Routes:
    """Asks NameServers for routes and remembers them.

    Args:
        name_servers: where routes come from; the caller closes it.
        poll_interval_ms: how often the watched topics are refreshed.
    """

    def __init__(self, name_servers: NameServerClient, *, poll_interval_ms: int = POLL_INTERVAL_MS) -> None:
        self.known = RouteCache()
        """What was learnt so far; to be read, not changed."""
        self._name_servers = name_servers
        self._poll_interval_ms = poll_interval_ms
        self._listeners: list[RouteListener] = []
        self._watched: set[str] = set()
        self._while_known: set[str] = set()
        """Watched topics that are forgotten when they are gone."""
        self._absent_since_s: dict[str, float] = {}
        self._refreshing: dict[str, asyncio.Task[bool]] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._chasing: dict[str, asyncio.Task[None]] = {}
        self._quiet: dict[str, tuple[float, float]] = {}
        """Brokers, and topics, that were chased in vain: until when they are not chased, and how long that pause is."""
        self._sought_s: dict[str, float] = {}
        """When a route was last asked for on behalf of each broker that none names."""
        self._polling: asyncio.Task[None] | None = None
        self._is_outage = False

    def add_listener(self, listener: RouteListener) -> None:
        """Call `listener` after every change of a route, after those that were added before it."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Refresh watched topics from now on."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll(), name="orbitmq routes")

    async def close(self) -> None:
        """Stop refreshing."""
        tasks: list[asyncio.Task[Any]] = [
            *self._refreshing.values(),
            *self._following.values(),
            *self._chasing.values(),
        ]
        if self._polling is not None:
            tasks.append(self._polling)
            self._polling = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def address(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str:
        """Return the address of a member of a broker group; see `address_of`.

        Raises:
            RouteNotFound: no known route names the group, or it lacks that member.
        """
        broker = self.known.brokers.get(broker_name)
        address = None if broker is None else address_of(broker, broker_id, only_this=only_this)
        if address is None:
            member = "a master" if broker_id == MASTER_ID else f"a member with id {broker_id}"
            raise RouteNotFound(
                f"broker {broker_name} has {member if only_this else 'no member'} in no route from "
                f"{self._list_servers()}. Is the broker up, and registered there?"
            )
        return address

    def broker_of(self, queue: MessageQueue) -> str:
        """Return the name of the broker that has a queue: the one that it names, or that leads it, if it is logical."""
        return self.known.leaders.get(queue, queue.broker_name) if self.known.leaders else queue.broker_name

    def knows(self, queue: MessageQueue) -> bool:
        """True when some route names the broker that has a queue."""
        return self.broker_of(queue) in self.known.brokers

    def teacher(self, broker_name: str) -> str:
        """Return the NameServer that named a broker, for error messages."""
        return self.known.teacher(broker_name) or self._list_servers()

    def watch(self, topic: str, *, while_known: bool = False) -> None:
        """Refresh `topic` with every poll from now on.

        Args:
            while_known: forget it when no NameServer has known it for `FORGET_AFTER_S`; listeners get an empty route then.
        """
        is_new = topic not in self._watched
        self._watched.add(topic)
        if while_known:
            self._while_known.add(topic)
        if is_new and topic in self.known.routes:
            self._follow_up(topic)

    def is_watched(self, topic: str) -> bool:
        """True while `topic` is refreshed with every poll."""
        return topic in self._watched

    def unwatch(self, topic: str) -> None:
        """Refresh `topic` no more, and forget its route."""
        self._watched.discard(topic)
        self._while_known.discard(topic)
        self._absent_since_s.pop(topic, None)
        self.known.forget(topic)

    async def find(self, topic: str) -> TopicRoute:
        """Return the topic's route: what is known, or else what a NameServer says now.

        Raises:
            RouteNotFound: no NameServer knows the topic.
            NoNameServer: none answered.
        """
        route = self.known.routes.get(topic)
        if route is None:
            await self.refresh(topic)
            route = self.known.routes.get(topic)
            if route is None:
                raise RouteNotFound(f"topic {topic} is not watched any more")
        return route

    async def refresh(self, topic: str) -> bool:
        """Ask for the topic's route now; callers that ask at the same time share one query.

        Returns:
            True when the answer differs from what was known.

        Raises:
            RouteNotFound: no NameServer knows the topic.
            NoNameServer: none answered.
        """
        task = self._refreshing.get(topic)
        if task is None:
            task = self._refreshing[topic] = asyncio.create_task(self._refresh(topic), name=f"orbitmq route of {topic}")
            task.add_done_callback(partial(self._end_refreshing, topic))
        return await asyncio.shield(task)

    async def seek(self, topic: str, broker_name: str) -> None:
        """Ask for the topic's route on behalf of a broker that no route names; not if that was done in the last `SEEK_S`.

        Raises: as `refresh`.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._sought_s.get(broker_name, now_s - SEEK_S) + SEEK_S:
            self._sought_s[broker_name] = now_s
            await self.refresh(topic)

    def chase(self, topic: str, broker_name: str | None = None) -> None:
        """Ask for the topic's route again and again for some moments, until it has changed and each broker name has a master.

        Args:
            broker_name: the broker that has failed. One topic is asked for on behalf of all that it holds, and they are refreshed
                after a change; while there is none, it is asked for less and less often.
        """
        subject = topic if broker_name is None else broker_name
        after_s, _ = self._quiet.get(subject, (0.0, 0.0))
        if subject not in self._chasing and asyncio.get_running_loop().time() >= after_s:
            task = asyncio.create_task(self._chase(topic, subject), name=f"orbitmq failover of {subject}")
            self._chasing[subject] = task
            task.add_done_callback(lambda _done: self._chasing.pop(subject, None))

    async def _chase(self, topic: str, subject: str) -> None:
        is_changed = False
        for _ in range(CHASE_COUNT):
            with suppress(OrbitError):
                is_changed |= await self.refresh(topic)
            route = self.known.routes.get(topic)
            if is_changed and route is not None and all(MASTER_ID in broker.addresses for broker in route.brokers):
                self._quiet.pop(subject, None)
                await self._refresh_topics(self._watched & self.known.topics_of(subject) - {topic})
                return
            await asyncio.sleep(CHASE_MS / 1000)
        _, pause_s = self._quiet.get(subject, (0.0, FIRST_QUIET_S / 2))
        pause_s = min(2 * pause_s, QUIET_S_MAX)
        self._quiet[subject] = asyncio.get_running_loop().time() + pause_s, pause_s

    async def refresh_all(self) -> None:
        """Ask for every watched topic; errors are logged, what is known stays."""
        topics = sorted(self._watched)
        if not topics or not await self._try_refresh(topics[0]):
            return  # when no NameServer answers for one topic, none is asked for the others
        await self._refresh_topics(topics[1:])

    async def _refresh_topics(self, topics: Iterable[str]) -> None:
        wanted = sorted(topics)
        for first in range(0, len(wanted), TOGETHER):
            await asyncio.gather(*map(self._try_refresh, wanted[first : first + TOGETHER]))

    async def _refresh_missing(self) -> None:
        """Ask for the watched topics that no NameServer has known yet."""
        for topic in sorted(self._watched - self.known.routes.keys()):
            if not topic.startswith(RETRY_PREFIX) and not await self._try_refresh(topic):
                return

    def _end_refreshing(self, topic: str, task: asyncio.Task[bool]) -> None:
        self._refreshing.pop(topic, None)
        if not task.cancelled():
            task.exception()  # seen, although all its waiters may have been cancelled meanwhile

    async def _refresh(self, topic: str) -> bool:
        try:
            route, teacher = await query_route(self._name_servers, topic)
        except RouteNotFound:
            self._end_outage()
            self._note_absence(topic)
            raise
        self._end_outage()
        self._absent_since_s.pop(topic, None)
        if not self.known.learn(topic, route, teacher):
            return False
        log.info("route of topic %s changed (NameServer %s): %s", topic, teacher, _summary(route))
        for listener in tuple(self._listeners):
            listener(topic, route)
        self._follow_up(topic)
        return True

    def _note_absence(self, topic: str) -> None:
        if topic not in self._while_known:
            return
        now_s = asyncio.get_running_loop().time()
        if now_s - self._absent_since_s.setdefault(topic, now_s) >= FORGET_AFTER_S:
            log.info("topic %s: no NameServer has known it for %g s, it is forgotten", topic, FORGET_AFTER_S)
            self.unwatch(topic)
            for listener in tuple(self._listeners):
                listener(topic, TopicRoute())

    async def _try_refresh(self, topic: str) -> bool:
        """Refresh one topic; False when no NameServer answered."""
        try:
            await self.refresh(topic)
        except NoNameServer as error:
            if not self._is_outage:
                self._is_outage = True
                log.warning("%s. Known routes stay in use", error)
            return False
        except OrbitError as error:
            log.debug("route of topic %s: %s", topic, error)
        return True

    def _end_outage(self) -> None:
        if self._is_outage:
            self._is_outage = False
            log.info("a NameServer answers again: %s", self._name_servers.addresses[0])

    def _list_servers(self) -> str:
        return "NameServer " + ", ".join(self._name_servers.configured)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(FIRST_POLL_MS / 1000)
        while True:
            await self.refresh_all()
            ends_s = loop.time() + self._poll_interval_ms / 1000
            while (left_s := ends_s - loop.time()) > 0:
                await asyncio.sleep(min(left_s, MISSING_POLL_MS / 1000))
                await self._refresh_missing()
            self._name_servers.resolve_again()

    def _follow_up(self, topic: str) -> None:
        """Look at a changed route again soon; a further change restarts the round."""
        if self._polling is None or topic not in self._watched:
            return
        if topic in self._following:
            self._following[topic].cancel()
        task = self._following[topic] = asyncio.create_task(self._follow(topic), name=f"orbitmq follow-up of {topic}")
        task.add_done_callback(lambda done: self._following.pop(topic) if self._following[topic] is done else None)

    async def _follow(self, topic: str) -> None:
        for pause_ms in FOLLOW_UP_MS:
            await asyncio.sleep(pause_ms / 1000)
            await self._try_refresh(topic)


def _summary(route: TopicRoute) -> str:
    return ", ".join(
        f"{data.broker_name} r{data.read_queue_count} w{data.write_queue_count} perm {data.perm}"
        for data in sorted(route.queues, key=lambda data: data.broker_name)
    )
