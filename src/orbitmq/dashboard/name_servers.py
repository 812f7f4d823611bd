"""The NameServers: how each is doing, whether they agree, what happened to routes, and what is different from a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.requests import Request

from orbitmq.address import parse_name_servers
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.monitoring import ask_difference, ask_health, ask_history, take_snapshot
from orbitmq.admin.route_comparison import RouteFacts, differences
from orbitmq.admin.route_rows import difference_rows, event_row
from orbitmq.dashboard.answers import Column, Page, Section
from orbitmq.dashboard.forms import Form
from orbitmq.errors import InvalidArgument, OrbitError

EVENTS_MAX = 200
_SERVERS = (
    Column("address", "NameServer"),
    Column("healthy", "Healthy"),
    Column("brokers", "Brokers", "number"),
    Column("topics", "Topics", "number"),
    Column("connections", "Connections", "number"),
    Column("digest", "Digest of its routes", "code"),
    Column("problem", "Says", "long"),
)
_DRIFT = (Column("subject", "Subject"), Column("facts", "As each NameServer tells it", "long"))
_EVENTS = (
    Column("at", "Time (UTC)", "time"),
    Column("name_server", "NameServer"),
    Column("kind", "What"),
    Column("broker", "Broker", to=("brokers", "{broker_name}")),
    Column("address", "Address"),
    Column("topics", "Topics", "long"),
    Column("cause", "Cause"),
    Column("remote", "By"),
)
_CHANGES = (
    Column("name_server", "NameServer"),
    Column("what", "What"),
    Column("broker", "Broker", to=("brokers", "{broker}")),
    Column("before", "Before", "long"),
    Column("after", "Now", "long"),
)


async def name_servers(request: Request, clients: ClusterClients) -> Page:
    """Show every NameServer of the list; `topic`, `broker` and `at` choose what is told of the past."""
    addresses = parse_name_servers(clients.name_servers)
    looks = await asyncio.gather(*(_look(clients, address) for address in addresses))
    routes = {row["address"]: facts for row, facts in looks if facts is not None}
    drift = [
        {
            "subject": found.subject,
            "facts": "; ".join(f"{at}: {fact or 'not known'}" for at, fact in found.facts.items()),
        }
        for found in differences(routes)
    ]
    query = request.query_params
    subject, at = query.get("q", "").strip(), query.get("at", "").strip()
    events, note = await _history(clients, addresses, subject)
    sections = [
        Section(name="servers", title="NameServers", columns=_SERVERS, rows=[row for row, _ in looks]),
        Section(
            name="drift", title="Drift", columns=_DRIFT, rows=drift[:EVENTS_MAX], empty="They agree about every route."
        ),
    ]
    if at:
        rows = await _difference(clients, addresses, _past_ms(Form(dict(query))))
        sections.append(
            Section(
                name="changes",
                title=f"What is different from {at}",
                columns=_CHANGES,
                rows=rows,
                empty="Nothing is different.",
            )
        )
    sections.append(Section(name="events", title="What happened", columns=_EVENTS, rows=events, note=note))
    return Page("name_servers.html", "NameServers", {"q": subject, "at": at}, sections=sections)


async def _look(clients: ClusterClients, address: str) -> tuple[dict[str, Any], RouteFacts | None]:
    row: dict[str, Any] = dict.fromkeys(column.key for column in _SERVERS) | {"address": address}
    try:
        health = await ask_health(clients.pool, address, timeout_ms=clients.timeout_ms)
        facts = await take_snapshot(clients.pool, address, timeout_ms=clients.timeout_ms)
    except OrbitError as error:
        return row | {"healthy": False, "problem": str(error)}, None
    said = [alert["reason"] for alert in health["alerts"]] + health.get("warnings", [])
    told = {key: health.get(key) for key in ("healthy", "brokers", "topics", "connections")}
    return row | told | {"digest": facts.digest, "problem": "; ".join(said) or None}, facts


async def _history(
    clients: ClusterClients, addresses: tuple[str, ...], subject: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the events of every NameServer that keeps them, newest first."""
    rows: list[dict[str, Any]] = []
    silent = []
    for address in addresses:
        found: dict[int, dict[str, Any]] = {}
        try:
            # A name may be a topic's, a broker's, or both.
            for topic, broker_name in ((subject, None), (None, subject)) if subject else ((None, None),):
                events = await ask_history(
                    clients.pool,
                    address,
                    topic=topic,
                    broker_name=broker_name,
                    count_max=EVENTS_MAX,
                    timeout_ms=clients.timeout_ms,
                )
                found.update((event["number"], event) for event in events)
        except OrbitError as error:
            silent.append(str(error))
        rows += [{**event_row(address, event), "broker_name": event["brokerName"]} for event in found.values()]
    rows.sort(key=lambda row: -row["at"])
    return rows[:EVENTS_MAX], "; ".join(silent) or None


async def _difference(clients: ClusterClients, addresses: tuple[str, ...], at_ms: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for address in addresses:
        try:
            found = await ask_difference(clients.pool, address, at_ms, timeout_ms=clients.timeout_ms)
        except OrbitError:
            continue
        rows += difference_rows(address, found)
    return rows


def _past_ms(form: Form) -> int:
    at_ms = form.time_ms("at")
    if at_ms > time.time_ns() // 1_000_000:
        raise InvalidArgument("at", form.raw("at"), "a time that is not to come")
    return at_ms
