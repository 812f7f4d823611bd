"""Every decoder that a stranger's bytes reach: what to start from, and what may come out.

Invariant of all of them: a value or an error of our own tree that says what is wrong. Nothing else, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, FrameError, InvalidArgument, Rejected
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.model.message import Host
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.http import HttpResponse, HttpServer, Page
from orbitmq.wire import fastjson, headers
from orbitmq.wire.bodies import document, groups, heartbeat, registration, route, topic_table, topics
from orbitmq.wire.command import Command, SerializeType, decode_command, encode_command
from orbitmq.wire.frame import Frame, FrameDecoder
from orbitmq.wire.header import bound_codes, decode_header, encode_header, request_type
from orbitmq.wire.messages.batch import encode_batch, parse_batch
from orbitmq.wire.messages.compression import CompressionType, compress, decompress
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import find_property, parse_properties
from orbitmq.wire.messages.record import format_record, iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message


class Target(NamedTuple):
    """A decoder, and good inputs to injure."""

    decode: Callable[[bytes], None]
    seeds: Sequence[bytes]


_SEND = headers.SendMessageV2(
    producer_group="g", topic="t", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
    born_at_ms=1, flag=0, properties="KEYS\x01k\x02TAGS\x01a\x02", batch=False,
)  # fmt: skip
_ROUTE = TopicRoute(
    queues=(QueueData(broker_name="a", read_queue_count=4, write_queue_count=4, perm=6),),
    brokers=(BrokerData(cluster="c", broker_name="a", addresses={0: "h:1", 1: "h:2"}),),
    filter_servers={"h:1": ("f:1",)},
)
_BEAT = Heartbeat(
    client_id="1@2",
    producer_groups=("p",),
    consumers=(ConsumerInfo(group="g", subscriptions=(Subscription(topic="t", tags=frozenset("ab")),)),),
)
_FRAMES = [
    encode_command(Command(code, 7, ext_fields=fields, body=body, remark=remark, serialize_type=kind))
    for kind in SerializeType
    for code, fields, body, remark in (
        (310, encode_header(_SEND), b"body" * 9, None),
        (105, {"topic": "t", "acceptStandardJsonOnly": "true"}, b"", None),
        (0, None, route.encode_route(_ROUTE), "fine"),
    )
]
_RECORD = format_record(topic="t", body=b"hello" * 9, properties=b"KEYS\x01k\x02", queue_id=1, queue_offset=2)
_V6_RECORD = format_record(
    topic="t" * 200, body=b"", born_host=Host("::1", 9), store_host=Host("::1", 1), with_crc=True
)
_ZLIB_RECORD = format_record(topic="t", body=compress(b"x" * 999), sys_flag=CompressionType.ZLIB.sys_flag)
headers.load_all()
_HEADER_TYPES = [kind for code in bound_codes() if (kind := request_type(code)) is not None]


def _frames(data: bytes) -> None:
    decoder = FrameDecoder()
    with suppress(FrameError):
        cut = len(data) // 3
        for frame in decoder.feed(data[:cut]) + decoder.feed(data[cut:]):
            command = decode_command(frame)
            kind = request_type(command.code)
            if kind is not None:
                with suppress(Rejected):
                    decode_header(kind, command.ext_fields)
            _encodes_again(command)
    assert len(decoder.partial) <= len(data)


def _encodes_again(command: Command) -> None:
    """What was decoded can be sent on, and comes back the same."""
    if not 0 <= command.version < 2**15 or not -(2**15) <= command.code < 2**15 or command.language == "OTHER":
        return
    (frame,) = FrameDecoder().feed(encode_command(command))
    again = decode_command(frame)
    assert (again.code, again.opaque, again.ext_fields or None) == (
        command.code,
        command.opaque,
        command.ext_fields or None,
    )


def _json_headers(data: bytes) -> None:
    with suppress(FrameError):
        command = decode_command(Frame(0, data, b""))
        for kind in _HEADER_TYPES:
            with suppress(Rejected):
                decode_header(kind, command.ext_fields)


def _binary_headers(data: bytes) -> None:
    with suppress(FrameError):
        decode_command(Frame(1, data, b""))


def _body(decode: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def decode_body(data: bytes) -> None:
        with suppress(Rejected):
            decode(data)

    return decode_body


def _sliced_registrations(data: bytes) -> None:
    """In slices a registration is what it is in one piece, or refused where nothing large may be parsed in one pass."""
    whole = _registered(data)
    with _set(registration, SLICED_SIZE_MIN=0), _set(topic_table, PIECE_SIZE=1):
        assert _registered(data) == whole
        with _set(registration, DOCUMENT_SIZE_MAX=1):
            assert _registered(data) in (None, whole)


def _registered(data: bytes) -> registration.RegisterBrokerBody | None:
    try:
        return registration.decode_registration(data)
    except Rejected:
        return None


@contextmanager
def _set(module: ModuleType, **constants: int) -> Iterator[None]:
    before = {name: getattr(module, name) for name in constants}
    for name, value in constants.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def _compressed_registrations(data: bytes) -> None:
    for version in (401, 479):
        with suppress(Rejected):
            registration.decode_registration(data, compressed=True, version=version)


def _dialects(data: bytes) -> None:
    with suppress(ValueError):
        fastjson.dumps_loose(fastjson.loads(data))


def _records(data: bytes) -> None:
    with suppress(CorruptRecord):
        for record in iter_records(data):
            assert record.size <= len(data)
            to_stored_message(record)


def _properties(data: bytes) -> None:
    find_property(data, b"KEYS")
    with suppress(UnicodeDecodeError):
        for name, value in parse_properties(data).items():
            assert name
            assert value


def _batches(data: bytes) -> None:
    with suppress(Rejected):
        items = parse_batch(data)
        assert sum(len(item.body) + len(item.properties) for item in items) <= len(data)


def _compressed_bodies(data: bytes) -> None:
    for kind in CompressionType:
        with suppress(InvalidArgument):
            assert len(decompress(data, kind.sys_flag, size_max=65536)) <= 65536


def _http_requests(data: bytes) -> None:
    answer, _ = _HTTP.answer(data)
    assert isinstance(answer, HttpResponse), "no page of these is made in slices"
    assert answer.status in (200, 400, 404, 405)


def _message_ids(data: bytes) -> None:
    with suppress(InvalidArgument):
        parse_offset_message_id(data.decode("latin-1"))


def _http_page(query: Mapping[str, str]) -> HttpResponse:
    return HttpResponse("".join(f"{name}={value}\n" for name, value in query.items()).encode("utf-8", "replace"))


_HTTP = HttpServer({path: Page(_http_page, ("topic", "since")) for path in ("/metrics", "/routes/history")})


def _piece(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


_PIECES = [
    _piece(b'{"counter":3,"stateVersion":0,"timestamp":2}'), b"\0\0\0\1", _piece(b"t1 4 4 6 SINGLE_TAG"), _piece(b"[]"),
    b"\0\0\0\1", _piece(b'{"topic":"t1","bname":"x"}'),
]  # fmt: skip

_REGISTRATION = registration.encode_registration(
    DataVersion(1, 2, 3), {name: TopicConfig(topic=name, attributes={"+a": "}"}) for name in ("t", "u", "v")}, ("f:1",)
)
_BODY_DECODERS = (
    route.decode_route, route.decode_cluster_info, route.decode_member_group, registration.decode_registration,
    registration.decode_data_version, heartbeat.decode_heartbeat, heartbeat.decode_consumer_list,
    heartbeat.decode_subscription_check, heartbeat.decode_queue_lock, heartbeat.decode_locked_queues,
    document.decode_kv_table, topics.decode_topic_list, topics.decode_topic_table, topics.decode_topic_config,
    topics.decode_topic_stats, topics.decode_consume_stats, groups.decode_group_config, groups.decode_group_table,
    groups.decode_group_list,
)  # fmt: skip
_BODIES = [
    route.encode_route(_ROUTE),
    route.encode_route(_ROUTE, standard=False),
    route.encode_cluster_info(ClusterInfo(brokers={"a": _ROUTE.brokers[0]}, clusters={"c": ("a",)})),
    route.encode_member_group("c", "a", {0: "h:1"}),
    registration.encode_registration(DataVersion(1, 2, 3), {"t": TopicConfig(topic="t")}),
    heartbeat.encode_heartbeat(_BEAT),
    document.encode_kv_table({"k": "v"}),
    topics.encode_topic_stats({MessageQueue("t", "a", 0): topics.QueueStats(1, 2, 3)}),
    topics.encode_consume_stats({MessageQueue("t", "a", 0): topics.QueueProgress(1, 2, 3)}),
]

TARGETS: dict[str, Target] = {
    "frames": Target(_frames, [*_FRAMES, b"".join(_FRAMES)]),
    "json_headers": Target(_json_headers, [frame[8:] for frame in _FRAMES if frame[4] == 0]),
    "binary_headers": Target(_binary_headers, [frame[8:] for frame in _FRAMES if frame[4] == 1]),
    **{decode.__name__.removeprefix("decode_"): Target(_body(decode), _BODIES) for decode in _BODY_DECODERS},
    "sliced_registrations": Target(_sliced_registrations, [_REGISTRATION, _REGISTRATION.replace(b",", b", ")]),
    "compressed_registrations": Target(
        _compressed_registrations, [compress(b"".join(_PIECES)), compress(b"".join(_PIECES[:4]))]
    ),
    "dialects": Target(
        _dialects, [b'{0:"a",1:{"b":[1,2.5e3,null,true]}}', b'{"t":{{"queueId":0,"topic":"t"}:{"m":1}}}']
    ),
    "records": Target(_records, [_RECORD, _V6_RECORD, _ZLIB_RECORD, _RECORD + _V6_RECORD + _ZLIB_RECORD]),
    "properties": Target(_properties, [b"KEYS\x01a b\x02TAGS\x01t\x02", "é\x01ü\x02".encode()]),
    "batches": Target(_batches, [encode_batch([(0, b"body", b"A\x01b\x02"), (1, b"", b"")])]),
    "compressed_bodies": Target(_compressed_bodies, [compress(b"x" * 9999, kind) for kind in CompressionType]),
    "message_ids": Target(_message_ids, [b"7F00000100002A9F0000000000000123", b"0" * 56]),
    "http_requests": Target(
        _http_requests,
        [
            b"GET /metrics HTTP/1.1\r\nHost: h:9557\r\n\r\n",
            b"HEAD /routes/history?topic=%25RETRY%25g&since=1&count=20 HTTP/1.0\r\n\r\n",
        ],
    ),
}
