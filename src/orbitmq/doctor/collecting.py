"""The questions that make a snapshot: every NameServer, every broker at each of its addresses, topics, groups and clients.

Nothing is changed. A server that does not answer, or refuses one of the questions, is part of what is found. Of very large clusters
only so much is asked, and the snapshot says what was left out.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from orbitmq.admin.brokers import controllers_of
from orbitmq.admin.controllers import ask_controllers
from orbitmq.admin.groups import Connections, GroupStatus, merged_status
from orbitmq.admin.monitoring import ask_broker_health, ask_health, ask_routes, lost_masters_in
from orbitmq.admin.route_comparison import snapshot_of
from orbitmq.client.routing.nameserver_client import no_name_server
from orbitmq.codes import ResponseCode
from orbitmq.doctor.snapshot import BrokerFacts, GroupFacts, NameServerFacts, Snapshot
from orbitmq.errors import ConnectionFailed, HeaderError, OrbitError, RequestTimeout
from orbitmq.masking import masked_settings
from orbitmq.model.group import SYSTEM_GROUPS, unread_count
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.net.address_map import reachable
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.consumer_info import RunningInfo, decode_running_info
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.bodies.groups import (
    decode_consumer_connections,
    decode_group_table,
)
from orbitmq.wire.bodies.offsets import decode_committed, decode_time_spans
from orbitmq.wire.bodies.topics import (
    QueueStats,
    decode_topic_stats,
    decode_topic_table,
)
from orbitmq.wire.command import Command
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnections,
    GetRunningInfo,
    GetTopicStats,
    QueryConsumeTimeSpan,
)

T = TypeVar("T")
K = TypeVar("K")

Told = Callable[[str, int, int], None]
"""Is told what is asked, how much of it is done, and how much there is."""

AT_A_TIME = 64
"""Requests in flight."""
TOPICS_MAX = 20_000
"""Topics of one broker whose queues are asked for."""
GROUPS_MAX = 20_000
LAGGING_GROUPS_MAX = 200
"""Groups, those with the most lag first, whose oldest unread messages are asked for."""
CLIENTS_MAX = 200
"""Clients, those of such groups first, that are asked what they do."""
FAILURES_MAX = 3
"""Requests to one server that may end without an answer; it is asked no more then."""
_CLIENT_TIMEOUT_MS = 1_000
"""A broker passes the question on to a client, which may be busy."""


async def take_snapshot(
    name_servers: Sequence[str],
    pool: ConnectionPool,
    *,
    timeout_ms: int = 3_000,
    tls: ssl.SSLContext | None = None,
    told: Told = lambda what, done, count: None,
) -> Snapshot:
    """Return the answers of a cluster's servers.

    Args:
        name_servers: addresses; each is asked, because they may disagree.
        tls: asks for the certificates of servers, as the pool's connections do.

    Raises:
        NoNameServer: none of the NameServers can be asked.
    """
    return await _Collection(pool, timeout_ms, tls, told).take(name_servers)


class _Collection:
    """The work of one snapshot."""

    def __init__(self, pool: ConnectionPool, timeout_ms: int, tls: ssl.SSLContext | None, told: Told) -> None:
        self._pool, self._timeout_ms, self._tls, self._told = pool, timeout_ms, tls, told
        self._left_out: list[str] = []
        self._committed: dict[str, dict[MessageQueue, int]] = {}
        self._failures: Counter[str] = Counter()

    async def take(self, name_servers: Sequence[str]) -> Snapshot:
        """Ask everything."""
        answers = await self._each("NameServers", name_servers, self._name_server)
        first = next((routes for facts, routes in answers.values() if facts.problem is None), None)
        if first is None:
            raise no_name_server([f"{facts.address}: {facts.problem}" for facts, _ in answers.values()])
        found = [facts for facts, _ in answers.values()]
        brokers = list((await self._each("brokers", _members(found), self._broker)).values())
        addresses = controllers_of(broker.runtime.get("controllers") for broker in brokers)
        controllers = await ask_controllers(self._pool, addresses, timeout_ms=self._timeout_ms)
        masters = {broker.name: broker for broker in brokers if broker.is_master and broker.problem is None}
        queues = await self._queues(masters)
        groups = await self._groups(masters, queues)
        return Snapshot(
            taken_at_ms=_now_ms(),
            name_servers=found,
            brokers=brokers,
            controllers=controllers,
            routes=first,
            queues=queues,
            groups=groups,
            committed=self._committed,
            left_out=self._left_out,
            silent=sorted(
                {broker.name for broker in brokers if self._is_silent(broker)} | _lost(found) - masters.keys()
            ),
        )

    def _is_silent(self, broker: BrokerFacts) -> bool:
        return broker.is_master and (broker.problem is not None or self._failures[broker.address] > 0)

    async def _name_server(self, address: str) -> tuple[NameServerFacts, Mapping[str, TopicRoute]]:
        try:
            info, routes = await ask_routes(self._pool, address, timeout_ms=self._timeout_ms)
            health = await ask_health(self._pool, address, timeout_ms=self._timeout_ms)
        except OrbitError as error:
            return NameServerFacts(address=address, problem=str(error)), {}
        facts = NameServerFacts(
            address=address,
            info=info,
            routes=snapshot_of(info, routes),
            health=health if "uptimeMs" in health else None,
            certificate_ends_ms=await self._certificate_end(address),
        )
        return facts, routes

    async def _broker(self, member: tuple[str, str, int, str]) -> BrokerFacts:
        cluster, name, broker_id, address = member
        named = BrokerFacts(cluster=cluster, name=name, broker_id=broker_id, address=address)
        try:
            await self._pool.connect(address, timeout_ms=self._timeout_ms)
        except OrbitError as error:
            return replace(named, problem=str(error))
        refusals: dict[str, str] = {}
        silence: OrbitError | None = None

        async def ask(what: str, header: object, decode: Callable[[bytes], dict[str, T]]) -> dict[str, T]:
            nonlocal silence
            try:
                return decode((await self._ask(address, header)).body)
            except OrbitError as error:
                refusals[what] = str(error)
                if isinstance(error, (ConnectionFailed, RequestTimeout)):
                    silence = error
                return {}

        sent_ms = _now_ms()
        runtime = await ask("run-time values", GetBrokerRuntimeInfo(), decode_kv_table)
        if silence is not None:  # a process that hangs still has its connections taken by the system
            return replace(named, problem=str(silence))
        found = replace(
            named,
            asked_at_ms=(sent_ms + _now_ms()) // 2,
            runtime=runtime,
            settings=await ask("settings", GetBrokerConfig(), _parse_settings),
            health=await self._broker_health(address, refusals),
            certificate_ends_ms=await self._certificate_end(address),
            refusals=refusals,
        )
        if broker_id:
            return found
        self._take_committed(name, await ask("offsets", GetAllConsumerOffsets(), decode_committed))
        return replace(
            found,
            topics=await ask("topics", GetAllTopicConfig(), lambda body: dict(decode_topic_table(body).topics)),
            groups=await ask("groups", GetAllSubscriptionGroups(), lambda body: dict(decode_group_table(body).groups)),
        )

    async def _broker_health(self, address: str, refusals: dict[str, str]) -> dict[str, Any] | None:
        """Return a broker's health document; None for Java's, which has none."""
        try:
            health = await ask_broker_health(self._pool, address, timeout_ms=self._timeout_ms)
        except OrbitError as error:
            refusals["health"] = str(error)
            return None
        return health if "uptimeMs" in health else None

    def _take_committed(self, broker_name: str, offsets: Mapping[str, dict[int, int]]) -> None:
        for key, queues in offsets.items():
            topic, _, group = key.partition("@")
            places = self._committed.setdefault(group, {})
            places.update((MessageQueue(topic, broker_name, queue_id), offset) for queue_id, offset in queues.items())

    async def _queues(self, masters: Mapping[str, BrokerFacts]) -> dict[MessageQueue, QueueStats]:
        asked: list[tuple[str, str]] = []
        for broker in masters.values():
            asked += [
                (broker.address, topic) for topic in self._some(broker.subject, "topics", broker.topics, TOPICS_MAX)
            ]

        async def ask(key: tuple[str, str]) -> dict[MessageQueue, QueueStats]:
            address, topic = key
            try:
                return decode_topic_stats((await self._ask(address, GetTopicStats(topic=topic))).body)
            except OrbitError:
                return {}  # deleted since its table was read

        found: dict[MessageQueue, QueueStats] = {}
        for queues in (await self._each("topics", asked, ask)).values():
            found |= queues
        return found

    async def _groups(
        self, masters: Mapping[str, BrokerFacts], queues: Mapping[MessageQueue, QueueStats]
    ) -> dict[str, GroupFacts]:
        names = sorted({name for broker in masters.values() for name in broker.groups} - SYSTEM_GROUPS)
        names = self._some("the cluster", "groups", names, GROUPS_MAX)
        addresses = [broker.address for broker in masters.values()]

        untold: dict[str, str] = {}

        async def ask(group: str) -> GroupStatus:
            settings = {broker.name: broker.groups[group] for broker in masters.values() if group in broker.groups}
            told: list[Connections | None] = []
            for address in addresses:
                try:
                    told.append(await self._connections(address, group))
                except OrbitError as error:
                    untold[group] = str(error)
            return merged_status(group, settings, told)

        statuses = await self._each("groups", names, ask)
        if untold:
            group, reason = min(untold.items())
            self._left_out.append(
                f"the members of {len(untold)} groups were not told, as of {group}: {reason}; "
                "checks that need them say nothing"
            )
        lags = {group: _lag(places, queues) for group, places in self._committed.items()}
        lagging = sorted((name for name in names if lags.get(name)), key=lambda name: -lags[name])
        asked = self._some("the cluster", "groups with lag", lagging, LAGGING_GROUPS_MAX)
        delays = await self._each("lag", asked, lambda group: self._delays(masters, group))
        clients = await self._clients(statuses, lags, addresses)
        return {
            name: GroupFacts(
                status=status,
                are_members_told=name not in untold,
                clients=clients.get(name, {}),
                delays=delays.get(name, {}),
            )
            for name, status in statuses.items()
        }

    async def _connections(self, address: str, group: str) -> Connections | None:
        answer = await self._request(address, GetConsumerConnections(consumer_group=group))
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        return decode_consumer_connections(expect(answer, address).body, group)

    async def _delays(self, masters: Mapping[str, BrokerFacts], group: str) -> dict[MessageQueue, int]:
        """Return how old the next message for a group is in each queue, in ms."""
        found: dict[MessageQueue, int] = {}
        places = self._committed.get(group, {})
        for topic, broker in sorted({(queue.topic, queue.broker_name) for queue in places}):
            try:
                header = QueryConsumeTimeSpan(topic=topic, group=group)
                spans = decode_time_spans((await self._ask(masters[broker].address, header)).body)
            except OrbitError:
                continue
            found.update((span.queue, span.delay_ms) for span in spans if span.delay_ms > 0)
        return found

    async def _clients(
        self, statuses: Mapping[str, GroupStatus], lags: Mapping[str, int], addresses: Sequence[str]
    ) -> dict[str, dict[str, RunningInfo]]:
        wanted = [
            (name, client.client_id)
            for name, status in sorted(statuses.items(), key=lambda item: -lags.get(item[0], 0))
            for client in status.clients
        ]

        async def ask(member: tuple[str, str]) -> RunningInfo | None:
            header = GetRunningInfo(consumer_group=member[0], client_id=member[1])
            for address in addresses:
                try:
                    answer = await self._pool.request(address, header, timeout_ms=_CLIENT_TIMEOUT_MS)
                    if answer.code == ResponseCode.SUCCESS:
                        return decode_running_info(answer.body)
                except OrbitError:
                    continue
            return None

        found: dict[str, dict[str, RunningInfo]] = {}
        asked = self._some("the cluster", "clients", wanted, CLIENTS_MAX)
        for (name, client_id), info in (await self._each("clients", asked, ask)).items():
            if info is not None:
                found.setdefault(name, {})[client_id] = info
        return found

    async def _certificate_end(self, address: str) -> int | None:
        if self._tls is None:
            return None
        host, port = reachable(address)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                _, writer = await asyncio.open_connection(host, port, ssl=self._tls)
        except (OSError, TimeoutError):
            return None
        try:
            certificate = writer.get_extra_info("peercert") or {}
        finally:
            writer.close()
        ends = certificate.get("notAfter")  # told of verified certificates alone
        return None if ends is None else ssl.cert_time_to_seconds(ends) * 1000

    async def _ask(self, address: str, header: object) -> Command:
        return expect(await self._request(address, header), address)

    async def _request(self, address: str, header: object) -> Command:
        """Ask a broker, unless it has left too many requests unanswered: to wait for thousands more would take hours."""
        if self._failures[address] >= FAILURES_MAX:
            raise RequestTimeout(f"{address} has fallen silent")
        try:
            return await self._pool.request(address, header, timeout_ms=self._timeout_ms)
        except (ConnectionFailed, RequestTimeout):
            self._failures[address] += 1
            if self._failures[address] == FAILURES_MAX:
                self._left_out.append(f"{address} has fallen silent: it was not asked for anything more")
            raise

    async def _each(self, what: str, keys: Iterable[K], ask: Callable[[K], Awaitable[T]]) -> dict[K, T]:
        """Ask for every key, `AT_A_TIME` at the same time; return the answers in the keys' order."""
        listed = list(keys)
        found: dict[K, T] = {}
        left = iter(listed)

        async def work() -> None:
            for key in left:
                found[key] = await ask(key)
                self._told(what, len(found), len(listed))

        await asyncio.gather(*(work() for _ in range(min(AT_A_TIME, len(listed)))))
        return {key: found[key] for key in listed}

    def _some(self, whose: str, what: str, names: Iterable[K], count_max: int) -> list[K]:
        listed = list(names)
        if len(listed) > count_max:
            self._left_out.append(f"{whose}: {count_max} of {len(listed)} {what} were looked at")
        return list(islice(listed, count_max))


