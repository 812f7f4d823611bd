from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.fast_path.plain_requests import plain_requests
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
    "a code that is no number": one(code="37"),
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
    "a field that is no text": one(extFields={"a": 1}),
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


@pytest.mark.parametrize("data", LEFT_TO_OTHERS.values(), ids=LEFT_TO_OTHERS)
def test_what_is_not_plain_is_left_to_the_long_way_alone_and_behind_others(data: bytes) -> None:
    assert list(plain_requests(data, 37)) == []
    assert len(list(plain_requests(one() + data, 37))) == 1


values = st.none() | st.booleans() | st.integers(-(2**32), 2**32) | st.text(max_size=5) | st.just(37)


@given(
    st.dictionaries(st.sampled_from(["code", "opaque", "flag", "version"]), values | st.just(37), max_size=4),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3) | values, max_size=3),
)
def test_what_is_read_is_what_the_long_way_reads(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    data = one(**changes, extFields=fields)
    for found, opaque, end in plain_requests(data, 37):
        command = decode_command(FrameDecoder().feed(data)[0])
        assert (command.code, command.opaque, command.flag, command.body) == (37, opaque, 0, b"")
        assert (found, end) == (command.ext_fields, len(data))
