"""The rows that `orbitmq route` and the dashboard show: events of a NameServer's history, and differences from an earlier time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]


def event_row(address: str, event: Mapping[str, Any]) -> Row:
    """Return the row of one event that the NameServer at `address` remembers."""
    broker_id = event["brokerId"]
    named = [_topic_change(topic) for topic in event["topics"][:3]]
    more = event["topicCount"] - len(named)
    return {
        "name_server": address,
        "at": event["at"],
        "kind": event["kind"],
        "broker": event["brokerName"] if broker_id is None else f"{event['brokerName']}:{broker_id}",
        "address": event["address"],
        "topics": ", ".join([*named, f"{more} more"] if named and more else named) or (str(more) if more else None),
        "cause": event["cause"],
        "remote": event["remote"],
    }


def _topic_change(change: Mapping[str, Any]) -> str:
    if change["before"] is None:
        return f"+{change['topic']}"
    if change["after"] is None:
        return f"-{change['topic']}"
    return f"~{change['topic']}"


def difference_rows(address: str, found: Mapping[str, Any]) -> list[Row]:
    """Return the rows of what is different now, as the NameServer at `address` remembers it."""
    brokers: list[Row] = [
        {
            "name_server": address,
            "what": f"broker {change['brokerName']}:{change['brokerId']}",
            "broker": change["brokerName"],
            "before": change["before"],
            "after": change["after"],
        }
        for change in found["brokers"]
    ]
    topics: list[Row] = [
        {
            "name_server": address,
            "what": f"topic {change['topic']}",
            "broker": change["brokerName"],
            "before": _queues(change["before"]),
            "after": _queues(change["after"]),
        }
        for change in found["topics"]
    ]
    return brokers + topics


def _queues(queue: Mapping[str, int] | None) -> str | None:
    if queue is None:
        return None
    return f"read {queue['readQueueNums']} write {queue['writeQueueNums']} perm {queue['perm']}"
