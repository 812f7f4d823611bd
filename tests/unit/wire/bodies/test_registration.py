"""Registrations of brokers: plain and compressed, and what they leave out."""

from __future__ import annotations

import zlib
from struct import pack

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire.bodies import registration
from orbitmq.wire.bodies.topic_table import RegisteredTopic


def test_a_registration_round_trips():
    version = DataVersion(1, 2, 3)
    body = registration.encode_registration(version, {"t": TopicConfig(topic="t", read_queue_count=8)}, ("f:1",))
    decoded = registration.decode_registration(body)
    assert decoded.data_version == version
    assert decoded.topics == {"t": RegisteredTopic(8, 16, 6, 0)}
    assert decoded.filter_servers == ("f:1",)


@each_case((b"{}", ()), (b'{"filterServerList":null}', None))
def test_filter_servers_that_are_left_out_are_none_and_only_a_null_leaves_them_as_they_are(form, expected):
    assert registration.decode_registration(form).filter_servers == expected


def compressed_body(*, mappings: bool) -> bytes:
    def piece(data: bytes) -> bytes:
        return pack(">i", len(data)) + data

    parts = [piece(b'{"counter":3,"stateVersion":0,"timestamp":2}'), pack(">i", 2)]
    parts += [piece(b"t1 4 4 6 SINGLE_TAG"), piece(b't2 8 8 4 SINGLE_TAG {"a":"b"}'), piece(b"[]")]
    if mappings:
        parts += [pack(">i", 1), piece(b'{"topic":"t1","bname":"x"}')]
    return zlib.compress(b"".join(parts), 9)


@each_case(True, False)
def test_the_compressed_registration_of_4x_brokers_is_understood(mappings):
    decoded = registration.decode_registration(
        compressed_body(mappings=mappings), compressed=True, version=413 if mappings else 401
    )
    assert decoded.data_version == DataVersion(0, 2, 3)
    assert decoded.topics == {"t1": RegisteredTopic(4, 4, 6, 0), "t2": RegisteredTopic(8, 8, 4, 0)}
    assert decoded.queue_mappings == ({"t1": {"topic": "t1", "bname": "x"}} if mappings else {})


def test_every_cut_of_a_compressed_registration_is_refused():
    plain = zlib.decompress(compressed_body(mappings=True))
    for cut in range(len(plain) - 1):
        try:
            registration.decode_registration(zlib.compress(plain[:cut]), compressed=True, version=413)
        except HeaderError:
            continue
        assert plain[:cut].endswith(b"[]"), "only the end of the filter list is an end too"


def test_a_compressed_registration_that_inflates_without_bound_is_refused():
    bomb = zlib.compress(bytes(registration.INFLATED_SIZE_MAX + 1), 9)
    with pytest.raises(HeaderError, match="over"):
        registration.decode_registration(bomb, compressed=True)


def test_a_topic_whose_queue_number_is_no_integer_is_refused():
    body = orjson.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {"t": {"readQueueNums": "x"}}}})
    with pytest.raises(HeaderError, match="integers"):
        registration.decode_registration(body)


def test_an_empty_body_registers_a_broker_without_topics_and_leaves_its_filter_servers():
    found = registration.decode_registration(b"")
    assert (found.data_version, found.topics, found.filter_servers) == (DataVersion(0, 0, 0), {}, None)
    assert found.queue_mappings == {}


@each_case((36, False), (37, True))
def test_brokers_before_3_0_11_send_the_table_alone(version, is_wrapped):
    table = {"dataVersion": {"counter": 3}, "topicConfigTable": {"t": {"perm": 4}}}
    body = orjson.dumps({"topicConfigSerializeWrapper": table} if is_wrapped else table)
    found = registration.decode_registration(body, version=version)
    assert found.data_version == DataVersion(0, 0, 3)
    assert found.topics == {"t": RegisteredTopic(16, 16, 4, 0)}
    assert found.filter_servers == (() if is_wrapped else None)
    assert registration.decode_registration(body, version=37 if version == 36 else 36).topics == {}


@each_case((412, False), (413, True))
def test_compressed_mappings_come_from_5_0_on(version, has_mappings):
    found = registration.decode_registration(compressed_body(mappings=True), compressed=True, version=version)
    assert bool(found.queue_mappings) is has_mappings


def test_mappings_of_static_topics_are_kept_as_they_came():
    body = b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"t":{"bname":"a","epoch":7}}}}'
    assert registration.decode_registration(body).queue_mappings == {"t": {"bname": "a", "epoch": 7}}


