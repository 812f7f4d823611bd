"""The last registration body of each broker, to recognise the next one without parsing it. Pure.

A broker repeats its whole topic table every 30 seconds. Nearly always nothing in it is new, or nothing but the version, or
one topic. Comparing bytes costs a hundredth of parsing them. What is recognised needs only its lease renewed, or the topics
entered that differ, as long as nothing else has changed about the broker name since (its revision).

docs/explain/registrations.md lists every way in which a registration is recognised, and what makes each of them invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.registration.body_diff import VERSION_KEY, find_difference, is_plain
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.wire.bodies.registration import decode_data_version
from orbitmq.wire.bodies.topic_table import RegisteredTopic
from orbitmq.wire.headers import RegisterBroker

BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of bodies that are kept. Where it would be more, of the oldest a hash is kept instead."""
COMPARED_SIZE_MAX = 2 * 1024 * 1024
"""A larger body is recognised only where it is the same byte for byte. To find what differs takes a few passes over all of
it in one turn of the event loop; parsing takes longer, but in slices."""
HASHED_SHARE = 4
"""The starts of the bodies of which a hash is kept are at most this part of all."""

NO_TOPICS: Mapping[str, RegisteredTopic] = {}

# Anchored at the start of the body, so that the version is the table's own and nothing that a topic carries: the filter
# servers, then one flat object, and the mapping version that Java writes right behind it.
_START = re.compile(
    rb'\{(?:"filterServerList":\[(?:"[^"\\]*+"(?:,"[^"\\]*+")*+)?\],)?(?:"topicConfigSerializeWrapper":\{)?'
    rb'(?P<version>"dataVersion":(?P<own>\{[^{}]*+\})(?:,"mappingDataVersion":(?P<mapping>\{[^{}]*+\}))?)'
)


class Parts(NamedTuple):
    """A registration's body: what stands before, inside and after its DataVersion.

    Without a DataVersion in its usual position `version` is None and `after` is the whole body.
    """

    before: bytes
    version: DataVersion | None
    after: bytes


class Recognition(NamedTuple):
    """The content of a registration that was recognised.

    `checksum` is the body's, where that is known. `topics` are those that differ from the last registration's.
    """

    data_version: DataVersion
    checksum: int | None
    topics: Mapping[str, RegisteredTopic] = NO_TOPICS


class CachedBody(NamedTuple):
    """The last registration of a broker that changed something, with its body in parts.

    `start` is the body up to the end of its DataVersion, `before` the body up to its beginning, `after` what follows it or
    the hash of that. `revision` is the broker name's when the registration had been applied. `is_applied` says that the
    tables held then what the body says: otherwise (a version that did not change, a wiped permission) the same topics
    under a new version would change them. `is_plain` says that differences can be found in it (`body_diff`).
    """

    header: RegisterBroker
    peer_version: int
    start: bytes
    before: bytes
    after: bytes | int
    is_versioned: bool
    data_version: DataVersion
    revision: int
    is_applied: bool
    is_plain: bool

    @property
    def size(self) -> int:
        """Bytes that are kept of the body."""
        return len(self.start) + len(self.before) + (len(self.after) if isinstance(self.after, bytes) else 0)

    def ends(self, data: bytes, body_start: int = 0) -> bool:
        """Return True if its body is what stands in `data` from `body_start` on."""
        # Both parts are compared where they lie: joining or cutting them first would copy the body each time.
        after = self.after
        return (
            isinstance(after, bytes)
            and len(data) - body_start == len(self.start) + len(after)
            and data.startswith(self.start, body_start)
            and data.endswith(after)
        )


