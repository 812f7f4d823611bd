"""Claims about unchanged registrations: recognised only when parsing them would have changed nothing."""

from __future__ import annotations

from cases import each_case
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.registration.body_cache import BodyCache, Recognition, split
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.wire.bodies.registration import decode_registration
from orbitmq.wire.headers import RegisterBroker

from ..support import registration

KEY = BrokerKey("c", "a", "a:1")


def remember(cache: BodyCache, header: RegisterBroker, body: bytes, *, is_applied: bool = True) -> None:
    decoded = decode_registration(body)
    cache.remember(
        KEY, header, 479, body, decoded.data_version, 7, topic_count=len(decoded.topics), is_applied=is_applied
    )


class Remembered:
    """A cache that has seen one registration."""

    def __init__(self, body: bytes, **fields: object) -> None:
        self.cache = BodyCache()
        self.header, self.body = registration("a", "T1", "T2", **fields)[0], body
        remember(self.cache, self.header, body)

    def recognise(
        self, body: bytes, *, header: RegisterBroker | None = None, peer_version: int = 479, revision: int = 7
    ) -> DataVersion | None:
        known = self.cache.recognise(KEY, header or self.header, peer_version, body, revision)
        return None if known is None else known.data_version


def body_of(*topics: str, version: int = 1, **options: object) -> bytes:
    return registration("a", *(topics or ("T1", "T2")), version=version, **options)[1]


@each_case(1, 999_999)
def test_a_body_that_differs_at_most_in_its_version_is_recognised_with_that_version(version: int):
    assert Remembered(body_of()).recognise(body_of(version=version)) == DataVersion(0, 0, version)


def test_a_changed_topic_is_recognised_alone():
    seen = Remembered(body_of("T1", "T2", "T3"))
    known = seen.cache.recognise(KEY, seen.header, 479, body_of("T1", "T2", "new", "T3", version=5), 7)
    assert (known.data_version, list(known.topics)) == (DataVersion(0, 0, 5), ["new"])


def test_a_large_body_is_recognised_only_where_it_is_the_same_byte_for_byte(monkeypatch):
    body = body_of("T1", "T2", "T3")
    monkeypatch.setattr("orbitmq.nameserver.registration.body_cache.COMPARED_SIZE_MAX", len(body))
    at_the_limit = Remembered(body)
    assert at_the_limit.recognise(body_of("T1", "T2", "T3", version=5)) == DataVersion(0, 0, 5)
    larger = Remembered(body_of("T1", "T2", "T33"))
    assert larger.recognise(larger.body) == DataVersion(0, 0, 1)
    assert larger.recognise(body_of("T1", "T2", "T33", version=5)) is None
    assert larger.recognise(body_of("T1", "T2", version=1)) is None
    assert at_the_limit.recognise(body_of("T1", "T2", "T33", version=5)) is None


def test_a_body_that_the_table_does_not_hold_is_recognised_under_its_own_version_alone():
    cache = BodyCache()
    header = registration("a", "T1", "T2")[0]
    remember(cache, header, body_of(), is_applied=False)
    assert cache.recognise(KEY, header, 479, body_of(), 7).data_version == DataVersion(0, 0, 1)
    assert cache.recognise(KEY, header, 479, body_of(version=2), 7) is None
    assert cache.recognise(KEY, header, 479, body_of("T1", "T2", "T3"), 7) is None


@each_case(body_of("T1", "T3"), body_of("T1"), body_of(filter_servers=("f:1",)), b"", body_of()[:-1])
def test_any_other_difference_is_not(body: bytes):
    assert Remembered(body_of()).recognise(body) is None


def test_another_header_peer_or_revision_is_looked_at():
    seen = Remembered(body_of())
    for fields in (
        {"broker_id": 1},
        {"zone_name": "z"},
        {"enable_acting_master": True},
        {"heartbeat_timeout_millis": 5},
        {"ha_server_addr": "other:1"},
        {"cluster_name": "d"},
        {"compressed": True},
    ):
        assert seen.recognise(body_of(), header=registration("a", "T1", "T2", **fields)[0]) is None, fields
    assert seen.recognise(body_of(), peer_version=36) is None
    assert seen.recognise(body_of(), revision=8) is None
    seen.cache.forget(KEY)
    assert seen.recognise(body_of()) is None


def test_the_checksum_may_differ_as_it_does_with_the_version():
    assert Remembered(body_of()).recognise(body_of(), header=registration("a", "T1", version=5)[0]) is not None


@each_case(
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"attributes":{"dataVersion":{}}}}}}',
    b'{"x":{"dataVersion":{"counter":1}},"topicConfigSerializeWrapper":{}}',
    b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":"x"}}}',
    b'{"filterServerList":["\\"],"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1}}}',
)
def test_a_version_that_is_not_in_its_place_belongs_to_the_whole(body: bytes):
    assert split(body) == (b"", None, body)


@each_case(
    (b'"dataVersion":{"counter":1},"topicConfigTable":{"dataVersion":{"perm":1}}', b"1}"),
    (b'"dataVersion":{"counter":7},"dataVersion":{"counter":1}', b"7}"),
)
def test_a_second_version_makes_every_difference_count(first: bytes, second: bytes):
    body = b'{"topicConfigSerializeWrapper":{%b}}' % first
    seen = Remembered(body)
    assert seen.recognise(body) == DataVersion(0, 0, 1)
    assert seen.recognise(body.replace(second, b"9}", 1)) is None