def test_a_data_version_round_trips_and_missing_parts_are_zero():
    version = DataVersion(1, 2, 3)
    assert registration.decode_data_version(registration.encode_data_version(version)) == version
    assert registration.decode_data_version(b"{}") == DataVersion(0, 0, 0)


def test_a_data_version_alone_is_small():
    fitting = b'{"counter":7}'.ljust(registration.DATA_VERSION_SIZE_MAX)
    assert registration.decode_data_version(fitting).counter == 7
    with pytest.raises(HeaderError, match="limit 4096"):
        registration.decode_data_version(fitting + b" ")


def test_a_registration_says_that_its_mappings_are_as_old_as_its_topics():
    wrapper = orjson.loads(registration.encode_registration(DataVersion(1, 2, 3), {}))["topicConfigSerializeWrapper"]
    assert wrapper["mappingDataVersion"] == wrapper["dataVersion"] == {"counter": 3, "stateVersion": 1, "timestamp": 2}


@each_case(b"", b"\0", b"\0\0\0\x7f")
def test_a_compressed_registration_that_ends_too_early_says_so(damage):
    with pytest.raises(HeaderError, match="compressed registration"):
        registration.decode_registration(zlib.compress(damage), compressed=True)


def test_what_is_not_compressed_at_all_is_refused():
    with pytest.raises(HeaderError, match="compressed registration"):
        registration.decode_registration(b"{}", compressed=True)


def test_a_compressed_body_may_be_as_large_as_the_limit_once_inflated(monkeypatch):
    size = len(zlib.decompress(compressed_body(mappings=True)))
    monkeypatch.setattr(registration, "INFLATED_SIZE_MAX", size)
    assert len(registration.decode_registration(compressed_body(mappings=True), compressed=True).topics) == 2
    monkeypatch.setattr(registration, "INFLATED_SIZE_MAX", size - 1)
    with pytest.raises(HeaderError, match=f"over {size - 1} bytes when inflated"):
        registration.decode_registration(compressed_body(mappings=True), compressed=True)


@each_case(b"", pack(">i", 0))
def test_a_compressed_body_without_topics_may_end_behind_its_filter_servers(end):
    pieces = [pack(">i", 2), b"{}", pack(">i", 0), pack(">i", 7), b'["f:1"]', end]
    found = registration.decode_registration(zlib.compress(b"".join(pieces)), compressed=True)
    assert (found.topics, found.filter_servers, found.queue_mappings) == ({}, ("f:1",), {})


def test_a_compressed_body_may_have_as_many_topics_as_the_limit(monkeypatch):
    monkeypatch.setattr(registration, "TOPICS_MAX", 2)
    assert len(registration.decode_registration(compressed_body(mappings=True), compressed=True).topics) == 2


def test_a_piece_of_a_compressed_body_is_bounded(monkeypatch):
    version = b'{"counter":3,"stateVersion":0,"timestamp":2}'
    monkeypatch.setattr(registration, "DOCUMENT_SIZE_MAX", len(version))
    assert registration.decode_registration(compressed_body(mappings=True), compressed=True).topics
    monkeypatch.setattr(registration, "DOCUMENT_SIZE_MAX", len(version) - 1)
    with pytest.raises(HeaderError, match=f"a piece of {len(version)} bytes, limit {len(version) - 1}"):
        registration.decode_registration(compressed_body(mappings=True), compressed=True)


@each_case(-1, 4, 7)
def test_a_length_that_reaches_past_the_end_is_refused(length):
    """The body has three bytes behind the length of its first piece; nothing of it may be taken for a whole one."""
    body = zlib.compress(pack(">i", length) + b"{} ")
    with pytest.raises(HeaderError, match=f"a length of {length} where 3 bytes are left"):
        registration.decode_registration(body, compressed=True)


def test_topics_of_a_compressed_body_are_read_a_piece_at_a_time(monkeypatch):
    lines = [b"topic-%03d 8 8 6 SINGLE_TAG" % number for number in range(100)]
    pieces = [pack(">i", 2), b"{}", pack(">i", len(lines))]
    for line in [*lines, b"[]"]:
        pieces += [pack(">i", len(line)), line]
    body = b"".join(pieces)
    monkeypatch.setattr(registration, "PIECE_SIZE", len(body) // 5)
    slices = registration.read_registration(zlib.compress(body), compressed=True, version=401)
    assert sum(1 for _ in slices) == 4  # between five slices
