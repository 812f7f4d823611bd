"""Requests to one server by itself: a NameServer's routes, their history, its brokers; the health of either.

`AdminClient` asks whichever NameServer answers first; here every one is asked, because they may disagree.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.route_comparison import RouteFacts, snapshot_of
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, RemoteRefused
from orbitmq.model.route import MASTER_ID, ClusterInfo, TopicRoute
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.route import decode_cluster_info, decode_route
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.nameserver import (
    AddWritePerm,
    AddWritePermResponse,
    GetAllTopics,
    GetClusterInfo,
    GetHealth,
    GetRouteDifference,
    GetRouteHistory,
    GetRouteInfo,
    UnregisterBroker,
    WipeWritePerm,
    WipeWritePermResponse,
)

ROUTES_IN_FLIGHT = 64
"""Route queries that are in flight to one NameServer while its snapshot is taken."""

LOST_RULE = "RocketmqNameServerBrokerCountDropped"
"""The alert rule of our NameServers whose subjects are lost brokers, as cluster/name:id."""
_STATS = ("ready", "brokers", "topics", "consumerGroups", "connections", "diskUsedRatio", "memory", "loopLagMs")
"""Of a health document: numbers, or missing."""


async def take_snapshot(pool: ConnectionPool, address: str, *, timeout_ms: int = 3000) -> RouteFacts:
    """Return the routes of one NameServer, ours or Java's, to compare them.

    Raises:
        ClientError: it cannot be asked.
    """
    return snapshot_of(*await ask_routes(pool, address, timeout_ms=timeout_ms))


async def ask_routes(
    pool: ConnectionPool, address: str, *, timeout_ms: int = 3000
) -> tuple[ClusterInfo, dict[str, TopicRoute]]:
    """Return all brokers that one NameServer knows, and the route of every topic.

    Raises:
        ClientError: it cannot be asked.
    """
    info = decode_cluster_info(expect(await _ask(pool, address, GetClusterInfo(), timeout_ms), address).body)
    topics = decode_topic_list(expect(await _ask(pool, address, GetAllTopics(), timeout_ms), address).body).topics
    routes: dict[str, TopicRoute] = {}
    for start in range(0, len(topics), ROUTES_IN_FLIGHT):
        batch = topics[start : start + ROUTES_IN_FLIGHT]
        found = await asyncio.gather(*(_route(pool, address, topic, timeout_ms) for topic in batch))
        routes.update((topic, route) for topic, route in zip(batch, found, strict=True) if route is not None)
    return info, routes


async def ask_health(pool: ConnectionPool, address: str, *, timeout_ms: int = 3000) -> dict[str, Any]:
    """Return how a NameServer says it is doing; of Java's only that it answers, and its brokers.

    Raises:
        ClientError: it cannot be asked.
    """
    answer = await _ask(pool, address, GetHealth(), timeout_ms)
    if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return health_in(answer, address)
    info = decode_cluster_info(expect(await _ask(pool, address, GetClusterInfo(), timeout_ms), address).body)
    return {
        "healthy": True,
        "ready": True,
        "alerts": [],
        "warnings": ["not an orbitmq NameServer: it answers, and tells nothing else"],
        "brokers": sum(len(broker.addresses) for broker in info.brokers.values()),
    }


async def ask_broker_health(pool: ConnectionPool, address: str, *, timeout_ms: int = 3000) -> dict[str, Any]:
    """Return how a broker says it is doing; of Java's only that it answers.

    Raises:
        ClientError: it cannot be asked.
    """
    answer = await _ask(pool, address, GetHealth(), timeout_ms)
    if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return health_in(answer, address)
    warning = "not an orbitmq broker: it answers, and tells nothing else"
    return {"healthy": True, "ready": True, "alerts": [], "warnings": [warning]}


def health_in(answer: Command, address: str) -> dict[str, Any]:
    """Return a health document, in which what is read here has the types that it should have.

    Raises:
        ClientError: the server refused, or answered something else: any client may register as a broker.
    """
    body = expect(answer, address).body
    try:
        health: dict[str, Any] = orjson.loads(body)
        is_valid = (
            isinstance(health["healthy"], bool)
            and all(map(_is_alert, health["alerts"]))
            and all(isinstance(warning, str) for warning in health.get("warnings", ()))
            and all(isinstance(health.get(name), int | float | None) for name in _STATS)
        )
    except (ValueError, TypeError, KeyError):
        is_valid = False
    if not is_valid:
        raise ClientError(f"{address} answered with no health document")
    return health


def _is_alert(alert: dict[str, Any]) -> bool:
    return (
        all(isinstance(alert[part], str) for part in ("rule", "reason"))
        and isinstance(subjects := alert.get("subjects", []), list)
        and all(isinstance(name, str) for name in subjects)
    )


def lost_masters_in(alerts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of the masters that a NameServer of ours calls lost in its alerts, and why, and since when."""
    lost = lost_members_in(alerts).items()
    return {member.broker_name: reason for member, reason in lost if member.broker_id == MASTER_ID}


