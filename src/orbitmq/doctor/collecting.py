"""The queries that make a snapshot: of every NameServer, every broker at each of its addresses, topics, groups and clients.

They change nothing. A server that does not answer, or refuses a query, is part of the snapshot. The number of queries is limited:
of very large clusters the snapshot says what was left out.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from orbitmq.wire.bodies.groups import decode_consumer_connections, decode_group_table
from orbitmq.wire.bodies.offsets import decode_committed, decode_time_spans
from orbitmq.wire.bodies.topics import QueueStats, decode_topic_stats, decode_topic_table
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

Progress = Callable[[str, int, int], None]
"""Receives what is being queried, how many of it are done, and how many there are."""

AT_A_TIME = 64
"""Requests in flight."""
TOPICS_MAX = 20_000
"""Topics of one broker whose queues are queried."""
GROUPS_MAX = 20_000
LAGGING_GROUPS_MAX = 200
"""Groups, those with the most lag first, whose oldest unread messages are queried."""
CLIENTS_MAX = 200
"""Clients, those of such groups first, whose state is queried."""
FAILURES_MAX = 3
"""Unanswered requests after which a server gets no more."""
_CLIENT_TIMEOUT_MS = 1_000
"""Of a query that a broker passes on to a client, which may be busy."""


async def take_snapshot(
    name_servers: Sequence[str],
    pool: ConnectionPool,
    *,
    timeout_ms: int = 3_000,
    tls: ssl.SSLContext | None = None,
    progress: Progress = lambda what, done, count: None,
) -> Snapshot:
    """Return the answers of a cluster's servers.

    Args:
        name_servers: addresses; each is queried, because they may disagree.
        tls: for the connections that read the servers' certificates; None: certificates are not read.
        progress: called after each answer.

    Raises:
        NoNameServer: none of the NameServers answers.
    """
    return await _Collection(pool, timeout_ms, tls, progress).take(name_servers)


class _Collection:
    """The work of one snapshot."""

    def __init__(self, pool: ConnectionPool, timeout_ms: int, tls: ssl.SSLContext | None, progress: Progress) -> None:
        self._pool, self._timeout_ms, self._tls, self._progress = pool, timeout_ms, tls, progress
        self._left_out: list[str] = []
        self._committed: dict[str, dict[MessageQueue, int]] = {}
        self._failures: Counter[str] = Counter()
        """Unanswered requests, by address."""

    async def take(self, name_servers: Sequence[str]) -> Snapshot:
        """Query everything."""
        answers = await self._each("NameServers", name_servers, self._name_server)
        routes = next((routes for facts, routes in answers.values() if facts.problem is None), None)
        if routes is None:
            raise no_name_server([f"{facts.address}: {facts.problem}" for facts, _ in answers.values()])
        name_server_facts = [facts for facts, _ in answers.values()]
        members = _members(name_server_facts)
        brokers = list((await self._each("brokers", members, self._broker)).values())
        addresses = controllers_of(broker.runtime.get("controllers") for broker in brokers)
        controllers = await ask_controllers(self._pool, addresses, timeout_ms=self._timeout_ms)
        masters = {broker.name: broker for broker in brokers if broker.is_master and broker.problem is None}
        queues = await self._queues(masters)
        groups = await self._groups(masters, queues)
        silent = {broker.name for broker in brokers if self._is_silent(broker)}
        return Snapshot(
            taken_at_ms=_now_ms(),
            name_servers=name_server_facts,
            brokers=brokers,
            controllers=controllers,
            routes=routes,
            queues=queues,
            groups=groups,
            committed=self._committed,
            left_out=self._left_out,
            silent=sorted(silent | _lost_masters(name_server_facts) - masters.keys()),
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
        errors: dict[str, OrbitError] = {}

        async def query(what: str, header: object, decode: Callable[[bytes], dict[str, T]]) -> dict[str, T]:
            try:
                return decode((await self._query(address, header)).body)
            except OrbitError as error:
                errors[what] = error
                return {}

        sent_ms = _now_ms()
        runtime = await query("run-time values", GetBrokerRuntimeInfo(), decode_kv_table)
        # The system accepts connections for a process that hangs.
        if isinstance(failure := errors.get("run-time values"), (ConnectionFailed, RequestTimeout)):
            return replace(named, problem=str(failure))
        facts = replace(
            named,
            queried_at_ms=(sent_ms + _now_ms()) // 2,
            runtime=runtime,
            settings=await query("settings", GetBrokerConfig(), _parse_settings),
            health=await self._broker_health(address, errors),
            certificate_ends_ms=await self._certificate_end(address),
        )
        if facts.is_master:
            self._add_committed(name, await query("offsets", GetAllConsumerOffsets(), decode_committed))
            facts = replace(
                facts,
                topics=await query("topics", GetAllTopicConfig(), lambda body: dict(decode_topic_table(body).topics)),
                groups=await query(
                    "groups", GetAllSubscriptionGroups(), lambda body: dict(decode_group_table(body).groups)
                ),
            )
        return replace(facts, refusals={what: str(error) for what, error in errors.items()})

    async def _broker_health(self, address: str, errors: dict[str, OrbitError]) -> dict[str, Any] | None:
        """Return a broker's health document; None for Java's, which has none."""
        try:
            health = await ask_broker_health(self._pool, address, timeout_ms=self._timeout_ms)
        except OrbitError as error:
            errors["health"] = error
            return None
        return health if "uptimeMs" in health else None

    def _add_committed(self, broker_name: str, offsets: Mapping[str, dict[int, int]]) -> None:
        for key, queues in offsets.items():
            topic, _, group = key.partition("@")
            committed = self._committed.setdefault(group, {})
            committed.update(
                (MessageQueue(topic, broker_name, queue_id), offset) for queue_id, offset in queues.items()
            )

    async def _queues(self, masters: Mapping[str, BrokerFacts]) -> dict[MessageQueue, QueueStats]:
        wanted = [
            (broker.address, topic)
            for broker in masters.values()
            for topic in self._limited(broker.subject, "topics", broker.topics, TOPICS_MAX)
        ]

        async def query(key: tuple[str, str]) -> dict[MessageQueue, QueueStats]:
            address, topic = key
            try:
                return decode_topic_stats((await self._query(address, GetTopicStats(topic=topic))).body)
            except OrbitError:
                return {}  # deleted since its table was read

        found: dict[MessageQueue, QueueStats] = {}
        for queues in (await self._each("topics", wanted, query)).values():
            found |= queues
        return found

    async def _groups(
        self, masters: Mapping[str, BrokerFacts], queues: Mapping[MessageQueue, QueueStats]
    ) -> dict[str, GroupFacts]:
        names = sorted({name for broker in masters.values() for name in broker.groups} - SYSTEM_GROUPS)
        names = self._limited("the cluster", "groups", names, GROUPS_MAX)
        statuses, unknown = await self._statuses(masters, names)
        lags = {group: _lag(committed, queues) for group, committed in self._committed.items()}
        lagging = sorted((name for name in names if lags.get(name)), key=lambda name: -lags[name])
        lagging = self._limited("the cluster", "groups with lag", lagging, LAGGING_GROUPS_MAX)
        delays = await self._each("lag", lagging, lambda group: self._delays(masters, group))
        clients = await self._clients(statuses, lags, [broker.address for broker in masters.values()])
        return {
            name: GroupFacts(
                status=status,
                are_members_known=name not in unknown,
                clients=clients.get(name, {}),
                delays=delays.get(name, {}),
            )
            for name, status in statuses.items()
        }

    async def _statuses(
        self, masters: Mapping[str, BrokerFacts], names: Sequence[str]
    ) -> tuple[dict[str, GroupStatus], dict[str, str]]:
        """Return the status of each group, and for groups without the members of some master, the reason."""
        unknown: dict[str, str] = {}

        async def query(group: str) -> GroupStatus:
            settings = {broker.name: broker.groups[group] for broker in masters.values() if group in broker.groups}
            connections: list[Connections | None] = []
            for broker in masters.values():
                try:
                    connections.append(await self._connections(broker.address, group))
                except OrbitError as error:
                    unknown[group] = str(error)
            return merged_status(group, settings, connections)

        statuses = await self._each("groups", names, query)
        if unknown:
            group, reason = min(unknown.items())
            self._left_out.append(
                f"the members of {len(unknown)} groups were not told, as of {group}: {reason}; "
                "checks that need them say nothing"
            )
        return statuses, unknown

    async def _connections(self, address: str, group: str) -> Connections | None:
        answer = await self._request(address, GetConsumerConnections(consumer_group=group))
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        return decode_consumer_connections(expect(answer, address).body, group)

    async def _delays(self, masters: Mapping[str, BrokerFacts], group: str) -> dict[MessageQueue, int]:
        """Return how old the next message for a group is in each queue, in ms."""
        delays: dict[MessageQueue, int] = {}
        for topic, broker in sorted({(queue.topic, queue.broker_name) for queue in self._committed.get(group, {})}):
            try:
                header = QueryConsumeTimeSpan(topic=topic, group=group)
                spans = decode_time_spans((await self._query(masters[broker].address, header)).body)
            except OrbitError:
                continue
            delays.update((span.queue, span.delay_ms) for span in spans if span.delay_ms > 0)
        return delays

    async def _clients(
        self, statuses: Mapping[str, GroupStatus], lags: Mapping[str, int], addresses: Sequence[str]
    ) -> dict[str, dict[str, RunningInfo]]:
        wanted = [
            (name, client.client_id)
            for name, status in sorted(statuses.items(), key=lambda item: -lags.get(item[0], 0))
            for client in status.clients
        ]

        async def query(member: tuple[str, str]) -> RunningInfo | None:
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
        wanted = self._limited("the cluster", "clients", wanted, CLIENTS_MAX)
        for (name, client_id), info in (await self._each("clients", wanted, query)).items():
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
        ends = certificate.get("notAfter")  # empty unless the certificate is verified
        return None if ends is None else ssl.cert_time_to_seconds(ends) * 1000

    async def _query(self, address: str, header: object) -> Command:
        return expect(await self._request(address, header), address)

    async def _request(self, address: str, header: object) -> Command:
        """Send a request, unless its broker left too many unanswered: waiting for thousands more would take hours."""
        if self._failures[address] >= FAILURES_MAX:
            raise RequestTimeout(f"{address} has fallen silent")
        try:
            return await self._pool.request(address, header, timeout_ms=self._timeout_ms)
        except (ConnectionFailed, RequestTimeout):
            self._failures[address] += 1
            if self._failures[address] == FAILURES_MAX:
                self._left_out.append(f"{address} has fallen silent: it was not asked for anything more")
            raise

    async def _each(self, what: str, keys: Iterable[K], query: Callable[[K], Awaitable[T]]) -> dict[K, T]:
        """Call `query` for every key, `AT_A_TIME` at the same time; return the results in the keys' order."""
        listed = list(keys)
        found: dict[K, T] = {}
        remaining = iter(listed)

        async def work() -> None:
            for key in remaining:
                found[key] = await query(key)
                self._progress(what, len(found), len(listed))

        await asyncio.gather(*(work() for _ in range(min(AT_A_TIME, len(listed)))))
        return {key: found[key] for key in listed}

    def _limited(self, whose: str, what: str, names: Iterable[K], count_max: int) -> list[K]:
        """Return the first names, and record in the snapshot when some are left out."""
        listed = list(names)
        if len(listed) > count_max:
            self._left_out.append(f"{whose}: {count_max} of {len(listed)} {what} were looked at")
        return listed[:count_max]


def _members(name_servers: Iterable[NameServerFacts]) -> list[tuple[str, str, int, str]]:
    """Return every address that a NameServer reports: cluster, broker name, id, address."""
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


def _lag(committed: Mapping[MessageQueue, int], queues: Mapping[MessageQueue, QueueStats]) -> int:
    return sum(
        unread_count(offset, queues[queue].min_offset, queues[queue].max_offset)
        for queue, offset in committed.items()
        if queue in queues
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lost_masters(name_servers: Iterable[NameServerFacts]) -> set[str]:
    """Return the names of the masters that orbitmq NameServers report as lost within a day."""
    return {name for facts in name_servers if facts.health for name in lost_masters_in(facts.health["alerts"])}
