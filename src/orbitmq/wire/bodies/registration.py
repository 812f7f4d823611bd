"""What a broker registers: its topics, their version, its filter servers. Plain and compressed forms.

Source: docs/formats/wire_frame.md, "Registration"; Java RegisterBrokerBody, TopicConfigSerializeWrapper, TopicConfig.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple

import orjson

from orbitmq.codes import Version
from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies._parts import number, parse_body, text

INFLATED_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of a compressed registration once inflated: four times the frame limit."""

_INT = Struct(">i")


class RegisteredTopic(NamedTuple):
    """The part of a topic's configuration that routes are made of."""

    topic: str
    read_queue_count: int
    write_queue_count: int
    perm: int
    topic_sys_flag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody:
    """The body of REGISTER_BROKER.

    `filter_servers` None means "leave mine as they are". `queue_mappings` holds static-topic mappings by topic.
    """

    data_version: DataVersion = DataVersion()
    topics: tuple[RegisteredTopic, ...] = ()
    filter_servers: tuple[str, ...] | None = None
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def encode_registration(
    data_version: DataVersion, topics: Mapping[str, TopicConfig], filter_servers: tuple[str, ...] = ()
) -> bytes:
    """Encode the plain form, as brokers send it."""
    version = data_version_document(data_version)
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": version,
        "topicConfigTable": {name: topic_document(config) for name, config in topics.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return orjson.dumps({"filterServerList": list(filter_servers), "topicConfigSerializeWrapper": wrapper})


def decode_registration(body: bytes, *, compressed: bool = False, version: int = Version.V5_3_3) -> RegisterBrokerBody:
    """Decode the body of REGISTER_BROKER.

    Args:
        compressed: the header's field of that name: the zlib form.
        version: the sender's; brokers before 3.0.11 send the topic table alone, brokers from 5.0 on add
            mappings to the compressed form.

    Raises:
        HeaderError: the body does not parse.
    """
    if not body:
        return RegisterBrokerBody()
    if compressed:
        return _decode_compressed(body, version)
    if version < Version.V3_0_11:
        return parse_body("topic table", body, lambda document: _parse_wrapper(document, None))
    return parse_body("registration", body, _parse_registration)


def encode_data_version(version: DataVersion) -> bytes:
    """Encode a DataVersion alone."""
    return orjson.dumps(data_version_document(version))


def decode_data_version(body: bytes) -> DataVersion:
    """Decode a DataVersion alone."""
    return parse_body("DataVersion", body, parse_data_version)


def data_version_document(version: DataVersion) -> dict[str, int]:
    """Return the JSON object of a DataVersion."""
    return {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp_ms}


def parse_data_version(document: Mapping[str, Any]) -> DataVersion:
    """Build a DataVersion from its JSON object; missing parts are 0."""
    get = document.get
    return DataVersion(number(get("stateVersion") or 0), number(get("timestamp") or 0), number(get("counter") or 0))


def topic_document(config: TopicConfig) -> dict[str, Any]:
    """Return the JSON object of a TopicConfig."""
    return {
        "attributes": dict(config.attributes),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queue_count,
        "topicFilterType": config.topic_filter_type,
        "topicName": config.topic,
        "topicSysFlag": config.topic_sys_flag,
        "writeQueueNums": config.write_queue_count,
    }


def parse_topic(document: Mapping[str, Any]) -> TopicConfig:
    """Build a TopicConfig from its JSON object; missing fields have Java's constructor defaults."""
    get = document.get
    return TopicConfig(
        topic=text(document["topicName"]),
        read_queue_count=number(get("readQueueNums", 16)),
        write_queue_count=number(get("writeQueueNums", 16)),
        perm=number(get("perm", 6)),
        topic_filter_type=get("topicFilterType") or "SINGLE_TAG",
        topic_sys_flag=number(get("topicSysFlag", 0)),
        order=bool(get("order")),
        attributes={text(name): text(value) for name, value in (get("attributes") or {}).items()},
    )


def _parse_registration(document: dict[str, Any]) -> RegisterBrokerBody:
    servers = document.get("filterServerList", ())  # only an explicit null leaves them as they are
    filter_servers = None if servers is None else tuple(map(text, servers))
    return _parse_wrapper(document.get("topicConfigSerializeWrapper") or {}, filter_servers)


def _parse_wrapper(wrapper: dict[str, Any], filter_servers: tuple[str, ...] | None) -> RegisterBrokerBody:
    return RegisterBrokerBody(
        data_version=parse_data_version(wrapper.get("dataVersion") or {}),
        topics=parse_registered_topics(wrapper.get("topicConfigTable") or {}),
        filter_servers=filter_servers,
        queue_mappings=wrapper.get("topicQueueMappingInfoMap") or {},
    )


def parse_registered_topics(table: Mapping[str, Mapping[str, Any]]) -> tuple[RegisteredTopic, ...]:
    """Build what routes need of a topic table.

    Raises:
        TypeError: a topic's number is none.
    """
    topics = tuple(
        RegisteredTopic(
            topic,
            config.get("readQueueNums", 16),
            config.get("writeQueueNums", 16),
            config.get("perm", 6),
            config.get("topicSysFlag", 0),
        )
        for topic, config in table.items()
    )
    # Thousands of topics may come at once: one pass in C tells whether every number is one.
    kinds: set[type] = set()
    for column in range(1, 5):
        kinds.update(map(type, [topic[column] for topic in topics]))
    if kinds - {int}:
        raise TypeError("a topic's queue numbers, perm and flag must be integers")
    return topics


def _decode_compressed(body: bytes, version: int) -> RegisterBrokerBody:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise HeaderError(f"compressed registration: {error}") from None
    if inflater.unconsumed_tail:
        raise HeaderError(f"compressed registration: over {INFLATED_SIZE_MAX} bytes when inflated")
    try:
        return _parse_compressed(_Pieces(data), version)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HeaderError(f"compressed registration: {error}") from None


def _parse_compressed(pieces: _Pieces, version: int) -> RegisterBrokerBody:
    data_version = parse_data_version(fastjson.loads(pieces.take()))
    topics = tuple(_parse_topic_line(pieces.take().decode()) for _ in range(pieces.take_count()))
    filter_servers = tuple(map(text, fastjson.loads(pieces.take())))
    mappings: dict[str, Mapping[str, Any]] = {}
    if version >= Version.V5_0_0 and pieces.are_left:
        for _ in range(pieces.take_count()):
            mapping = fastjson.loads(pieces.take())
            mappings[text(mapping["topic"])] = mapping
    return RegisterBrokerBody(
        data_version=data_version, topics=topics, filter_servers=filter_servers, queue_mappings=mappings
    )


def _parse_topic_line(line: str) -> RegisteredTopic:
    """Parse `name read write perm filterType [attributes]`; the flag is lost in this form."""
    topic, read_count, write_count, perm, *_ = line.split(" ")
    return RegisteredTopic(topic, int(read_count), int(write_count), int(perm), 0)


class _Pieces:
    """Length-prefixed pieces, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def are_left(self) -> bool:
        return self._place < len(self._data)

    def take_count(self) -> int:
        if len(self._data) - self._place < _INT.size:
            raise ValueError("it ends too early")
        (count,) = _INT.unpack_from(self._data, self._place)
        self._place += _INT.size
        if not 0 <= count <= len(self._data) - self._place:
            raise ValueError(f"a length of {count} where {len(self._data) - self._place} bytes are left")
        return int(count)

    def take(self) -> bytes:
        size = self.take_count()
        self._place += size
        return self._data[self._place - size : self._place]
