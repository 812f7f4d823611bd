"""The body of a broker's registration: its topics, their version, its filter servers. Plain and compressed forms.

Source: docs/formats/wire_frame.md, "Registration"; Java RegisterBrokerBody, TopicConfigSerializeWrapper, TopicConfig.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from struct import Struct
from sys import intern
from typing import Any

import orjson

from orbitmq.codes import Version
from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, check_int32, int32, number, parse_body, text
from orbitmq.wire.bodies.topic_table import (
    PIECE_SIZE,
    SLICED_SIZE_MIN,
    TOPICS_MAX,
    RegisteredTopic,
    cut_table,
    parse_registered_topics,
    read_table,
)
from orbitmq.wire.slices import Slices, finish

INFLATED_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of a compressed registration once inflated: four times the frame limit."""
DATA_VERSION_SIZE_MAX = 4096
"""Bytes of a DataVersion alone."""

_INT = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody:
    """The body of REGISTER_BROKER.

    `topics` are by name. `filter_servers` None means "leave mine as they are". `queue_mappings` holds static-topic
    mappings by topic.
    """

    data_version: DataVersion = DataVersion()
    topics: Mapping[str, RegisteredTopic] = field(default_factory=dict)
    filter_servers: tuple[str, ...] | None = None
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def encode_registration(
    data_version: DataVersion,
    topics: Mapping[str, TopicConfig],
    filter_servers: tuple[str, ...] = (),
    *,
    queue_mappings: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """Encode the plain form, as brokers send it.

    Args:
        queue_mappings: the static topics among them, each as the JSON object that NameServers pass on.
    """
    version = data_version_document(data_version)
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": version,
        "topicConfigTable": {name: topic_document(config) for name, config in topics.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": dict(queue_mappings or {}),
    }
    return orjson.dumps({"filterServerList": list(filter_servers), "topicConfigSerializeWrapper": wrapper})


def decode_registration(body: bytes, *, compressed: bool = False, version: int = Version.V5_3_3) -> RegisterBrokerBody:
    """Decode the body of REGISTER_BROKER in one go, see `read_registration`."""
    return finish(read_registration(body, compressed=compressed, version=version))


def read_registration(body: bytes, *, compressed: bool, version: int) -> Slices[RegisterBrokerBody]:
    """Decode the body of REGISTER_BROKER; a large one in slices.

    Args:
        compressed: the header's field of that name: the zlib form.
        version: the sender's; brokers before 3.0.11 send the topic table alone, brokers from 5.0 on add
            mappings to the compressed form.

    Raises:
        HeaderError: the body does not parse, or is larger than any that can be read in slices.
    """
    if not body:
        return RegisterBrokerBody()
    if compressed:
        return (yield from _read_compressed(body, version))
    parse, wrapper_of = _FORMS[version >= Version.V3_0_11]
    if len(body) > SLICED_SIZE_MIN and (cut := cut_table(body, wrapper_of)) is not None:
        decoded = parse_body("registration", cut.rest, parse, size_max=DOCUMENT_SIZE_MAX)
        try:
            return replace(decoded, topics=(yield from read_table(body, cut.start, cut.end)))
        except HeaderError:
            if len(body) > DOCUMENT_SIZE_MAX:
                raise
    return parse_body("registration", body, parse, size_max=DOCUMENT_SIZE_MAX)


def encode_data_version(version: DataVersion) -> bytes:
    """Encode a DataVersion alone."""
    return orjson.dumps(data_version_document(version))


def decode_data_version(body: bytes) -> DataVersion:
    """Decode a DataVersion alone.

    Raises:
        HeaderError: the body is none.
    """
    return parse_body("DataVersion", body, parse_data_version, size_max=DATA_VERSION_SIZE_MAX)


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
        read_queue_count=int32(get("readQueueNums", 16)),
        write_queue_count=int32(get("writeQueueNums", 16)),
        perm=int32(get("perm", 6)),
        topic_filter_type=get("topicFilterType") or "SINGLE_TAG",
        topic_sys_flag=int32(get("topicSysFlag", 0)),
        order=bool(get("order")),
        attributes={text(name): text(value) for name, value in (get("attributes") or {}).items()},
    )


def _parse_registration(document: dict[str, Any]) -> RegisterBrokerBody:
    servers = document.get("filterServerList", ())  # only an explicit null leaves them as they are
    filter_servers = None if servers is None else tuple(map(text, servers))
    return _parse_wrapper(_wrapper_of(document), filter_servers)


def _wrapper_of(document: dict[str, Any]) -> dict[str, Any]:
    wrapper: dict[str, Any] = document.get("topicConfigSerializeWrapper") or {}
    return wrapper