class BodyCache:
    """The last registration of each broker, by the broker's key. The end of a lease forgets its body.

    `clear_count` is how often all were dropped.

    Args:
        is_on: False remembers nothing, for tests.
    """

    def __init__(self, size_max: int = BODIES_SIZE_MAX, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self.size = 0
        self.clear_count = 0
        self._size_max = size_max
        self._bodies: dict[BrokerKey, CachedBody] = {}
        # Those that are kept as bytes, and those of which a hash is kept, each oldest first.
        self._whole: dict[BrokerKey, None] = {}
        self._hashed: dict[BrokerKey, None] = {}
        self._hashed_size = 0

    def __len__(self) -> int:
        return len(self._bodies)

    def last(self, key: BrokerKey) -> CachedBody | None:
        """Return a broker's last registration, None when it is not kept."""
        return self._bodies.get(key)

    def recognise(
        self, key: BrokerKey, header: RegisterBroker, peer_version: int, body: bytes, revision: int
    ) -> Recognition | None:
        """Return the content of a registration that differs little from the last one; None: it has to be parsed.

        Args:
            peer_version: the sender's: the same bytes may mean something else to another one (brokers before 3.0.11).
            revision: the broker name's, now.
        """
        last = self._bodies.get(key)
        # The revision grows with every change of the broker's group, whatever caused it: what was entered may be gone.
        if last is None or last.revision != revision or last.peer_version != peer_version:
            return None
        if not _same_but_checksum(last.header, header):
            return None
        # The same bytes up to the checksum: most registrations of a quiet cluster end here.
        if last.ends(body):
            return Recognition(last.data_version, last.header.body_crc32)
        if len(body) > COMPARED_SIZE_MAX:
            return None
        # A registration without a change differs in its DataVersion alone: compare what stands around it.
        parts = split(body) if last.is_versioned else Parts(b"", None, body)
        if (parts.version is not None) != last.is_versioned or parts.before != last.before:
            return None
        is_same_version = parts.version in (None, last.data_version)
        # Under a new version equal topics may change the tables, where these differ from the last body (a wiped permission).
        if not (is_same_version or last.is_applied):
            return None
        # Large bodies are kept as a hash (see `remember`).
        if last.after == (parts.after if isinstance(last.after, bytes) else hash(parts.after)):
            checksum = last.header.body_crc32 if is_same_version else None
            return Recognition(parts.version or last.data_version, checksum)
        if not (last.is_plain and last.is_applied and isinstance(last.after, bytes)) or parts.version is None:
            return None
        # One changed topic among thousands: only the texts that differ are parsed.
        topics = find_difference(last.after, parts.after)
        return Recognition(parts.version, None, topics) if topics else None

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
        """Keep a registration that was applied.

        Args:
            topic_count: how many topics the body lists; None for one that was recognised by its difference.
            is_applied: the tables hold what the body says, so that a new version alone would change nothing.
        """
        if not self._is_on:
            return
        # A large one is kept whole: a copy of most of it would take as long as all comparisons.
        before, version, after = split(body) if len(body) <= COMPARED_SIZE_MAX else Parts(b"", None, body)
        last = self._bodies.get(key)
        was_plain = last is not None and last.is_plain
        self.forget(key)
        # One that was recognised by its difference has been looked through already.
        if (
            version is not None and topic_count is not None and VERSION_KEY in after
        ):  # which counts is for the parser to say
            before, version, after = b"", None, body
        if version not in (None, data_version):
            return
        kept = self._bodies[key] = CachedBody(
            header=header,
            peer_version=peer_version,
            start=body[: len(body) - len(after)],
            before=before,
            after=after,
            is_versioned=version is not None,
            data_version=data_version,
            revision=revision,
            is_applied=is_applied,
            # What was recognised by its difference is as plain as the body before: whole entries were exchanged or added.
            is_plain=was_plain if topic_count is None else is_plain(after, topic_count),
        )
        self._whole[key] = None
        self.size += kept.size
        self._shrink()

    def forget(self, key: BrokerKey) -> None:
        """Drop the body of a broker that is gone."""
        last = self._bodies.pop(key, None)
        if last is not None:
            self.size -= last.size
            if key in self._whole:
                del self._whole[key]
            else:
                del self._hashed[key]
                self._hashed_size -= last.size

    def _shrink(self) -> None:
        """Keep hashes in place of the oldest bodies until the rest is small enough, and not even these of the oldest."""
        while self.size > self._size_max and self._whole:
            key = next(iter(self._whole))
            del self._whole[key]
            last = self._bodies[key]
            # The hash is keyed and has 64 bits: a collision cannot be provoked.
            hashed = self._bodies[key] = last._replace(after=hash(last.after))
            self._hashed[key] = None
            self._hashed_size += hashed.size
            self.size -= last.size - hashed.size
        while self._hashed_size > self._size_max // HASHED_SHARE:
            self.forget(next(iter(self._hashed)))

    def clear(self) -> None:
        """Drop all bodies: what they would change is different now."""
        self._bodies.clear()
        self._whole.clear()
        self._hashed.clear()
        self.size = self._hashed_size = 0
        self.clear_count += 1


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