def test_bodies_are_kept_up_to_a_size_and_digests_beyond():
    topics = [f"T{number}" for number in range(20)]
    seen = Remembered(body_of(*topics))
    whole = seen.cache.last(KEY).size
    for size_max in (whole - 1, 10_000_000):
        cache = BodyCache(size_max)
        for _ in range(2):
            remember(cache, seen.header, body_of(*topics))
        assert cache.recognise(KEY, seen.header, 479, body_of(*topics, version=4), 7) == Recognition(
            DataVersion(0, 0, 4), None
        )
        assert cache.recognise(KEY, seen.header, 479, body_of("T1", "T4"), 7) is None
        assert cache.size == (whole if size_max > whole else whole - len(split(body_of(*topics)).after))
        cache.forget(KEY)
        assert cache.size == 0


def test_a_version_elsewhere_than_the_tables_own_is_never_remembered():
    body = b'{"dataVersion":{"counter":5},"topicConfigSerializeWrapper":{}}'
    assert split(body).version == DataVersion(0, 0, 5)
    assert Remembered(body).recognise(body) is None


def test_javas_mapping_version_belongs_to_the_version():
    def java(counter: int, mapping: int) -> bytes:
        return (
            b'{"filterServerList":["f:1","g:2"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":%d,'
            b'"stateVersion":0,"timestamp":3},"mappingDataVersion":{"counter":%d},"topicConfigTable":{}}}'
        ) % (counter, mapping)

    assert Remembered(java(1, 1)).recognise(java(2, 2)) == DataVersion(0, 3, 2)


def test_the_checksum_is_known_of_the_very_same_body_only():
    seen = Remembered(body_of())
    same = seen.cache.recognise(KEY, seen.header, 479, body_of(), 7)
    newer = seen.cache.recognise(KEY, seen.header, 479, body_of(version=2), 7)
    assert (same.checksum, newer.checksum) == (seen.header.body_crc32, None)


def test_the_oldest_bodies_make_room_for_newer_ones_and_are_never_more_than_may_be():
    header, body = registration("a", "T1", "T2")[0], body_of()
    whole = Remembered(body).cache.last(KEY).size
    cache = BodyCache(3 * whole)
    for number in range(2_000):
        key = BrokerKey("c", "a", f"a:{number}")
        cache.remember(key, header, 479, body, DataVersion(0, 0, 1), 7, topic_count=2, is_applied=True)
        assert cache.size <= 3 * whole
        assert isinstance(cache.last(key).after, bytes)
    assert 2 < len(cache) < 30
    for number in range(2_000):
        cache.forget(BrokerKey("c", "a", f"a:{number}"))
    assert (cache.size, len(cache)) == (0, 0)


@each_case((0, True), (-1, False))
def test_a_quarter_of_the_bytes_may_be_those_of_hashed_bodies(left_over: int, is_kept: bool):
    topics = [f"T{number}" for number in range(200)]
    seen = Remembered(body_of(*topics))
    last = seen.cache.last(KEY)
    hashed_size = len(last.start) + len(last.before)
    cache = BodyCache(4 * hashed_size + left_over)
    assert last.size > 4 * hashed_size
    for _ in range(3):
        remember(cache, seen.header, body_of(*topics))
        assert (len(cache), cache.size) == ((1, hashed_size) if is_kept else (0, 0))


def test_a_body_that_just_fits_is_kept_as_it_is():
    seen = Remembered(body_of())
    cache = BodyCache(seen.cache.last(KEY).size)
    remember(cache, seen.header, body_of())
    assert isinstance(cache.last(KEY).after, bytes)


@each_case(0, 1_000, 100_000)
def test_bodies_that_were_dropped_together_leave_nothing_behind(size_max: int):
    cache = BodyCache(size_max)
    assert (cache.size, cache.clear_count) == (0, 0)
    for count in (1, 2, 3):
        for number in range(20):
            header, body = registration("a", "T1", "T2")[0], body_of()
            key = BrokerKey("c", "a", f"a:{number}")
            cache.remember(key, header, 479, body, DataVersion(0, 0, 1), 7, topic_count=2, is_applied=True)
        cache.clear()
        assert (len(cache), cache.size, cache.clear_count) == (0, 0, count)


def test_a_hashed_body_that_the_table_does_not_hold_is_recognised_under_its_own_version_alone():
    topics = [f"T{number}" for number in range(200)]
    header, body = registration("a", *topics)[0], body_of(*topics)
    cache = BodyCache(len(body) - 1)
    remember(cache, header, body, is_applied=False)
    assert isinstance(cache.last(KEY).after, int)
    assert cache.recognise(KEY, header, 479, body, 7) == Recognition(DataVersion(0, 0, 1), header.body_crc32)
    assert cache.recognise(KEY, header, 479, body_of(*topics, version=2), 7) is None


@each_case(False, True)
def test_what_was_recognised_by_its_difference_is_as_plain_as_the_body_before(was_plain: bool):
    cache, header = BodyCache(), registration("a", "T1", "T2")[0]
    for topic_count in (2 if was_plain else 3, None):
        cache.remember(KEY, header, 479, body_of(), DataVersion(0, 0, 1), 7, topic_count=topic_count, is_applied=True)
    known = cache.recognise(KEY, header, 479, body_of("T1", "T2", "T3", version=2), 7)
    assert (known is not None) is was_plain
