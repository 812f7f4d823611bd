"""Claims about route queries that were seen before: their answers are what the handler would say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.nameserver.fast_path import RouteQueryCache
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.wire.command import FLAG_ONEWAY, Command, decode_command, encode_command
from orbitmq.wire.frame import Frame, FrameDecoder

LINE: Any = SimpleNamespace(counters=Counters())
"""What the cache sees of a connection."""


def frame_of(header: bytes, body: bytes = b"") -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def query(topic: str = "T", opaque: int | str = 1, **options: object) -> bytes:
    """Return a route query's frame, in the order of keys that Java writes."""
    language = options.get("language", "JAVA")
    header = (
        f'{{"code":105,"extFields":{{"topic":"{topic}"}},"flag":0,"language":"{language}","opaque":{opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":479}}'
    )
    return frame_of(header.encode())


def teach(cache: RouteQueryCache, data: bytes, body: bytes = b"route") -> Command:
    (frame,) = FrameDecoder().feed(data)
    command = decode_command(frame)
    cache.learn(frame, command, Reply(body=body))
    return command


def answered(cache: RouteQueryCache, data: bytes) -> tuple[int, list[Command]]:
    pieces: list[bytes] = []
    taken = cache.answer(data, pieces, LINE)
    return taken, [decode_command(frame) for frame in FrameDecoder().feed(b"".join(pieces))]


@pytest.fixture
def cache() -> RouteQueryCache:
    return RouteQueryCache()


def test_a_query_seen_before_is_answered_whatever_its_opaque():
    cache, before = RouteQueryCache(), LINE.counters.requests[105]
    teach(cache, query(opaque=5))
    for opaque in (0, 7, 42, 123_456_789):
        taken, (answer,) = answered(cache, query(opaque=opaque))
        assert taken == len(query(opaque=opaque))
        assert (answer.code, answer.opaque, answer.flag, answer.body) == (0, opaque, 1, b"route")
    assert LINE.counters.requests[105] - before == 4


@pytest.mark.parametrize("opaque", [0, 9, 10, 999, 999_999_999])
def test_a_remembered_answer_is_the_encoded_one_byte_by_byte(opaque: int, cache: RouteQueryCache):
    command = teach(cache, query(opaque=3))
    pieces: list[bytes] = []
    cache.answer(query(opaque=opaque), pieces, LINE)
    assert b"".join(pieces) == encode_reply(command._replace(opaque=opaque), Reply(body=b"route"))


@pytest.mark.parametrize("opaque", ["-1", "1234567890", "007", "1.0", "1e3", '"1"', " 1", "", "+1", "null"])
def test_an_unusual_opaque_is_left_to_the_handler(opaque: str, cache: RouteQueryCache):
    teach(cache, query(opaque=5))
    assert answered(cache, query(opaque=opaque)) == (0, [])


def test_the_first_unknown_frame_ends_the_short_way(cache: RouteQueryCache):
    teach(cache, query("A"))
    data = query("A", 1) + query("A", 2) + query("B", 3) + query("A", 4)
    taken, answers = answered(cache, data)
    assert taken == len(query("A", 1)) * 2
    assert [answer.opaque for answer in answers] == [1, 2]


def test_an_unfinished_frame_waits(cache: RouteQueryCache):
    teach(cache, query())
    data = query(opaque=1) + query(opaque=2)
    for cut in range(1, len(query(opaque=2))):
        taken, answers = answered(cache, data[:-cut])
        assert (taken, len(answers)) == (len(query(opaque=1)), 1)


def test_a_changed_topic_is_forgotten_and_no_other(cache: RouteQueryCache):
    teach(cache, query("A"))
    teach(cache, query("A", language="GO"))
    teach(cache, query("B"))
    cache.forget(["A", "unknown"])
    assert answered(cache, query("A"))[0] == answered(cache, query("A", language="GO"))[0] == 0
    assert answered(cache, query("B"))[0] > 0
    cache.clear()
    assert answered(cache, query("B"))[0] == 0


def test_the_number_of_texts_is_bounded():
    cache = RouteQueryCache(texts_max=2)
    for topic in "ABC":
        teach(cache, query(topic))
    assert [answered(cache, query(topic))[0] > 0 for topic in "ABC"] == [False, True, True]


@pytest.mark.parametrize(
    "command",
    [
        Command(105, 1, FLAG_ONEWAY, ext_fields={"topic": "T"}),
        Command(105, 1, ext_fields={"topic": "T"}, body=b"x"),
        Command(105, 1, ext_fields={"topic": "T"}, serialize_type=1),
        Command(106, 1, ext_fields={"topic": "T"}),
        Command(105, 1),
        Command(105, 1, ext_fields={"topic": "T", "opaque": "7"}),
    ],
    ids=str,
)
def test_what_is_no_plain_route_query_is_not_learnt(command: Command, cache: RouteQueryCache):
    teach(cache, encode_command(command))
    assert len(cache) == 0


def test_a_refusal_is_not_learnt(cache: RouteQueryCache):
    (frame,) = FrameDecoder().feed(query())
    cache.learn(frame, decode_command(frame), Reply(17, "no route"))
    assert len(cache) == 0


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":105,"extFields":{"topic":"T"},"x":{"opaque":0},"flag":0}',
        b'{"code":105,"extFields":{"topic":"T","opaque":0},"flag":0}',
        b'{"code":105,"opaque":0,"extFields":{"topic":"T"},"opaque":0,"flag":0}',
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"opaque":0}',
        b'{"code":105,"extFields":{"topic":"\\"opaque\\":0,"},"flag":0}',
    ],
    ids=str,
)
def test_digits_that_are_not_the_opaque_and_nothing_else_are_not_learnt(header: bytes, cache: RouteQueryCache):
    teach(cache, frame_of(header))
    assert len(cache) == 0


@given(st.binary(max_size=80), st.integers(0, 200))
def test_whatever_arrives_only_what_was_learnt_is_answered(noise: bytes, place: int):
    cache = RouteQueryCache()
    teach(cache, query())
    data = query(opaque=77)
    broken = data[:place] + noise + data[place + len(noise) :]
    taken, answers = answered(cache, broken)
    for frame in FrameDecoder().feed(broken[:taken]):
        command = decode_command(frame)
        assert answers.pop(0).opaque == command.opaque
        assert command._replace(opaque=0) == decode_command(Frame(0, data[8:], b""))._replace(opaque=0)
    assert answers == []


def test_routes_are_kept_up_to_a_number_of_bytes_and_the_oldest_go_first():
    cache = RouteQueryCache(size_max=100)
    for number in range(10):
        teach(cache, query(f"T{number}"), bytes([number]) * 40)
        assert cache.size <= 100
    assert [bool(answered(cache, query(f"T{number}"))[0]) for number in range(10)] == [False] * 8 + [True] * 2
    teach(cache, query("large"), bytes(101))
    assert answered(cache, query("large"))[0] == 0
    assert len(cache) == 2


def test_a_header_of_which_strangers_could_make_many_is_not_kept(cache: RouteQueryCache):
    teach(cache, query("T" * 2_000))
    assert len(cache) == 0


def test_more_topics_than_are_kept_are_forgotten_as_few_are(cache: RouteQueryCache):
    for topic in ("a", "b"):
        teach(cache, query(topic))
    cache.forget([f"other-{number}" for number in range(10)] + ["a"])
    assert [answered(cache, query(topic))[0] > 0 for topic in ("a", "b")] == [False, True]
