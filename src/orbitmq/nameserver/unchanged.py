"""Registrations that say what the last one said, recognised without parsing them. Pure.

A broker repeats its whole topic table every 30 seconds, and nearly always nothing in it is new, or nothing but the
version. The last body of each broker is kept: comparing bytes costs a hundredth of parsing them. It is then enough to
renew the lease, as long as nobody else has changed anything about the broker name since (its revision).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.registration import BrokerKey
from orbitmq.wire.bodies.registration import decode_data_version
from orbitmq.wire.headers import RegisterBroker

BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of bodies that are kept; of what is more, a digest."""

_VERSION_KEY = b'"dataVersion":'
# Anchored at the start of the body, so that the version is the table's own and nothing that a topic carries: the filter
# servers, then one flat object, and the mapping version that Java writes right behind it.
_START = re.compile(
    rb'\{(?:"filterServerList":\[(?:"[^"\\]*+"(?:,"[^"\\]*+")*+)?\],)?(?:"topicConfigSerializeWrapper":\{)?'
    rb'(?P<version>"dataVersion":(?P<own>\{[^{}]*+\})(?:,"mappingDataVersion":(?P<mapping>\{[^{}]*+\}))?)'
)


class Parts(NamedTuple):
    """A registration's body: what stands before, inside and after its DataVersion.

    Without a DataVersion in its usual place `version` is None and `rest` is the whole body.
    """

    before: bytes
    version: DataVersion | None
    rest: bytes


class Recognised(NamedTuple):
    """A registration that needs no parsing; `checksum` is the body's, where that is known."""

    data_version: DataVersion
    checksum: int | None


class _Seen(NamedTuple):
    header: RegisterBroker
    peer_version: int
    before: bytes
    rest: bytes | int
    is_versioned: bool
    data_version: DataVersion
    revision: int


class UnchangedRegistrations:
    """Remembers the last registration of each broker."""

    def __init__(self, size_max: int = BODIES_SIZE_MAX) -> None:
        self._size_max = size_max
        self._size = 0
        self._seen: dict[BrokerKey, _Seen] = {}

    def recognise(
        self, key: BrokerKey, header: RegisterBroker, peer_version: int, body: bytes, revision: int
    ) -> Recognised | None:
        """Return the DataVersion of a registration that differs from the last one in nothing else; None otherwise."""
        seen = self._seen.get(key)
        if seen is None or seen.revision != revision or seen.peer_version != peer_version:
            return None
        if not _same_but_checksum(seen.header, header):
            return None
        parts = split(body) if seen.is_versioned else Parts(b"", None, body)
        if (parts.version is not None) != seen.is_versioned or parts.before != seen.before:
            return None
        if seen.rest != (parts.rest if isinstance(seen.rest, bytes) else hash(parts.rest)):
            return None
        if parts.version is None or parts.version == seen.data_version:
            return Recognised(seen.data_version, seen.header.body_crc32)
        return Recognised(parts.version, None)

    def remember(
        self,
        key: BrokerKey,
        header: RegisterBroker,
        peer_version: int,
        body: bytes,
        data_version: DataVersion,
        revision: int,
    ) -> None:
        """Remember a registration that was parsed and applied in full."""
        self.forget(key)
        before, version, rest = split(body)
        if version is not None and _VERSION_KEY in rest:  # which of them counts is for the parser to say
            before, version, rest = b"", None, body
        if version not in (None, data_version):
            return
        kept: bytes | int = rest
        if self._size + len(rest) > self._size_max:
            kept = hash(rest)  # keyed, 64 bits: nobody can aim at a collision
        else:
            self._size += len(rest)
        self._seen[key] = _Seen(header, peer_version, before, kept, version is not None, data_version, revision)

    def forget(self, key: BrokerKey) -> None:
        """Forget a broker that is gone."""
        seen = self._seen.pop(key, None)
        if seen is not None and isinstance(seen.rest, bytes):
            self._size -= len(seen.rest)


def split(body: bytes) -> Parts:
    """Return a body's parts."""
    match = _START.match(body)
    version = _parse_version(match) if match is not None else None
    if match is None or version is None:
        return Parts(b"", None, body)
    start, end = match.span("version")
    return Parts(body[:start], version, body[end:])


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
