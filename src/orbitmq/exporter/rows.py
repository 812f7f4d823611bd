"""Rows of a live screen out of two collections, one after the other: brokers, topics by rate, groups by lag. Pure.

Rates are the difference of the two, so that they are of the seconds between them; out of one collection alone they are those
that brokers tell of the last minute.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from orbitmq.exporter.collection import BrokerKey, Collection
from orbitmq.exporter.runtime_values import first_rate, number_of
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_reserved_topic

Row = dict[str, Any]

BROKER_COLUMNS = ("broker", "id", "role", "in_per_s", "out_per_s", "disk_used", "behind", "version", "address")
TOPIC_COLUMNS = ("topic", "in_per_s", "messages", "brokers")
GROUP_COLUMNS = ("group", "topic", "lag", "lag_per_s", "out_per_s", "consumers")


def broker_rows(before: Collection | None, found: Collection) -> list[Row]:
    """Return the brokers, by cluster, name and id; `disk_used` in percent, `behind` in bytes."""
    ends = {
        (key.cluster, key.broker): number_of(values.runtime.get("commitLogMaxOffset"))
        for key, values in found.brokers.items()
        if key.is_master
    }
    rows = []
    for key in found.known:
        values = found.brokers.get(key)
        told = {} if values is None else values.runtime
        end, own = ends.get((key.cluster, key.broker)), number_of(told.get("commitLogMaxOffset"))
        disk = number_of(told.get("commitLogDiskRatio"))
        role = "master" if key.is_master else "slave"
        rows.append(
            {
                "cluster": key.cluster,
                "broker": key.broker,
                "id": key.broker_id,
                "role": role if values is not None else f"{role}, silent",
                "in_per_s": _rate_of(before, found, key, "msgPutTotalTodayNow", first_rate(told.get("putTps"))),
                "out_per_s": _rate_of(
                    before, found, key, "msgGetTotalTodayNow", first_rate(told.get("getTransferredTps"))
                ),
                "disk_used": None if disk is None or disk < 0 else f"{100 * disk:.0f}%",
                "behind": None if key.is_master or end is None or own is None else int(max(0, end - own)),
                "version": told.get("brokerVersionDesc"),
                "address": key.address,
            }
        )
    return rows


def topic_rows(before: Collection | None, found: Collection) -> list[Row]:
    """Return the topics that users made, the busiest first."""
    ends, starts = _ends(found), {} if before is None else _ends(before)
    told: dict[str, float] = defaultdict(float)
    brokers: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    for key, values in found.topics.items():
        brokers[key.topic] += 1
        held[key.topic] += values.end - values.begin
        told[key.topic] += 0 if values.put is None else values.put.rate
    names = [topic for topic in ends if _is_users(topic)]
    rows = [
        {
            "topic": topic,
            "in_per_s": _rate(before, found, starts.get(topic), ends[topic], told[topic]),
            "messages": held[topic],
            "brokers": brokers[topic],
        }
        for topic in names
    ]
    return sorted(rows, key=lambda row: (-(row["in_per_s"] or 0), row["topic"]))


def group_rows(before: Collection | None, found: Collection) -> list[Row]:
    """Return the groups with each topic that they read, those that are furthest behind first."""
    now, then = _readers(found), {} if before is None else _readers(before)
    rows = []
    for (group, topic), (lag, committed, told) in now.items():
        lag_before, committed_before = then.get((group, topic), (None, None, 0))[:2]
        online = found.groups.get(group)
        rows.append(
            {
                "group": group,
                "topic": topic,
                "lag": lag,
                "lag_per_s": _rate(before, found, lag_before, lag, None),
                "out_per_s": _rate(before, found, committed_before, committed, told),
                "consumers": 0 if online is None else len(online.clients),
            }
        )
    return sorted(rows, key=lambda row: (-row["lag"], row["group"], row["topic"]))


def _ends(found: Collection) -> dict[str, int]:
    ends: dict[str, int] = defaultdict(int)
    for key, values in found.topics.items():
        ends[key.topic] += values.end
    return ends


def _readers(found: Collection) -> dict[tuple[str, str], tuple[int, int, float]]:
    """Return lag, committed offsets and the told rate of each group and topic over all brokers."""
    readers: dict[tuple[str, str], tuple[int, int, float]] = {}
    for key, values in found.readers.items():
        lag, committed, told = readers.get((key.group, key.topic), (0, 0, 0.0))
        rate = 0.0 if values.got is None else values.got.rate
        readers[key.group, key.topic] = lag + values.lag, committed + values.committed, told + rate
    return readers


def _is_users(topic: str) -> bool:
    return not (topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_reserved_topic(topic))


def _rate_of(
    before: Collection | None, found: Collection, key: BrokerKey, value: str, told: float | None
) -> float | None:
    """Return how much a run-time value has grown per second."""
    if key not in found.brokers:
        return None
    end = number_of(found.brokers[key].runtime.get(value))
    earlier = None if before is None else before.brokers.get(key)
    start = None if earlier is None else number_of(earlier.runtime.get(value))
    return told if end is None else _rate(before, found, start, end, told)


def _rate(
    before: Collection | None, found: Collection, start: float | None, end: float, told: float | None
) -> float | None:
    """Return the growth per second; `told` where there is nothing to compare with."""
    seconds = 0.0 if before is None else (found.at_ms - before.at_ms) / 1000
    if start is None or seconds <= 0:
        return None if told is None else round(told, 1)
    return round((end - start) / seconds, 1)