def _parse_table_alone(document: dict[str, Any]) -> RegisterBrokerBody:
    return _parse_wrapper(document, None)


def _parse_wrapper(wrapper: dict[str, Any], filter_servers: tuple[str, ...] | None) -> RegisterBrokerBody:
    return RegisterBrokerBody(
        data_version=parse_data_version(wrapper.get("dataVersion") or {}),
        topics=parse_registered_topics(wrapper.get("topicConfigTable") or {}),
        filter_servers=filter_servers,
        queue_mappings=wrapper.get("topicQueueMappingInfoMap") or {},
    )


_Form = tuple[Callable[[dict[str, Any]], RegisterBrokerBody], Callable[[dict[str, Any]], dict[str, Any]]]
_FORMS: dict[bool, _Form] = {
    True: (_parse_registration, _wrapper_of),
    False: (_parse_table_alone, lambda document: document),
}


def _read_compressed(body: bytes, version: int) -> Slices[RegisterBrokerBody]:
    try:
        data = yield from _inflate(body)
        return (yield from _read_pieces(_Pieces(data), version))
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise HeaderError(f"compressed registration: {error}") from None


def _inflate(body: bytes) -> Slices[bytes]:
    inflater = zlib.decompressobj()
    parts: list[bytes] = []
    size = 0
    for position in range(0, len(body), PIECE_SIZE):
        rest = body[position : position + PIECE_SIZE]
        while rest:
            parts.append(inflater.decompress(rest, DOCUMENT_SIZE_MAX))
            rest = inflater.unconsumed_tail
            size += len(parts[-1])
            if size > INFLATED_SIZE_MAX:
                raise HeaderError(f"compressed registration: over {INFLATED_SIZE_MAX} bytes when inflated")
            if rest or size > DOCUMENT_SIZE_MAX:
                yield
    return b"".join(parts)


def _read_pieces(pieces: _Pieces, version: int) -> Slices[RegisterBrokerBody]:
    data_version = parse_data_version(_parse_piece(pieces))
    count = pieces.take_count()
    if count > TOPICS_MAX:
        raise ValueError(f"{count} topics, limit {TOPICS_MAX}")
    topics: dict[str, RegisteredTopic] = {}
    for _ in range(count):
        if pieces.ends_slice():
            yield
        topic, numbers = _parse_topic_line(pieces.take().decode())
        topics[intern(topic)] = numbers
    filter_servers = tuple(map(text, _parse_piece(pieces)))
    mappings: dict[str, Mapping[str, Any]] = {}
    if version >= Version.V5_0_0 and pieces.are_left:
        start = pieces.position
        for _ in range(pieces.take_count()):
            if pieces.ends_slice():
                yield
            if pieces.position - start > DOCUMENT_SIZE_MAX:  # as of the plain form, whose rest is parsed in one pass
                raise ValueError(f"more than {DOCUMENT_SIZE_MAX} bytes of mappings")
            mapping = _parse_piece(pieces)
            mappings[text(mapping["topic"])] = mapping
    return RegisterBrokerBody(
        data_version=data_version, topics=topics, filter_servers=filter_servers, queue_mappings=mappings
    )


def _parse_piece(pieces: _Pieces) -> Any:
    piece = pieces.take()
    if len(piece) > DOCUMENT_SIZE_MAX:
        raise ValueError(f"a piece of {len(piece)} bytes, limit {DOCUMENT_SIZE_MAX}")
    return fastjson.loads(piece, is_bounded=True)


def _parse_topic_line(line: str) -> tuple[str, RegisteredTopic]:
    """Parse `name read write perm filterType [attributes]`; the flag is lost in this form."""
    topic, read_count, write_count, perm, *_ = line.split(" ")
    numbers = RegisteredTopic(int(read_count), int(write_count), int(perm), 0)
    check_int32(numbers)
    return topic, numbers


class _Pieces:
    """A reader of length-prefixed pieces, which stand one behind another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self._slice_end = PIECE_SIZE

    def ends_slice(self) -> bool:
        """Return True, and begin the next slice, when as many bytes were taken as one may read."""
        if self.position < self._slice_end:
            return False
        self._slice_end = self.position + PIECE_SIZE
        return True

    @property
    def are_left(self) -> bool:
        return self.position < len(self._data)

    def take_count(self) -> int:
        if len(self._data) - self.position < _INT.size:
            raise ValueError("it ends too early")
        (count,) = _INT.unpack_from(self._data, self.position)
        self.position += _INT.size
        if not 0 <= count <= len(self._data) - self.position:
            raise ValueError(f"a length of {count} where {len(self._data) - self.position} bytes are left")
        return int(count)

    def take(self) -> bytes:
        size = self.take_count()
        self.position += size
        return self._data[self.position - size : self.position]
