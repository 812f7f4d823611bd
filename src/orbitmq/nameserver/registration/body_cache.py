"""Registrations that say nearly what the last one said, recognised without parsing them. Pure.

A broker repeats its whole topic table every 30 seconds. Nearly always nothing in it is new, or nothing but the version, or
one topic. The last body of each broker is kept: comparing bytes costs a hundredth of parsing them. Then it is enough to
renew the lease, or to register the topics that differ, as long as nobody else has changed anything about the broker name
since (its revision).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.registration.body_diff import find_difference, is_plain
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.wire.bodies.registration import decode_data_version
from orbitmq.wire.bodies.topic_table import RegisteredTopic
from orbitmq.wire.headers import RegisterBroker

BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of bodies that are kept; of what is more, a digest."""

NO_TOPICS: Mapping[str, RegisteredTopic] = {}

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
    """A registration that needs no parsing; `checksum` is the body's, where that is known.

    `topics` are those that differ from the last registration's.
    """

    data_version: DataVersion
    checksum: int | None
    topics: Mapping[str, RegisteredTopic] = NO_TOPICS


class Seen(NamedTuple):
    """The last registration of a broker that was parsed; `revision` is the broker name's after it."""

    header: RegisterBroker
    peer_version: int
    start: bytes
    before: bytes
    rest: bytes | int
    is_versioned: bool
    data_version: DataVersion
    revision: int
    is_applied: bool
    is_plain: bool

    def ends(self, data: bytes, body_start: int = 0) -> bool:
        """Tell whether its body is what stands in `data` from `body_start` on."""
        rest = self.rest
        return (
            isinstance(rest, bytes)
            and len(data) - body_start == len(self.start) + len(rest)
            and data.startswith(self.start, body_start)
            and data.endswith(rest)
        )


class UnchangedRegistrations:
    """Remembers the last registration of each broker."""

    def __init__(self, size_max: int = BODIES_SIZE_MAX) -> None:
        self._size_max = size_max
        self._size = 0
        self._seen: dict[BrokerKey, Seen] = {}

    def last(self, key: BrokerKey) -> Seen | None:
        """Return a broker's last registration, None when it is not remembered."""
        return self._seen.get(key)

    def recognise(
        self, key: BrokerKey, header: RegisterBroker, peer_version: int, body: bytes, revision: int
    ) -> Recognised | None:
        """Return what a registration says that differs little from the last one; None: it has to be parsed."""
        seen = self._seen.get(key)
        if seen is None or seen.revision != revision or seen.peer_version != peer_version:
            return None
        if not _same_but_checksum(seen.header, header):
            return None
        if seen.ends(body):
            return Recognised(seen.data_version, seen.header.body_crc32)
        parts = split(body) if seen.is_versioned else Parts(b"", None, body)
        if (parts.version is not None) != seen.is_versioned or parts.before != seen.before:
            return None
        is_same_version = parts.version in (None, seen.data_version)
        if not (is_same_version or seen.is_applied):
            return None
        if seen.rest == (parts.rest if isinstance(seen.rest, bytes) else hash(parts.rest)):
            checksum = seen.header.body_crc32 if is_same_version else None
            return Recognised(parts.version or seen.data_version, checksum)
        if not (seen.is_plain and seen.is_applied and isinstance(seen.rest, bytes)) or parts.version is None:
            return None
        topics = find_difference(seen.rest, parts.rest)
        return Recognised(parts.version, None, topics) if topics else None

    def remember(
        self,
        key: BrokerKey,
        header: RegisterBroker,
        peer_version: int,
        body: bytes,
        data_version: DataVersion,
        revision: int,
        *,
        topic_count: int | None,
        is_applied: bool,
    ) -> None:
        """Remember a registration that was applied.

        Args:
            topic_count: how many topics the body lists; None for one that was recognised by its difference.
            is_applied: the route table holds what the body says, so that a new version alone would change nothing.
        """
        before, version, rest = split(body)
        last = self._seen.get(key)
        was_plain = last is not None and last.is_plain
        self.forget(key)
        if version is not None and _VERSION_KEY in rest:  # which of them counts is for the parser to say
            before, version, rest = b"", None, body
        if version not in (None, data_version):
            return
        kept: bytes | int = rest
        if self._size + len(rest) > self._size_max:
            kept = hash(rest)  # keyed, 64 bits: nobody can aim at a collision
        else:
            self._size += len(rest)
        plain = was_plain if topic_count is None else is_plain(rest, topic_count)
        start = body[: len(body) - len(rest)]
        self._seen[key] = Seen(
            header=header,
            peer_version=peer_version,
            start=start,
            before=before,
            rest=kept,
            is_versioned=version is not None,
            data_version=data_version,
            revision=revision,
            is_applied=is_applied,
            is_plain=plain,
        )

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
