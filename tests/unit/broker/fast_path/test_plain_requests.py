from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path.plain_requests import Patterns, plain_requests
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import HEADER_SIZE_MAX, FrameDecoder

from .support import request_frame

GOOD: dict[str, Any] = {"code": 37, "extFields": {"a": "1"}, "flag": 0, "language": "JAVA", "opaque": 7, "version": 479}


def one(**changes: Any) -> bytes:
    document = {**GOOD, **changes}
    return request_frame(orjson.dumps({name: value for name, value in document.items() if value != "left out"}))


def test_requests_are_read_one_after_another() -> None:
    first, second = one(), one(opaque=-(2**31), extFields={})
    assert list(plain_requests(first + second, 37)) == [
        ({"a": "1"}, 7, len(first)),
        ({}, -(2**31), len(first) + len(second)),
    ]


def test_a_version_may_be_missing() -> None:
    assert len(list(plain_requests(one(version="left out"), 37))) == 1


LEFT_TO_OTHERS = {
    "another code": one(code=38),
    "a code that is not a number": one(code="37"),
    "a code that is true": one(code=True),
    "a request that nobody answers": one(flag=2),
    "an answer": one(flag=1),
    "a flag that is false": one(flag=False),
    "no flag": one(flag="left out"),
    "no opaque": one(opaque="left out"),
    "an opaque that is text": one(opaque="7"),
    "an opaque that is too great": one(opaque=2**31),
    "an opaque that is too small": one(opaque=-(2**31) - 1),
    "a version that is text": one(version="479"),
    "no fields": one(extFields="left out"),
    "fields that are null": one(extFields=None),
    "fields that are a list": one(extFields=["a"]),
    "a field that is not text": one(extFields={"a": 1}),
    "a body": request_frame(orjson.dumps(GOOD), b"x"),
    "no JSON": request_frame(b"{"),
    "a list": request_frame(b"[]"),
    "a binary header": one()[:4] + b"\1" + one()[5:],
    "a header that goes past its frame": one()[:4] + (len(one()) - 7).to_bytes(4, "big") + one()[8:],
    "a frame that is cut off": one()[:-1],
    "a prefix that is cut off": one()[:7],
    "a prefix alone": one()[:8],
    "a size below 0": (-4).to_bytes(4, "big", signed=True) + one()[4:],
    "a header that is too long": one(extFields={"a": "x" * HEADER_SIZE_MAX}),
    "nothing": b"",
}


@each_case(*LEFT_TO_OTHERS.values())
def test_what_is_not_plain_is_left_to_the_slow_path_alone_and_behind_others(data: bytes) -> None:
    assert list(plain_requests(data, 37)) == []
    assert len(list(plain_requests(one() + data, 37))) == 1


values = st.none() | st.booleans() | st.integers(-(2**32), 2**32) | st.text(max_size=5) | st.just(37)


