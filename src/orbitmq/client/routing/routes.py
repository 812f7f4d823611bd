"""The NameServer-facing part of every client: who is asked, what was learnt, and when it is asked again.

Routes are refreshed 10 ms after the start and then every 30 s, for all topics that somebody watches, and a few times
in the seconds after a change. An answer replaces what is known only when it says something else; while no NameServer
answers, what is known stays in use.

Source: Java MQClientInstance (updateTopicRouteInfoFromNameServer, the 30 s poll) and NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from orbitmq.client.routing.nameserver_client import Asking, nobody
from orbitmq.client.routing.queue_selection import address_of, same_route
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, HeaderError, NoNameServer, OrbitError, RemoteRefused, RouteNotFound
from orbitmq.model.route import MASTER_ID, BrokerData, TopicRoute
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetRouteInfo

log = logging.getLogger(__name__)

FIRST_POLL_MS = 10
POLL_INTERVAL_MS = 30_000
FOLLOW_UP_MS = (1_000, 2_000, 4_000, 8_000)
"""After a change more are likely: a topic that is being created appears on one broker after the other."""
ASK_TIMEOUT_MS = 3_000

RouteListener = Callable[[str, TopicRoute], None]
"""Is told a topic and its new route."""


class Routes:
    """Asks NameServers and remembers what they said.

    Args:
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        pool: the connections that carry the questions; the caller closes it.
        random: chooses the NameServer to begin with.
        poll_interval_ms: how often the watched topics are refreshed.
        ask_timeout_ms: how long one NameServer has to answer before the next one is asked.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        pool: ConnectionPool,
        *,
        random: Random | None = None,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        ask_timeout_ms: int = ASK_TIMEOUT_MS,
    ) -> None:
        self.on_change: list[RouteListener] = []
        self._asking = Asking(name_servers, pool, random or Random(), ask_timeout_ms)
        self._poll_interval_ms = poll_interval_ms
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._teachers: dict[str, str] = {}
        self._watched: set[str] = set()
        self._refreshing: dict[str, asyncio.Task[bool]] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._are_down = False

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The NameServers as they were configured."""
        return self._asking.configured

    def configure(self, name_servers: str | Iterable[str]) -> None:
        """Use other NameServers from now on; what the old ones said stays known until the new ones say otherwise."""
        self._asking.configure(name_servers)

    def start(self) -> None:
        """Refresh watched topics from now on."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll(), name="orbitmq routes")

    async def close(self) -> None:
        """Stop refreshing."""
        tasks: list[asyncio.Task[Any]] = [*self._refreshing.values(), *self._following.values()]
        if self._polling is not None:
            tasks.append(self._polling)
            self._polling = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._asking.close()

    # What is known.

    def cached(self, topic: str) -> TopicRoute | None:
        """Return the topic's route as far as it is known, without asking."""
        return self._routes.get(topic)

    def broker(self, broker_name: str) -> BrokerData | None:
        """Return a broker group that some known route names."""
        return self._brokers.get(broker_name)

    @property
    def brokers(self) -> tuple[BrokerData, ...]:
        """Every broker group that some known route names."""
        return tuple(self._brokers.values())

    def address(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str:
        """Return the address of a member of a broker group.

        Raises:
            RouteNotFound: no known route names the group, or it lacks that member.
        """
        broker = self._brokers.get(broker_name)
        address = None if broker is None else address_of(broker, broker_id, only_this=only_this)
        if address is None:
            member = "a master" if broker_id == MASTER_ID else f"a member with id {broker_id}"
            raise RouteNotFound(
                f"broker {broker_name} has {member if only_this else 'no member'} in no route from "
                f"{self._list_servers()}. Is the broker up, and registered there?"
            )
        return address

    def teacher(self, broker_name: str) -> str:
        """Say which NameServer named a broker, for error messages."""
        return self._teachers.get(broker_name, self._list_servers())

    # Asking.

    def watch(self, topic: str) -> None:
        """Refresh `topic` with every poll from now on."""
        self._watched.add(topic)

    def unwatch(self, topic: str) -> None:
        """Refresh `topic` no more; what is known of it is forgotten."""
        self._watched.discard(topic)
        self._routes.pop(topic, None)

    async def find(self, topic: str) -> TopicRoute:
        """Return the topic's route: what is known, or else what a NameServer says now.

        Raises:
            RouteNotFound: no NameServer knows the topic.
            NoNameServer: none answered.
        """
        route = self._routes.get(topic)
        if route is None:
            await self.refresh(topic)
            route = self._routes.get(topic)
            if route is None:
                raise RouteNotFound(f"topic {topic} is not watched any more")
        return route

    async def refresh(self, topic: str) -> bool:
        """Ask for the topic's route now; whoever asks at the same time shares one question.

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

    async def refresh_all(self) -> None:
        """Ask for every watched topic; errors are logged, what is known stays."""
        topics = sorted(self._watched)
        if not topics or not await self._try_refresh(topics[0]):
            return  # when nobody answers for one topic, nobody is asked for the others
        await asyncio.gather(*map(self._try_refresh, topics[1:]))

    async def ask(self, header: object, body: bytes = b"", *, code: int | None = None) -> Command:
        """Ask one NameServer after the other until one answers; return its answer, whatever its code.

        Raises:
            NoNameServer: none answered; names each address and what happened there.
        """
        return await self._asking.first(header, body, code=code)

    async def ask_all(
        self, header: object, body: bytes = b"", *, code: int | None = None
    ) -> dict[str, Command | ClientError]:
        """Ask every NameServer at once; return each one's answer or what went wrong there."""
        return await self._asking.everybody(header, body, code=code)

    # Below: how.

    def _end_refreshing(self, topic: str, task: asyncio.Task[bool]) -> None:
        self._refreshing.pop(topic, None)
        if not task.cancelled():
            task.exception()  # seen, although everybody who waited for it may have been cancelled meanwhile

    async def _refresh(self, topic: str) -> bool:
        route, teacher = await self._fetch(topic)
        if same_route(self._routes.get(topic), route):
            return False
        self._routes.pop(topic, None)
        self._routes[topic] = route  # at the end: in `_brokers`, what was learnt last counts
        self._brokers = {broker.broker_name: broker for known in self._routes.values() for broker in known.brokers}
        self._teachers.update((broker.broker_name, teacher) for broker in route.brokers)
        log.info("route of topic %s changed (NameServer %s): %s", topic, teacher, _summary(route))
        for listener in tuple(self.on_change):
            listener(topic, route)
        self._follow_up(topic)
        return True

    async def _fetch(self, topic: str) -> tuple[TopicRoute, str]:
        """Ask for a route; a NameServer that does not know the topic is no proof that the next one does not, either."""
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        causes: list[str] = []
        refusals: list[str] = []

        def accept(address: str, answer: Command) -> tuple[TopicRoute, str] | None:
            self._note_answer(address)
            origin = self._asking.origin(address)
            if answer.code == ResponseCode.SUCCESS:
                return _decode(answer, address), origin
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                refusals.append(origin)
            else:
                causes.append(str(RemoteRefused(answer.code, answer.remark, origin)))
            return None

        found = await self._asking.in_turn(header, accept, causes)
        if found is not None:
            return found
        if refusals:
            raise RouteNotFound(
                f"topic {topic} has no route: {', '.join(refusals)} do{'es' if len(refusals) == 1 else ''} not know it"
                f"{'; ' + '; '.join(causes) if causes else ''}. Create it (orbitmq topic create {topic}), or check that "
                "its broker is up and registered there"
            )
        raise nobody(causes)

    async def _try_refresh(self, topic: str) -> bool:
        """Refresh one topic; False when no NameServer answered."""
        try:
            await self.refresh(topic)
        except NoNameServer as error:
            if not self._are_down:
                self._are_down = True
                log.warning("%s. Known routes stay in use", error)
            return False
        except OrbitError as error:
            log.debug("route of topic %s: %s", topic, error)
        return True

    def _note_answer(self, address: str) -> None:
        if self._are_down:
            self._are_down = False
            log.info("a NameServer answers again: %s", address)

    def _list_servers(self) -> str:
        return "NameServer " + ", ".join(self._asking.configured)

    # Time.

    async def _poll(self) -> None:
        await asyncio.sleep(FIRST_POLL_MS / 1000)
        while True:
            await self.refresh_all()
            await asyncio.sleep(self._poll_interval_ms / 1000)
            self._asking.look_up_again()

    def _follow_up(self, topic: str) -> None:
        """Look at a changed route again soon; a further change begins the round anew."""
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


def _decode(answer: Command, address: str) -> TopicRoute:
    try:
        return decode_route(answer.body)
    except HeaderError as error:
        raise NoNameServer(f"{address} answered no route: {error}. Is it a NameServer?") from error


def _summary(route: TopicRoute) -> str:
    return ", ".join(
        f"{data.broker_name} r{data.read_queue_count} w{data.write_queue_count} perm {data.perm}"
        for data in sorted(route.queues, key=lambda data: data.broker_name)
    )
