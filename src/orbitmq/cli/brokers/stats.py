"""`orbitmq stats` and `orbitmq broker stats`: what brokers have counted in the last minute, hour and day."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, exit_if_incomplete
from orbitmq.cli.brokers.selection import AddressOption, BrokerSelection, ClusterOption, NameOption, ask_brokers
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient
    from orbitmq.wire.bodies.stats import BrokerStatsData


async def status(
    access: Access,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these values, such as putTps.")
    ] = None,
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show brokers' run-time values, by Java's names. Exit code 1 when one has no value of such a name."""
    async with access.admin() as admin:
        brokers = dict(await BrokerSelection(address, name, cluster).find(admin))
        found, code = await ask_brokers(brokers, admin.broker_runtime_info)
    chosen = {
        broker: {key: value for key, value in sorted(values.items()) if not keys or key in keys}
        for broker, values in found.items()
    }
    if output is Format.JSON:
        show_json([{"broker": name, "address": brokers[name], "values": values} for name, values in chosen.items()])
    else:
        rows = [
            {"broker": broker, "key": key, "value": printable(value)}
            for broker, values in chosen.items()
            for key, value in values.items()
        ]
        show_rows(rows, ("broker", "key", "value"), output)
    for broker, values in chosen.items():
        for key in (key for key in keys or () if key not in values):
            say(f"orbitmq: {broker} has no value {printable(key)}")
            code = code or ExitCode.NO
    raise typer.Exit(code)


_WHOLE = ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")
_STATS = ("minute", "hour", "day", "per_second")


class StatsColumn(StrEnum):
    """By which figure things are sorted."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


async def stats(
    access: Access,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only what this group got.")] = None,
    by: Annotated[
        StatsColumn, typer.Option("--by", help="What counts in the last minute, hour or day.")
    ] = StatsColumn.DAY,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of them; 0: all.")] = 20,
    cluster: ClusterOption = None,
    broker: Annotated[str | None, typer.Option("--broker", help="Only the broker of this name.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the busiest topics and groups: messages that were sent to a topic, and those that each group got.

    Exit code 1 when a broker did not answer: what the others have is shown.
    """
    async with access.admin() as admin:
        traffic, problems = await admin.known_traffic(topic, group, cluster=cluster, broker=broker)
    rows = [
        {
            "what": "sent" if found.group is None else "got",
            "topic": found.topic,
            "group": found.group,
            "broker": found.broker_name,
            **_row(found.stats),
        }
        for found in traffic
        if any(window.sum for window in found.stats)
    ]
    # A day's sum is updated every hour, an hour's every ten minutes: a new topic has only those of shorter times.
    order = (by.value, "day", "hour", "minute")
    rows.sort(key=lambda row: (*(-row[name] for name in order), row["topic"], row["group"] or "", row["broker"]))
    show_rows(rows[:top] if top else rows, ("what", "topic", "group", "broker", *_STATS), output)
    if not rows:
        say("nothing was counted yet: brokers count each minute what was sent and got in it")
    exit_if_incomplete(problems)


async def broker_stats(
    access: Access,
    item: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Java's name of what is counted, as TOPIC_PUT_SIZE.")
    ] = None,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="A topic, TOPIC@GROUP, or the cluster.")] = None,
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show how many messages whole brokers took and gave; or one of their figures. Exit code 1 when it has none."""
    if item is not None and key is None:
        raise typer.BadParameter(f"{item} of what: a topic, TOPIC@GROUP, or the cluster", param_hint="KEY")

    async with access.admin() as admin:
        wanted = [(item, key)] if item is not None and key is not None else None
        brokers = await BrokerSelection(address, name, cluster).find(admin)
        found, code = await ask_brokers(brokers, lambda at: _stats_of(admin, at, wanted))
    rows = [{"broker": broker, **row} for broker, listed in found.items() for row in listed]
    show_rows(rows, ("broker", "name", "key", *_STATS), output)
    raise typer.Exit(code)


async def _stats_of(admin: AdminClient, address: str, wanted: list[tuple[str, str]] | None) -> list[Row]:
    from orbitmq.codes import ResponseCode
    from orbitmq.errors import RemoteRefused
    from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

    nothing = BrokerStatsData(BrokerStatsItem(), BrokerStatsItem(), BrokerStatsItem())
    if wanted is None:
        cluster = (await admin.broker_settings(address))["brokerClusterName"]
        asked = [(name, cluster) for name in _WHOLE]
    else:
        asked = wanted
    rows: list[Row] = []
    for name, key in asked:
        try:
            stats = await admin.broker_stats(address, name, key)
        except RemoteRefused as refusal:
            if wanted is not None or refusal.code != ResponseCode.SYSTEM_ERROR:
                raise
            stats = nothing  # a broker that took no message yet has no such figure
        rows.append({"name": printable(name), "key": printable(key), **_row(stats)})
    return rows


def _row(stats: BrokerStatsData) -> Row:
    return {
        "minute": stats.minute.sum,
        "hour": max(stats.hour.sum, stats.minute.sum),
        "day": stats.day.sum,
        "per_second": round(stats.minute.rate, 2),
    }
