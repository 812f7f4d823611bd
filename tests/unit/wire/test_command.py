from contextlib import suppress
from itertools import product

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import FrameError
from orbitmq.wire.command import FLAG_RESPONSE, Command, SerializeType, decode_command, encode_command, encode_response
from orbitmq.wire.frame import Frame, FrameDecoder

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
commands = st.builds(
    Command,
    code=st.integers(0, 32767),
    opaque=st.integers(-(2**31), 2**31 - 1),
    flag=st.integers(0, 3),
    remark=st.none() | words,
    ext_fields=st.none() | st.dictionaries(words, words, min_size=1, max_size=6),
    body=st.binary(max_size=100),
    language=st.sampled_from(["JAVA", "PYTHON", "GO"]),
    version=st.integers(0, 500),
    serialize_type=st.sampled_from(SerializeType),
)


def round_trip(command: Command) -> Command:
    (frame,) = FrameDecoder().feed(encode_command(command))
    return decode_command(frame)


def json_frame(**header: object) -> Frame:
    return Frame(0, orjson.dumps({"code": 105, **header}), b"")


@given(commands)
def test_commands_round_trip_in_both_header_forms(command):
    assert round_trip(command) == command


def test_json_keys_stand_in_the_order_that_java_writes():
    frame = encode_command(Command(105, 7, ext_fields={"topic": "t"}, remark="r"))
    header = frame[8:].decode()
    assert header == (
        '{"code":105,"extFields":{"topic":"t"},"flag":0,"language":"PYTHON","opaque":7,"remark":"r",'
        '"serializeTypeCurrentRPC":"JSON","version":479}'
    )


def test_unusual_types_in_a_json_header_are_coerced_as_fastjson_does():
    command = decode_command(json_frame(opaque="12", extFields={"a": 1, "b": True, "c": None}, remark=5))
    assert command.opaque == 12
    assert command.ext_fields == {"a": "1", "b": "true"}
    assert command.remark == "5"
    command = decode_command(json_frame(opaque="12", extFields={"a": "text"}, remark="why", language="GO"))
    assert (command.ext_fields, command.remark, command.language) == ({"a": "text"}, "why", "GO")


@each_case(
    b"",
    b"[]",
    b"{}",
    b'{"code":null}',
    b'{"code":1,"extFields":[1]}',
    b'{"code":1,"opaque":4294967296}',
    b"\xff\xfe",
    b"{" * 100_000,
)
def test_a_header_that_is_no_json_command_is_refused(header):
    with pytest.raises(FrameError):
        decode_command(Frame(0, header, b""))


@given(commands.map(lambda command: command._replace(serialize_type=SerializeType.ROCKETMQ)), st.data())
def test_a_binary_header_cut_anywhere_is_refused(command, data):
    (frame,) = FrameDecoder().feed(encode_command(command))
    cut = data.draw(st.integers(0, len(frame.header) - 1))
    with pytest.raises(FrameError):
        decode_command(frame._replace(header=frame.header[:cut]))


def test_issue_3474_a_bogus_length_in_a_binary_header_is_refused_before_it_is_allocated():
    header = bytearray(encode_command(Command(1, serialize_type=SerializeType.ROCKETMQ))[8:])
    header[13:17] = b"\x7f\xff\xff\xff"
    with pytest.raises(FrameError, match="2147483647"):
        decode_command(Frame(1, bytes(header), b""))


@given(st.binary(max_size=200), st.integers(0, 1))
def test_any_bytes_as_header_give_a_command_or_a_frame_error(header, serialize_type):
    with suppress(FrameError):
        command = decode_command(Frame(serialize_type, header, b""))
        assert isinstance(command.code, int)
        assert all(isinstance(value, str) for value in (command.ext_fields or {}).values())


@each_case(2**31 - 1, -(2**31))
def test_the_ends_of_32_bits_are_codes_and_opaques(number):
    command = decode_command(json_frame(code=number, opaque=number))
    assert (command.code, command.opaque) == (number, number)
    command = decode_command(json_frame(code=str(number), opaque=str(number), flag=1, version=2))
    assert (command.code, command.opaque, command.flag, command.version) == (number, number, 1, 2)


@each_case(*product(["code", "opaque"], [2**31, -(2**31) - 1]))
def test_more_than_32_bits_are_no_code_and_no_opaque(name, number):
    for written in (number, str(number)):
        with pytest.raises(FrameError, match="32-bit range"):
            decode_command(json_frame(**{name: written}))


def test_what_a_json_header_leaves_out_is_zero_or_nothing():
    for header in (b'{"code":7}', b'{"code":"7"}'):
        command = decode_command(Frame(0, header, b"body"))
        assert command == Command(7, 0, 0, None, None, b"body", "OTHER", 0, SerializeType.JSON)


def test_true_is_no_number():
    """To Python it is one; a header that says so never means a code."""
    assert decode_command(json_frame(flag=True)).flag == 1  # as fastjson coerces it
    assert type(decode_command(json_frame(flag=True)).flag) is int


@each_case(*product(SerializeType, [None, "why"], [None, {"a": "b"}], [b"", b"body"]))
def test_a_response_is_the_command_with_the_response_flag(serialize_type, remark, fields, body):
    whole = encode_command(Command(17, 7, FLAG_RESPONSE, remark, fields, body, serialize_type=serialize_type))
    assert encode_response(17, 7, remark, fields, body, serialize_type) == whole


@each_case((0, False, False), (1, True, False), (2, False, True))
def test_the_flag_tells_requests_responses_and_one_way_requests_apart(flag, is_response, is_oneway):
    command = Command(1, flag=flag)
    assert (command.is_response, command.is_oneway) == (is_response, is_oneway)


def test_an_unknown_language_is_other():
    assert round_trip(Command(1, language="COBOL", serialize_type=SerializeType.ROCKETMQ)).language == "OTHER"
    assert round_trip(Command(1, language="COBOL")).language == "COBOL"


def test_bytes_behind_a_binary_header_are_refused():
    header = encode_command(Command(1, ext_fields={"a": "b"}, serialize_type=SerializeType.ROCKETMQ))[8:]
    assert decode_command(Frame(1, header, b"")).ext_fields == {"a": "b"}
    with pytest.raises(FrameError, match="2 bytes after the binary header's end"):
        decode_command(Frame(1, header + b"xy", b""))
