"""Claims about topic tables: read in slices they are what one parser makes of the whole, and no slice is large."""

from __future__ import annotations

import zlib
from random import Random
from struct import pack
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from fuzz.mutation import mutate
from orbitmq.errors import HeaderError
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import registration, topic_table
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, parse_body
from orbitmq.wire.bodies.registration import RegisterBrokerBody, decode_registration, encode_registration
from orbitmq.wire.bodies.topic_table import RegisteredTopic
from orbitmq.wire.slices import Slices

TRAPS = ['"},"t":{', '},"t1":{"perm":1', "{", "}", "\\", '"', '"topicConfigTable":{', "}}}}", "é"]
FORMS = {
    "5.x": '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%s,"mappingDataVersion":%s,'
    '"topicConfigTable":%s,"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}',
    "4.x": '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%s,"extra":%s,"topicConfigTable":%s}}',
    "table first": '{"topicConfigSerializeWrapper":{"topicConfigTable":%s,"dataVersion":%s},"filterServerList":["f:1"]}',
    "table alone": '{"dataVersion":%s,"extra":%s,"topicConfigTable":%s}',
    "two tables": '{"topicConfigSerializeWrapper":{"dataVersion":%s,"topicConfigTable":{"x":{}},"topicConfigTable":%s}}',
    "another after": '{"topicConfigSerializeWrapper":{"dataVersion":%s,"topicConfigTable":%s,"topicConfigTable":{}}}',
    "a number after": '{"topicConfigSerializeWrapper":{"dataVersion":%s,"topicConfigTable":%s,"topicConfigTable":0}}',
    "not in the wrapper": '{"topicConfigTable":%s,"topicConfigSerializeWrapper":{"dataVersion":%s}}',
    "in a text": '{"topicConfigSerializeWrapper":{"dataVersion":%s,"a":"\\"topicConfigTable\\":{","topicConfigTable":%s}}',
}
VERSION = '{"counter":7,"stateVersion":0,"timestamp":5}'


def make_body(form: str, table: dict[str, Any], indent: bool) -> bytes:
    parts = FORMS[form].split("%s")
    text = orjson.dumps(table, option=orjson.OPT_INDENT_2 if indent else 0).decode()
    where = next(number for number, part in enumerate(parts) if part.endswith('"topicConfigTable":'))
    if form == "two tables":
        where = 1
    fills = [VERSION] * (len(parts) - 1)
    fills[where] = text
    return "".join(part + fill for part, fill in zip(parts, [*fills, ""], strict=True)).encode()


def counted(slices: Slices[RegisterBrokerBody]) -> tuple[RegisterBrokerBody, int]:
    count = 1
    while True:
        try:
            next(slices)
            count += 1
        except StopIteration as end:
            return end.value, count


def refuse_whole(patch: pytest.MonkeyPatch, whole: bytes) -> None:
    """Leave no way back to the parser of the whole."""

    def parse_rest(what: str, body: bytes, *args: Any, **options: Any) -> Any:
        if body == whole:
            raise HeaderError("the whole at once")
        return parse_body(what, body, *args, **options)

    patch.setattr(registration, "parse_body", parse_rest)


