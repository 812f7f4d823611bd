"""Headers without their opaque: only what means the same with any other opaque may be remembered."""

from __future__ import annotations

import pytest

from orbitmq.wire.command import FLAG_ONEWAY, Command, SerializeType, decode_command, encode_command, encode_response
from orbitmq.wire.frame import Frame, FrameDecoder
from orbitmq.wire.header_text import PROBE, TEXT_SIZE_MAX, cut_answer, is_plain_opaque, split_header


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def split(header: bytes) -> tuple[bytes, bytes] | None:
    frame = Frame(0, header, b"")
    return split_header(frame, decode_command(frame))


@pytest.mark.parametrize("digits", [b"0", b"7", b"10", b"999999999"])
def test_a_natural_number_of_nine_digits_is_taken_from_its_text(digits: bytes) -> None:
    assert is_plain_opaque(digits)


@pytest.mark.parametrize("digits", [b"", b"-1", b"01", b"00", b"1.0", b" 1", b"1234567890"])
def test_any_other_number_is_not(digits: bytes) -> None:
    assert not is_plain_opaque(digits)


def test_a_header_is_what_stands_before_and_behind_its_opaque() -> None:
    assert split(b'{"code":105,"opaque":7,"version":1}') == (b'{"code":105,', b',"version":1}')
    whole = frame_of(encode_command(Command(105, 42, ext_fields={"topic": "t"})))
    before, after = split_header(whole, decode_command(whole)) or (b"", b"")
    assert before + b'"opaque":42' + after == whole.header


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":105,"version":1}',
        b'{"code":105,"opaque":7,"opaque":7,"version":1}',
        b'{"code":105,"opaque":7}',
        b'{"code":105,"opaque":"7","version":1}',
        b'{"code":105,"opaque": 7,"version":1}',
        b'{"code":105,"extFields":{"opaque":"x","a":"b"},"version":1}',
        b'{"code":105,"opaque":7,"flag":2,"version":1}',
    ],
    ids=["none", "two", "at the end", "a text", "a blank", "an ext field", "one-way"],
)
def test_a_header_that_could_mean_something_else_is_not_remembered(header: bytes) -> None:
    assert split(header) is None


def test_the_word_inside_a_text_is_no_opaque() -> None:
    header = b'{"code":105,"remark":"\\"opaque\\":7","opaque":8,"version":1}'
    assert split(header) == (b'{"code":105,"remark":"\\"opaque\\":7",', b',"version":1}')


def test_a_binary_header_and_a_one_way_request_are_not_remembered() -> None:
    for command in (Command(105, 7, serialize_type=SerializeType.ROCKETMQ), Command(105, 7, FLAG_ONEWAY)):
        assert split_header(frame_of(encode_command(command)), command) is None


@pytest.mark.parametrize("opaque", [0, 7, 42, 123_456_789])
@pytest.mark.parametrize("body", [b"", b"route"])
def test_a_cut_answer_with_an_opaque_is_the_answer(opaque: int, body: bytes) -> None:
    cut = cut_answer(encode_response(0, PROBE, "fine", {"a": "b"}, body), len(body))
    digits = b"%d" % opaque
    assert cut.prefixes[len(digits)] + digits + cut.rest + body == encode_response(0, opaque, "fine", {"a": "b"}, body)


@pytest.mark.parametrize(("size", "is_kept"), [(TEXT_SIZE_MAX, True), (TEXT_SIZE_MAX + 1, False)])
def test_a_header_that_no_honest_peer_writes_is_too_long_to_be_kept(size: int, is_kept: bool) -> None:
    empty = b'{"code":105,"opaque":7,"remark":"","version":1}'
    header = empty.replace(b'""', b'"%b"' % (b"x" * (size - len(empty))))
    assert len(header) == size
    assert (split(header) is not None) is is_kept
