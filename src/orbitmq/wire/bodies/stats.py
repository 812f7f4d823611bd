"""Statistics in answers of a broker: counts of one thing, offsets of all groups, the slaves of a master.

Source: Java BrokerStatsData, BrokerStatsItem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import number, parse_body, text
from orbitmq.wire.bodies.topics import QueueProgress, consume_stats_document, parse_consume_stats


class BrokerStatsItem(NamedTuple):
    """What happened in one window of time."""

    sum: int = 0
    rate: float = 0.0
    """Per second."""
    mean: float = 0.0
    """Of the sum, per time that something was counted: a batch counts once."""


class BrokerStatsData(NamedTuple):
    """What happened in the last minute, hour and day."""

    minute: BrokerStatsItem
    hour: BrokerStatsItem
    day: BrokerStatsItem


def encode_stats(statistics: BrokerStatsData) -> bytes:
    """Encode the answer to VIEW_BROKER_STATS_DATA."""
    return orjson.dumps(
        {
            "statsDay": _document(statistics.day),
            "statsHour": _document(statistics.hour),
            "statsMinute": _document(statistics.minute),
        }
    )


def decode_stats(body: bytes) -> BrokerStatsData:
    """Decode the answer to VIEW_BROKER_STATS_DATA.

    Raises:
        HeaderError: the body is none.
    """
    return parse_body(
        "stats",
        body,
        lambda document: BrokerStatsData(*(_parse(document[key]) for key in ("statsMinute", "statsHour", "statsDay"))),
    )


def _document(window: BrokerStatsItem) -> dict[str, Any]:
    return {"avgpt": window.mean, "sum": window.sum, "tps": window.rate}


def _parse(document: dict[str, Any]) -> BrokerStatsItem:
    return BrokerStatsItem(number(document["sum"]), float(document["tps"]), float(document["avgpt"]))


class TopicProgress(NamedTuple):
    """A group's place in every queue of one topic, and how many messages of it the group gets per second."""

    queues: Mapping[MessageQueue, QueueProgress]
    rate: float = 0.0


def encode_broker_consume_stats(address: str, groups: Mapping[str, Iterable[TopicProgress]]) -> bytes:
    """Encode the answer to GET_BROKER_CONSUME_STATS: per group, each of its topics."""
    behind = in_flight = 0
    listed: list[dict[str, Any]] = []
    for group, topics in groups.items():
        documents = []
        for topic in topics:
            documents.append(consume_stats_document(topic.queues, topic.rate))
            behind += sum(place.behind for place in topic.queues.values())
            in_flight += sum(place.in_flight for place in topic.queues.values())
        listed.append({group: documents})
    return fastjson.dumps_loose(
        {"brokerAddr": address, "consumeStatsList": listed, "totalDiff": behind, "totalInflightDiff": in_flight}
    )


def decode_broker_consume_stats(body: bytes) -> tuple[dict[str, list[dict[MessageQueue, QueueProgress]]], int]:
    """Decode the answer to GET_BROKER_CONSUME_STATS: each group's places by topic, and the sum of what they lack.

    Raises:
        HeaderError: the body is no such answer.
    """

    def parse(document: dict[str, Any]) -> tuple[dict[str, list[dict[MessageQueue, QueueProgress]]], int]:
        groups: dict[str, list[dict[MessageQueue, QueueProgress]]] = {}
        for part in document.get("consumeStatsList") or ():
            for group, topics in part.items():
                groups.setdefault(text(group), []).extend(map(parse_consume_stats, topics))
        return groups, number(document.get("totalDiff") or 0)

    return parse_body("broker consume stats", body, parse)


class SlaveStatus(NamedTuple):
    """One slave of a master. Offsets and sizes in bytes.

    Args:
        address: the slave's end of its connection, as host:port.
        acknowledged: up to where it has the log.
        sent: up to where it was sent.
    """

    address: str
    acknowledged: int
    behind: int
    is_in_sync: bool
    size_per_second: int
    sent: int


def decode_log_end(body: bytes) -> int:
    """Decode where a master's CommitLog ended when it answered GET_BROKER_HA_STATUS.

    Raises:
        HeaderError: it does not say so.
    """
    return parse_body("a broker's replication status", body, lambda document: int(document["masterCommitLogMaxOffset"]))


def encode_replication_status(log_end: int, slaves: Sequence[SlaveStatus] = (), master: str | None = None) -> bytes:
    """Encode a broker's answer to GET_BROKER_HA_STATUS.

    Args:
        log_end: where its CommitLog ends.
        master: of a slave: the address of its master, as host:port.
    """
    client: dict[str, Any] = {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    if master is not None:
        client |= {"masterAddr": master, "maxOffset": log_end}
    connections = [
        {
            "addr": slave.address,
            "diff": slave.behind,
            "inSync": slave.is_in_sync,
            "slaveAckOffset": slave.acknowledged,
            "transferFromWhere": slave.sent,
            "transferredByteInSecond": slave.size_per_second,
        }
        for slave in slaves
    ]
    return orjson.dumps(
        {
            "haClientRuntimeInfo": client,
            "haConnectionInfo": connections,
            "inSyncSlaveNums": sum(slave.is_in_sync for slave in slaves),
            "master": master is None,
            "masterCommitLogMaxOffset": log_end if master is None else 0,
        }
    )