def outcome(body: bytes, version: int) -> RegisterBrokerBody | None:
    try:
        return decode_registration(body, version=version)
    except HeaderError:
        return None


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every body a large one, and every entry a piece."""
    monkeypatch.setattr(registration, "SLICED_SIZE_MIN", 0)
    monkeypatch.setattr(topic_table, "PIECE_SIZE", 1)
    monkeypatch.setattr(registration, "PIECE_SIZE", 1)


names = st.sampled_from(["t", "t1", "%RETRY%g", *TRAPS])
configs = st.fixed_dictionaries(
    {"perm": st.sampled_from([2, 4, 6, 6, 6, "6", None, True])},
    optional={
        "attributes": st.dictionaries(names, names, max_size=2),
        "readQueueNums": st.integers(0, 9),
        "writeQueueNums": st.integers(0, 9),
        "topicSysFlag": st.integers(0, 3),
        "topicName": names,
        "other": st.sampled_from([{"t": {}}, [], [{}, {"a": {}}], {}]),
    },
)
tables = st.dictionaries(names, configs | st.sampled_from([{}, {}, None, [], 1]), max_size=6)


@given(st.sampled_from(list(FORMS)), tables, st.booleans(), st.sampled_from([0, 500]))
def test_a_table_in_slices_is_what_a_parser_of_the_whole_finds(form: str, table: Any, indent: bool, version: int):
    body = make_body(form, table, indent)
    whole = outcome(body, version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "SLICED_SIZE_MIN", 0)
        patch.setattr(topic_table, "PIECE_SIZE", 1)
        assert outcome(body, version) == whole
        refuse_whole(patch, body)
        sliced = outcome(body, version)
        assert sliced is None or sliced == whole


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", [0, 500])
def test_a_table_wherever_it_stands_counts_as_it_would_for_a_parser_of_the_whole(
    form: str, version: int, monkeypatch: pytest.MonkeyPatch
):
    body = make_body(form, {"t1": {"perm": 2}, "t2": {"perm": 4}}, False)
    whole = outcome(body, version)
    monkeypatch.setattr(registration, "SLICED_SIZE_MIN", 0)
    monkeypatch.setattr(topic_table, "PIECE_SIZE", 1)
    assert outcome(body, version) == whole is not None


@pytest.mark.parametrize("form", ["5.x", "4.x", "table alone"])
@pytest.mark.usefixtures("small")
def test_a_table_as_brokers_write_it_is_read_entry_by_entry(form: str, monkeypatch: pytest.MonkeyPatch):
    table: dict[str, dict[str, Any]] = {
        f"t{number}": {"attributes": {"a": "b"}, "perm": number % 7, "x": 1} for number in range(9)
    }
    version, body = 0 if form == "table alone" else 500, make_body(form, table, False)
    refuse_whole(monkeypatch, body)
    slices = registration.read_registration(body, compressed=False, version=version)
    decoded, count = counted(slices)
    assert decoded.topics == {name: RegisteredTopic(16, 16, config["perm"], 0) for name, config in table.items()}
    assert decoded.data_version == DataVersion(0, 5, 7)
    assert count == 9


@pytest.mark.usefixtures("small")
def test_the_compressed_form_is_read_line_by_line():
    def piece(data: bytes) -> bytes:
        return pack(">i", len(data)) + data

    parts = [piece(VERSION.encode()), pack(">i", 3), piece(b"a 4 4 6 X"), piece(b"b 8 8 4 X"), piece(b"c 8 8 4 X")]
    body = zlib.compress(b"".join([*parts, piece(b"[]"), pack(">i", 1), piece(b'{"topic":"a"}')]))
    decoded, count = counted(registration.read_registration(body, compressed=True, version=500))
    assert decoded.topics == {
        "a": RegisteredTopic(4, 4, 6, 0),
        "b": RegisteredTopic(8, 8, 4, 0),
        "c": RegisteredTopic(8, 8, 4, 0),
    }
    assert (decoded.queue_mappings, count) == ({"a": {"topic": "a"}}, 5)


def test_topics_that_are_configured_alike_share_their_numbers():
    topics = decode_registration(encode_registration(DataVersion(), {n: TopicConfig(topic=n) for n in "ab"})).topics
    assert topics["a"] is topics["b"]


LARGE = {f"topic-{number:06}": TopicConfig(topic=f"topic-{number:06}") for number in range(12_000)}


def test_nothing_large_is_parsed_in_one_pass(monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    loads = fastjson.loads

    def measured_loads(data: bytes, **options: Any) -> Any:
        sizes.append(len(data))
        return loads(data, **options)

    monkeypatch.setattr(fastjson, "loads", measured_loads)
    body = encode_registration(DataVersion(), LARGE)
    decoded, count = counted(registration.read_registration(body, compressed=False, version=500))
    assert len(decoded.topics) == len(LARGE)
    assert max(sizes) < 2 * topic_table.PIECE_SIZE
    assert count > len(body) / topic_table.PIECE_SIZE / 2


def test_more_topics_than_any_broker_has_are_refused(monkeypatch: pytest.MonkeyPatch):
    body = encode_registration(DataVersion(), LARGE)
    monkeypatch.setattr(topic_table, "TOPICS_MAX", len(LARGE) - 1)
    with pytest.raises(HeaderError, match="more than 11999"):
        decode_registration(body)


def test_a_count_of_more_compressed_topics_than_any_broker_has_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registration, "TOPICS_MAX", 2)
    version = VERSION.encode()
    body = zlib.compress(pack(">i", len(version)) + version + pack(">i", 3) + bytes(99))
    with pytest.raises(HeaderError, match="3 topics, limit 2"):
        decode_registration(body, compressed=True)


@each_case(
    b'{"a":"' + bytes(DOCUMENT_SIZE_MAX) + b'"}',
    make_body("5.x", {"t": {"x": "y" * DOCUMENT_SIZE_MAX}}, False),
    make_body("5.x", {"t": {}}, False).replace(b'"counter"', b'"x":"%b","counter"' % bytes(10**6)),
)
def test_what_would_be_parsed_in_one_pass_is_bounded(body: bytes):
    with pytest.raises(HeaderError, match="limit 1048576"):
        decode_registration(body)


@pytest.mark.parametrize("seed", range(5))
def test_an_injured_table_in_slices_is_what_a_parser_of_the_whole_finds(seed: int, monkeypatch: pytest.MonkeyPatch):
    random = Random(seed)
    table = {name: {"attributes": {"a": trap}, "perm": 6} for name in ("t", "t1") for trap in TRAPS[:2]}
    bodies = [make_body(form, table, indent) for form in FORMS for indent in (False, True)]
    injured = [(mutate(random.choice(bodies), bodies, random), random.choice((0, 500))) for _ in range(1_000)]
    whole = [outcome(body, version) for body, version in injured]
    monkeypatch.setattr(registration, "SLICED_SIZE_MIN", 0)
    monkeypatch.setattr(topic_table, "PIECE_SIZE", 1)
    for (body, version), expected in zip(injured, whole, strict=True):
        assert outcome(body, version) == expected, body
