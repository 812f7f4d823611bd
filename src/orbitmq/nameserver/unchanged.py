"""Registrations that say what the last one said, recognised without parsing them. Pure.

A broker repeats its whole topic table every 30 seconds, and nearly always nothing in it is new, or nothing but the
version. Such a body is recognised by digests of its three parts: before, inside and after its DataVersion. It is then
enough to renew the lease, as long as nobody else has changed anything about the broker name since (its revision).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.registration import BrokerKey
from orbitmq.wire.bodies.registration import decode_data_version
from orbitmq.wire.headers import RegisterBroker

BROKERS_MAX = 100_000

_VERSION_KEY = b'"dataVersion":'
# Anchored at the start of the body, so that the version is the table's own and nothing that a topic carries: the filter
# servers, then one flat object, and the mapping version that Java writes right behind it.
_START = re.compile(
    rb'\{(?:"filterServerList":\[(?:"[^"\\]*+"(?:,"[^"\\]*+")*+)?\],)?(?:"topicConfigSerializeWrapper":\{)?'
    rb'(?P<version>"dataVersion":(?P<own>\{[^{}]*+\})(?:,"mappingDataVersion":(?P<mapping>\{[^{}]*+\}))?)'
)


class Parts(NamedTuple):
    """A registration's body in digests: what stands before, inside and after its DataVersion.

    Without a DataVersion in its usual place `version` is None and `before` stands for the whole body.
    """

    before: int
    version: DataVersion | None
    after: int


class _Seen(NamedTuple):
    header: RegisterBroker
    peer_version: int
    parts: Parts
    data_version: DataVersion
    revision: int


class UnchangedRegistrations:
    """Remembers the last registration of each broker."""

    def __init__(self) -> None:
        self._seen: dict[BrokerKey, _Seen] = {}

    def recognise(
        self, key: BrokerKey, header: RegisterBroker, peer_version: int, parts: Parts, revision: int
    ) -> DataVersion | None:
        """Return the DataVersion of a registration that differs from the last one in nothing else; None otherwise."""
        seen = self._seen.get(key)
        if seen is None or seen.revision != revision or seen.peer_version != peer_version:
            return None
        if (seen.parts.before, seen.parts.after) != (parts.before, parts.after):
            return None
        if not _same_but_checksum(seen.header, header):
            return None
        return seen.data_version if parts.version is None else parts.version

    def remember(
        self,
        key: BrokerKey,
        header: RegisterBroker,
        peer_version: int,
        parts: Parts,
        data_version: DataVersion,
        revision: int,
    ) -> None:
        """Remember a registration that was parsed and applied in full."""
        self._seen.pop(key, None)
        if parts.version in (None, data_version):
            self._seen[key] = _Seen(header, peer_version, parts, data_version, revision)
            if len(self._seen) > BROKERS_MAX:
                del self._seen[next(iter(self._seen))]

    def forget(self, key: BrokerKey) -> None:
        """Forget a broker that is gone."""
        self._seen.pop(key, None)


def split(body: bytes) -> Parts:
    """Return a body's parts, as digests of Python's keyed 64-bit hash: nobody can aim at a collision."""
    match = _START.match(body)
    if match is not None and body.find(_VERSION_KEY, match.end()) < 0:
        version = _parse_version(match)
        if version is not None:
            start, end = match.span("version")
            return Parts(hash(body[:start]), version, hash(body[end:]))
    return Parts(hash(body), None, 0)


def _same_but_checksum(one: RegisterBroker, other: RegisterBroker) -> bool:
    return (
        one.broker_name == other.broker_name
        and one.broker_addr == other.broker_addr
        and one.cluster_name == other.cluster_name
        and one.ha_server_addr == other.ha_server_addr
        and one.broker_id == other.broker_id
        and one.heartbeat_timeout_millis == other.heartbeat_timeout_millis
        and one.enable_acting_master == other.enable_acting_master
        and one.compressed == other.compressed
        and one.zone_name == other.zone_name
    )


def _parse_version(match: re.Match[bytes]) -> DataVersion | None:
    try:
        if match["mapping"] is not None:
            decode_data_version(match["mapping"])
        return decode_data_version(match["own"])
    except HeaderError:
        return None
