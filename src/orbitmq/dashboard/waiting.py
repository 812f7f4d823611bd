"""Everything that waits in brokers: transactions without a decision, messages for their time, pops that are not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.answers import Column, Page, Section
from orbitmq.errors import OrbitError
from orbitmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC
from orbitmq.net.pool import expect
from orbitmq.wire import fastjson
from orbitmq.wire.headers import GetTimerMetrics

HALF_GROUP, REVIVE_GROUP = "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP"
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


async def waiting(_request: Request, clients: ClusterClients) -> Page:
    """Show what waits at each master."""
    masters = await clients.admin.masters()
    infos = await asyncio.gather(*(_runtime(clients, address) for address in masters.values()))
    told = dict(zip(masters, infos, strict=True))
    levels = [row for broker, info in told.items() for row in delay_rows(broker, info)]
    sections = [
        Section(
            name="transactions",
            title="Transactions",
            columns=_TRANSACTIONS,
            rows=[await _transactions(clients, broker) for broker in masters],
            note="Some of the half messages may be decided: a broker skips those when it comes to them.",
        ),
        Section(
            name="timers",
            title="Messages with a time of their own",
            columns=_TIMERS,
            rows=[await _timers(clients, broker, address, told[broker]) for broker, address in masters.items()],
        ),
        Section(
            name="levels", title="Delay levels", columns=_LEVELS, rows=levels, empty="No message waits in a level."
        ),
        Section(name="pops", title="POP", columns=_POPS, rows=[await _pops(clients, broker) for broker in masters]),
    ]
    return Page("tables.html", "Waiting", {}, sections=sections)


def delay_rows(broker: str, info: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return how many messages wait in each delay level, from a broker's run-time values `scheduleMessageOffset_N`."""
    rows: list[dict[str, Any]] = []
    for key, value in info.items():
        level, (at, _, end) = key.removeprefix("scheduleMessageOffset_"), value.partition(",")
        if level != key and level.isdecimal() and at.isdecimal() and end.isdecimal():
            number = int(level)
            delay = DELAYS[number - 1] if 0 < number <= len(DELAYS) else None
            rows.append({"broker": broker, "level": number, "delay": delay, "waiting": max(0, int(end) - int(at))})
    rows = sorted((row for row in rows if row["waiting"]), key=lambda row: row["level"])
    top = max((row["waiting"] for row in rows), default=1)
    return [{**row, "share": row["waiting"] / top} for row in rows]


async def _runtime(clients: ClusterClients, address: str) -> dict[str, str]:
    try:
        return await clients.admin.broker_runtime_info(address)
    except OrbitError:
        return {}


async def _transactions(clients: ClusterClients, broker: str) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker, "undecided": None, "discarded": None, "problem": None}
    try:
        row["undecided"] = await _lag(clients, HALF_GROUP, HALF_TOPIC, broker)
        row["discarded"] = await _count(clients, GIVEN_UP_TOPIC, broker)
    except OrbitError as error:
        row["problem"] = str(error)
    return row


async def _pops(clients: ClusterClients, broker: str) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker, "checkpoints": None, "problem": None}
    try:
        topics = [topic for topic in await clients.admin.topic_list() if topic.startswith("rmq_sys_REVIVE_LOG_")]
        row["checkpoints"] = sum([await _lag(clients, REVIVE_GROUP, topic, broker) for topic in topics])
    except OrbitError as error:
        row["problem"] = str(error)
    return row


async def _timers(clients: ClusterClients, broker: str, address: str, info: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "broker": broker,
        "is_on": None,
        "waiting": _number(info.get("timerCongestNum")),
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


async def _lag(clients: ClusterClients, group: str, topic: str, broker: str) -> int:
    lags = await clients.admin.group_lag(group, topic)
    return sum(found.lag for queue, found in lags.items() if queue.broker_name == broker)


async def _count(clients: ClusterClients, topic: str, broker: str) -> int:
    stats = await clients.admin.topic_stats(topic)
    return sum(found.max_offset - found.min_offset for queue, found in stats.items() if queue.broker_name == broker)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None