class LostMember(NamedTuple):
    """A broker that left its NameServer without a good-bye."""

    cluster: str
    broker_name: str
    broker_id: int


def lost_members_in(alerts: Iterable[Mapping[str, Any]]) -> dict[LostMember, str]:
    """Return the brokers that a NameServer of ours calls lost in its alerts, and why, and since when."""
    found = {}
    for alert in alerts:
        if alert["rule"] != LOST_RULE:
            continue
        for subject in alert.get("subjects", ()):
            cluster, _, member = subject.partition("/")
            name, _, broker_id = member.rpartition(":")
            if broker_id.isdecimal():
                cause = re.search(rf"{re.escape(subject)} at [^(]*(\([^)]*\))", alert["reason"])
                reason = "it is gone without a good-bye" + (f" {cause[1]}" if cause else "")
                found[LostMember(cluster, name, int(broker_id))] = reason
    return found


async def forget_lost(
    pool: ConnectionPool, address: str, members: Iterable[LostMember], *, timeout_ms: int = 3000
) -> None:
    """Let a NameServer of ours no longer miss lost brokers.

    Raises:
        ClientError: it cannot be asked.
    """
    for cluster, name, broker_id in members:
        header = UnregisterBroker(broker_name=name, broker_addr="", cluster_name=cluster, broker_id=broker_id)
        expect(await _ask(pool, address, header, timeout_ms), address)


async def ask_brokers(pool: ConnectionPool, address: str, *, timeout_ms: int = 3000) -> dict[str, str]:
    """Return the addresses of the brokers that a NameServer knows, each with the broker's name.

    Raises:
        ClientError: it cannot be asked.
    """
    info = decode_cluster_info(expect(await _ask(pool, address, GetClusterInfo(), timeout_ms), address).body)
    return {held: broker.broker_name for broker in info.brokers.values() for held in broker.addresses.values()}


async def ask_history(
    pool: ConnectionPool,
    address: str,
    *,
    topic: str | None = None,
    broker_name: str | None = None,
    since_ms: int = 0,
    count_max: int = 200,
    timeout_ms: int = 3000,
) -> Sequence[dict[str, Any]]:
    """Return what happened to a topic, a broker or anything, newest first, as one orbitmq NameServer remembers it.

    Raises:
        ClientError: it cannot be asked, or it is Java's and remembers nothing.
    """
    header = GetRouteHistory(topic=topic, broker_name=broker_name, since_ms=since_ms, count_max=count_max)
    events: list[dict[str, Any]] = orjson.loads((await _ask_ours(pool, address, header, timeout_ms)).body)
    return events


async def ask_difference(pool: ConnectionPool, address: str, at_ms: int, *, timeout_ms: int = 3000) -> dict[str, Any]:
    """Return what is different now from how it was at a time, as one orbitmq NameServer remembers it.

    Raises:
        ClientError: it cannot be asked, or it is Java's and remembers nothing.
    """
    answer = await _ask_ours(pool, address, GetRouteDifference(at_ms=at_ms), timeout_ms)
    difference: dict[str, Any] = orjson.loads(answer.body)
    return difference


async def _route(pool: ConnectionPool, address: str, topic: str, timeout_ms: int) -> TopicRoute | None:
    answer = await _ask(pool, address, GetRouteInfo(topic=topic), timeout_ms)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:  # gone since the list was taken
        return None
    return decode_route(expect(answer, address).body)


async def _ask_ours(pool: ConnectionPool, address: str, header: object, timeout_ms: int) -> Command:
    answer = await _ask(pool, address, header, timeout_ms)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise RemoteRefused(answer.code, "it is not an orbitmq NameServer and keeps no history", address)
    return expect(answer, address)


async def _ask(pool: ConnectionPool, address: str, header: object, timeout_ms: int) -> Command:
    return await pool.request(address, header, timeout_ms=timeout_ms)


async def set_write_perm(
    pool: ConnectionPool, address: str, broker_name: str, *, is_writable: bool, timeout_ms: int = 3000
) -> int:
    """Set or clear the write bit of every topic of a broker; return how many topics one NameServer knows of it.

    Raises:
        ClientError: the NameServer cannot be asked, or refuses.
    """
    header = (AddWritePerm if is_writable else WipeWritePerm)(broker_name=broker_name)
    fields = expect(await pool.request(address, header, timeout_ms=timeout_ms), address).ext_fields
    if is_writable:
        return decode_header(AddWritePermResponse, fields).add_topic_count
    return decode_header(WipeWritePermResponse, fields).wipe_topic_count
