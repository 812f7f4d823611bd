"""Claims about replies as frames."""

from __future__ import annotations

from cases import each_case
from orbitmq.net.dispatch.reply import LARGE_BODY_SIZE, Reply, encode_reply, encode_reply_parts
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.headers import GetKvConfigResponse


def decoded(frame: bytes) -> Command:
    (found,) = FrameDecoder().feed(frame)
    return decode_command(found)


@each_case(0, 1)
def test_an_answer_has_the_header_form_of_its_request(serialize_type: int):
    asked = Command(101, 7, serialize_type=serialize_type)
    reply = Reply(header=GetKvConfigResponse(value="v"), ext_fields={"MSG_REGION": "r"}, body=b"b", remark="m")

    answer = decoded(encode_reply(asked, reply))

    assert (answer.serialize_type, answer.opaque, answer.flag) == (serialize_type, 7, 1)
    assert answer.ext_fields == {"MSG_REGION": "r", "value": "v"}
    assert (answer.body, answer.remark, answer.code) == (b"b", "m", 0)


@each_case(0, 1)
def test_a_large_body_is_a_part_of_its_own_and_not_a_copy(serialize_type: int):
    asked = Command(101, 7, serialize_type=serialize_type)
    for size, count in ((LARGE_BODY_SIZE - 1, 1), (LARGE_BODY_SIZE, 2)):
        reply = Reply(body=b"b" * size, remark="m")

        parts = encode_reply_parts(asked, reply)

        assert b"".join(parts) == encode_reply(asked, reply)
        assert len(parts) == count
        assert (parts[-1] is reply.body) == (count == 2)