@given(
    st.dictionaries(st.sampled_from(["code", "opaque", "flag", "version"]), values | st.just(37), max_size=4),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3) | values, max_size=3),
)
def test_what_is_read_is_what_the_slow_path_reads(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    data = one(**changes, extFields=fields)
    for found, opaque, end in plain_requests(data, 37):
        command = decode_command(FrameDecoder().feed(data)[0])
        assert (command.code, command.opaque, command.flag, command.body) == (37, opaque, 0, b"")
        assert (found, end) == (command.ext_fields, len(data))


READ, CHECKED = {"b": r"\d{1,18}", "a": r"x|yy"}, {"c": "true|false"}
FIELDS = {"a": "x", "c": "true", "other": "any word", "b": "12"}


def learnt(*frames: bytes) -> Patterns:
    patterns = Patterns(37, READ, CHECKED)
    for frame in frames:
        assert patterns.read(frame, 0) is None
        patterns.learn(frame, 0, len(frame))
    return patterns


def test_a_pattern_reads_what_is_written_in_the_same_way_with_other_values() -> None:
    patterns = learnt(one(extFields=FIELDS))
    following = one(opaque=0, extFields={**FIELDS, "other": "", "a": "yy", "b": "007"})
    assert patterns.read(b"before" + following + b"behind", 6) == ((b"007", b"yy"), 0, 6 + len(following))


LEFT_TO_THE_PARSER = {
    "a value that is none of those": {"extFields": {**FIELDS, "a": "z"}},
    "a checked value that is none of those": {"extFields": {**FIELDS, "c": "TRUE"}},
    "a number that is long": {"extFields": {**FIELDS, "b": "1" * 19}},
    "a negative number": {"extFields": {**FIELDS, "b": "-1"}},
    "digits that are not ASCII": {"extFields": {**FIELDS, "b": "\u0661"}},
    "a quote": {"extFields": {**FIELDS, "other": 'x"'}},
    "a backslash": {"extFields": {**FIELDS, "other": "\\"}},
    "a control character": {"extFields": {**FIELDS, "other": "\t"}},
    "text that is not ASCII": {"extFields": {**FIELDS, "other": "\xe9"}},
    "a field less": {"extFields": {name: FIELDS[name] for name in ("a", "c", "b")}},
    "another order": {"extFields": dict(reversed(FIELDS.items()))},
    "another version": {"version": 480, "extFields": FIELDS},
    "another flag": {"flag": 2, "extFields": FIELDS},
    "another code": {"code": 38, "extFields": FIELDS},
    "a negative opaque": {"opaque": -1, "extFields": FIELDS},
    "a long opaque": {"opaque": 10**9, "extFields": FIELDS},
}


@each_case(*LEFT_TO_THE_PARSER.values())
def test_what_a_pattern_does_not_know_is_parsed(changes: dict[str, Any]) -> None:
    assert learnt(one(extFields=FIELDS)).read(one(**changes), 0) is None


@each_case(
    orjson.dumps({**GOOD, "extFields": FIELDS}, option=orjson.OPT_INDENT_2),
    orjson.dumps({**GOOD, "extFields": FIELDS}).replace(b'"c":', b'"a":"x","c":'),
    orjson.dumps({**GOOD, "extFields": FIELDS}).replace(b'"opaque":7', b'"opaque":7,"opaque":7'),
    orjson.dumps({**GOOD, "extFields": FIELDS}).replace(b"any word", b"\\u0041"),
    orjson.dumps({**GOOD, "extFields": {"a": "x"}}),
)
def test_no_pattern_is_made_of_a_request_in_another_way(text: bytes) -> None:
    frame = request_frame(text)
    assert len(list(plain_requests(frame, 37))) == 1
    assert learnt(frame).read(frame, 0) is None


def test_few_patterns_are_kept_and_few_are_tried() -> None:
    frames = [one(extFields={**FIELDS, name: "x"}) for name in "defgh"]
    patterns = learnt(*frames)
    assert [patterns.read(frame, 0) is None for frame in frames] == [False, False, False, False, True]
    strange = request_frame(orjson.dumps({**GOOD, "extFields": FIELDS}, option=orjson.OPT_INDENT_2))
    assert learnt(*[strange] * 64, one(extFields=FIELDS)).read(one(extFields=FIELDS), 0) is None


def test_a_pattern_reads_no_frame_that_is_not_whole_and_without_a_body() -> None:
    text = orjson.dumps({**GOOD, "extFields": FIELDS})
    frame = request_frame(text)
    patterns = learnt(frame)
    for other in (
        b"",
        frame[:7],
        frame[:-1],
        request_frame(text, b"x"),
        request_frame(text[:-5], text[-5:]),
        frame[:4] + b"\1" + frame[5:],
    ):
        assert patterns.read(other, 0) is None


BYTES = st.sampled_from(b'"{}:,\\ 019abc\x00\xc3\n')


@given(st.lists(st.tuples(st.integers(0, 200), BYTES), max_size=3), st.binary(max_size=3), st.integers(0, 200))
def test_what_a_pattern_reads_means_the_same_to_a_parser(
    changes: list[tuple[int, int]], inserted: bytes, place: int
) -> None:
    text = bytearray(orjson.dumps({**GOOD, "extFields": FIELDS}))
    patterns = learnt(request_frame(bytes(text)))
    for at, byte in changes:
        text[at % len(text)] = byte
    text[place:place] = inserted
    frame = request_frame(bytes(text))
    read = patterns.read(frame, 0)
    if read is not None:
        ((fields, opaque, frame_end),) = plain_requests(frame, 37)
        assert read == ((fields["b"].encode(), fields["a"].encode()), opaque, frame_end)
