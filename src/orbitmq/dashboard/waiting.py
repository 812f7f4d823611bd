"""Everything that waits in brokers: transactions without a decision, messages for their time, pops that are not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.one_broker import BrokerAdmin
from orbitmq.admin.waiting_counts import level_counts, popped_count, timed_count, undecided_count
from orbitmq.codes import ResponseCode
from orbitmq.dashboard.answers import Column, Page, Section
from orbitmq.errors import OrbitError, RemoteRefused
from orbitmq.model.topic import GIVEN_UP_TOPIC
from orbitmq.net.pool import expect
from orbitmq.wire import fastjson
from orbitmq.wire.headers import GetTimerMetrics

DELAYS = ("1 s", "5 s", "10 s", "30 s", *(f"{minutes} min" for minutes in (*range(1, 11), 20, 30)), "1 h", "2 h")
"""The times of delay levels, from level 1 on, where `messageDelayLevel` is not changed."""
_TRANSACTIONS = (
    Column("broker", "Broker"),
    Column("undecided", "Half messages from the oldest undecided one on", "number"),
    Column("discarded", "Discarded", "number"),
    Column("problem", "Problem", "long"),
)
_TIMERS = (
    Column("broker", "Broker"),
    Column("is_on", "Timers are on"),
    Column("waiting", "Messages that wait", "number"),
    Column("behind_s", "Behind its clock (s)", "number"),
    Column("topics", "By topic", "long"),
)
_LEVELS = (
    Column("broker", "Broker"),
    Column("level", "Level", "number"),
    Column("delay", "Delay"),
    Column("waiting", "Messages that wait", "number"),
    Column("share", "Share", "meter"),
)
_POPS = (
    Column("broker", "Broker"),
    Column("checkpoints", "Pops and acknowledgements that are not settled yet", "number"),
    Column("problem", "Problem", "long"),
)


class _Broker(NamedTuple):
    """What waits at one master: a row of each table."""

    transactions: dict[str, Any]
    timers: dict[str, Any]
    levels: list[dict[str, Any]]
    pops: dict[str, Any]


async def waiting(_request: Request, clients: ClusterClients) -> Page:
    """Show what waits at each master; of one that is lost its name and why."""
    masters, missing = await asyncio.gather(clients.admin.masters(), clients.admin.missing_masters())
    found = await asyncio.gather(*(_broker(clients, broker, at) for broker, at in masters.items()))
    found += [_unknown(broker, why) for broker, why in missing.items()]
    sections = [
        Section(
            name="transactions",
            title="Transactions",
            columns=_TRANSACTIONS,
            rows=[broker.transactions for broker in found],
            note="Some of the half messages may be decided: a broker skips those when it comes to them.",
        ),
        Section(
            name="timers",
            title="Messages with a time of their own",
            columns=_TIMERS,
            rows=[broker.timers for broker in found],
        ),
        Section(
            name="levels",
            title="Delay levels",
            columns=_LEVELS,
            rows=[row for broker in found for row in broker.levels],
            empty="No message waits in a level.",
        ),
        Section(name="pops", title="POP", columns=_POPS, rows=[broker.pops for broker in found]),
    ]
    return Page("tables.html", "Waiting", {}, sections=sections)


async def _broker(clients: ClusterClients, broker: str, address: str) -> _Broker:
    admin = await clients.admin.broker(address)
    info, transactions, pops = await asyncio.gather(
        _runtime(clients, address), _transactions(admin, broker), _pops(admin, broker)
    )
    return _Broker(transactions, await _timers(clients, broker, address, info), delay_rows(broker, info), pops)


def _unknown(broker: str, why: str) -> _Broker:
    return _Broker(
        {"broker": broker, "undecided": None, "discarded": None, "problem": why},
        {"broker": broker, "is_on": None, "waiting": None, "behind_s": None, "topics": why},
        [],
        {"broker": broker, "checkpoints": None, "problem": why},
    )


def delay_rows(broker: str, info: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return how many messages wait in each delay level, from a broker's run-time values `scheduleMessageOffset_N`."""
    rows: list[dict[str, Any]] = []
    for number, waiting in level_counts(info).items():
        delay = DELAYS[number - 1] if 0 < number <= len(DELAYS) else None
        rows.append({"broker": broker, "level": number, "delay": delay, "waiting": waiting})
    rows = sorted((row for row in rows if row["waiting"]), key=lambda row: row["level"])
    top = max((row["waiting"] for row in rows), default=1)
    return [{**row, "share": row["waiting"] / top} for row in rows]


async def _runtime(clients: ClusterClients, address: str) -> dict[str, str]:
    try:
        return await clients.admin.broker_runtime_info(address)
    except OrbitError:
        return {}


async def _transactions(admin: BrokerAdmin, broker: str) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker, "undecided": None, "discarded": None, "problem": None}
    try:
        row["undecided"] = await undecided_count(admin)
        row["discarded"] = await _count(admin, GIVEN_UP_TOPIC)
    except OrbitError as error:
        row["problem"] = str(error)
    return row


async def _pops(admin: BrokerAdmin, broker: str) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker, "checkpoints": None, "problem": None}
    try:
        row["checkpoints"] = await popped_count(admin)
    except OrbitError as error:
        row["problem"] = str(error)
    return row


async def _timers(clients: ClusterClients, broker: str, address: str, info: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "broker": broker,
        "is_on": None,
        "waiting": timed_count(info),
        "behind_s": _number(info.get("timerReadBehind")),
        "topics": None,
    }
    try:
        row["is_on"] = (await clients.admin.broker_settings(address)).get("timerWheelEnable") == "true"
        answer = await clients.pool.request(address, GetTimerMetrics(), timeout_ms=clients.timeout_ms)
        row["topics"] = timer_text(expect(answer, address).body)
    except OrbitError as error:
        row["topics"] = str(error)
    return row


def timer_text(body: bytes) -> str:
    """Return how many messages of each topic wait for their time, those with the most first."""
    try:
        counts = {str(topic): int(found["count"]) for topic, found in fastjson.loads(body)["timingCount"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return "the broker has answered with no such table"
    found = sorted(((count, topic) for topic, count in counts.items() if count > 0), reverse=True)
    return ", ".join(f"{topic} {count:,}" for count, topic in found[:10])


async def _count(admin: BrokerAdmin, topic: str) -> int:
    """Return how many messages a topic has; none before a broker has made it."""
    try:
        stats = await admin.topic_stats(topic)
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return 0
    return sum(found.max_offset - found.min_offset for found in stats.values())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None
