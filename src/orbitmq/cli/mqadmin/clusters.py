"""Clusters: `clusterList`.

Source: Java org.apache.rocketmq.tools.command.cluster of 5.3.3.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_each
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, table

_LAYOUT = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
_TITLES_LAYOUT = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s"
_TITLES = (
    "#Cluster Name|#Broker Name|#BID|#Addr|#Version|#InTPS(LOAD)|#OutTPS(LOAD)|#Timer(Progress)|#PCWait(ms)|#Hour|#SPACE"
    "|#ACTIVATED"
)
_HOUR_MS = 3_600_000


async def cluster_list(clients: ClusterClients, given: Given) -> Result:
    """List brokers with their load; with -m what they took and gave yesterday and today."""
    info = await clients.brokers.cluster_info()
    wanted = given.text("clusterName")
    members = [
        (cluster, name, broker_id, address)
        for cluster in ([wanted] if wanted else sorted(info.clusters))
        for name in sorted(info.clusters.get(cluster, ()))
        if name in info.brokers
        for broker_id, address in sorted(info.brokers[name].addresses.items())
    ]
    found, failed = await ask_each(
        {at: at for *_, at in members}, lambda _, at: clients.brokers.broker_runtime_info(at)
    )
    infos = [found.get(address, {}) for *_, address in members]
    problems = [failed[address] for *_, address in members if address in failed]
    if "moreStats" in given:
        return _more_stats(members, infos, problems)
    rows = [
        {"cluster": cluster, "broker": name, "id": broker_id, "address": address, **_figures(values)}
        for (cluster, name, broker_id, address), values in zip(members, infos, strict=True)
    ]
    lines = table(_LAYOUT, _TITLES, (row.values() for row in rows), titles_layout=_TITLES_LAYOUT)
    return Result(lines, rows, problems)


def _figures(values: Mapping[str, str]) -> dict[str, Any]:
    get = values.get
    earliest = get("earliestMessageTimeStamp", "")
    hours = (time.time_ns() // 1_000_000 - int(earliest)) / _HOUR_MS if earliest.isdecimal() else 0.0
    send = f"({get('sendThreadPoolQueueSize', '')},{get('sendThreadPoolQueueHeadWaitTimeMills', '')}ms)"
    pull = f"{get('pullThreadPoolQueueSize', '')},{get('pullThreadPoolQueueHeadWaitTimeMills', '')}ms"
    ack = f"{get('ackThreadPoolQueueSize', 'N')},{get('ackThreadPoolQueueHeadWaitTimeMills', 'N')}ms"
    behind = f"{_number(values, 'timerReadBehind'):.0f}-{_number(values, 'timerOffsetBehind'):.0f}"
    waiting = f"{_number(values, 'timerCongestNum') / 10_000:.1f}w"
    rates = f"{_number(values, 'timerEnqueueTps'):.1f}, {_number(values, 'timerDequeueTps'):.1f}"
    return {
        "version": get("brokerVersionDesc", ""),
        "in": f"{_number(values, 'putTps'):9.2f}{send}",
        "out": f"{_number(values, 'getTransferredTps'):9.2f}({pull}|{ack})",
        "timer": f"{behind}({waiting}, {rates})",
        "page_cache_ms": get("pageCacheLockTimeMills", ""),
        "hours": f"{hours:2.2f}",
        "space": f"{_number(values, 'commitLogDiskRatio'):.4f}",
        "activated": str(get("brokerActive", "").lower() == "true").lower(),
    }


def _number(values: Mapping[str, str], key: str) -> float:
    """Return the first number of a value; 0 where there is none."""
    try:
        return float(values.get(key, "").split()[0])
    except (IndexError, ValueError):
        return 0.0


def _more_stats(members: list[tuple[str, str, int, str]], infos: list[dict[str, str]], problems: list[str]) -> Result:
    names = ("in_yesterday", "out_yesterday", "in_today", "out_today")
    rows = []
    for (cluster, name, _, _), values in zip(members, infos, strict=True):
        totals = [
            int(_number(values, f"msg{way}Total{end}") - _number(values, f"msg{way}Total{begin}"))
            for begin, end in (("YesterdayMorning", "TodayMorning"), ("TodayMorning", "TodayNow"))
            for way in ("Put", "Get")
        ]
        rows.append({"cluster": cluster, "broker": name, **dict(zip(names, totals, strict=True))})
    titles = "#Cluster Name|#Broker Name|#InTotalYest|#OutTotalYest|#InTotalToday|#OutTotalToday"
    lines = table("%-16s  %-32s %14s %14s %14s %14s", titles, (row.values() for row in rows))
    return Result(lines, rows, problems)
