"""The comparison of NameServers: snapshots of their routes, a digest of each, and what differs. Pure.

A snapshot holds what clients can see, in one order, so that equal routes have equal digests whatever server tells them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import orjson

from orbitmq.model.route import ClusterInfo, TopicRoute

DIGEST_SIZE = 16
"""Hexadecimal digits of a digest: enough to tell snapshots apart, short enough to read aloud."""


class RouteFacts(NamedTuple):
    """A NameServer's routes: every fact is a text, by the text of what it is about."""

    facts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Return the snapshot in a few characters."""
        lines = "\n".join(f"{subject}\t{fact}" for subject, fact in sorted(self.facts.items()))
        return hashlib.sha256(lines.encode()).hexdigest()[:DIGEST_SIZE]


class Difference(NamedTuple):
    """A subject (`broker NAME` or `topic NAME at BROKER`) on which NameServers disagree; None: not known there."""

    subject: str
    facts: Mapping[str, str | None]


def snapshot_of(info: ClusterInfo, routes: Mapping[str, TopicRoute]) -> RouteFacts:
    """Return the facts that a NameServer's answers consist of."""
    facts = {
        f"broker {name}": _compact([broker.cluster, _addresses(broker.addresses)])
        for name, broker in info.brokers.items()
    }
    for topic, route in routes.items():
        for queue in route.queues:
            facts[f"topic {topic} at {queue.broker_name}"] = _compact(
                {
                    "read": queue.read_queue_count,
                    "write": queue.write_queue_count,
                    "perm": queue.perm,
                    "flag": queue.topic_sys_flag,
                }
            )
    return RouteFacts(facts)


def differences(snapshots: Mapping[str, RouteFacts]) -> Iterator[Difference]:
    """Yield every subject on which the NameServers (by address) disagree, in order."""
    subjects = sorted({subject for snapshot in snapshots.values() for subject in snapshot.facts})
    for subject in subjects:
        facts = {address: snapshot.facts.get(subject) for address, snapshot in snapshots.items()}
        if len(set(facts.values())) > 1:
            yield Difference(subject, facts)


def _addresses(addresses: Mapping[int, str]) -> dict[str, str]:
    return {str(broker_id): addresses[broker_id] for broker_id in sorted(addresses)}


def _compact(value: object) -> str:
    return orjson.dumps(value).decode()