def _members(name_servers: Iterable[NameServerFacts]) -> list[tuple[str, str, int, str]]:
    """Return every address that a NameServer tells: cluster, broker name, id, address."""
    return sorted(
        {
            (broker.cluster, broker.broker_name, broker_id, address)
            for facts in name_servers
            if facts.info is not None
            for broker in facts.info.brokers.values()
            for broker_id, address in broker.addresses.items()
        }
    )


def _parse_settings(body: bytes) -> dict[str, str]:
    """Decode the settings of a broker, with its secrets masked.

    Raises:
        HeaderError: the body is not a properties file.
    """
    import javaproperties  # it loads an XML parser

    try:
        return masked_settings(javaproperties.loads(body.decode()))
    except ValueError as error:
        raise HeaderError(f"settings: {error}") from None


def _lag(places: Mapping[MessageQueue, int], queues: Mapping[MessageQueue, QueueStats]) -> int:
    return sum(
        unread_count(offset, queues[queue].min_offset, queues[queue].max_offset)
        for queue, offset in places.items()
        if queue in queues
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lost(name_servers: Iterable[NameServerFacts]) -> set[str]:
    """Return the names of the masters that NameServers of ours call lost: for a day they are missed."""
    return {name for facts in name_servers if facts.health for name in lost_masters_in(facts.health["alerts"])}
