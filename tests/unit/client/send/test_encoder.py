from types import SimpleNamespace
from typing import Any

from orbitmq.client.send.encoder import MessageEncoder
from orbitmq.client.send.request import COMPRESS_OVER, SendKind
from orbitmq.model.message import Message, SysFlag
from orbitmq.wire.messages.properties import parse_properties


def encoder_of(ip="127.0.0.1", **settings):
    session: Any = SimpleNamespace(ip=ip)
    return MessageEncoder(session, **settings)


def test_every_message_gets_an_id_of_its_own():
    encoder = encoder_of()
    assert len({encoder.encode(Message("t", b"")).message_id for _ in range(100)}) == 100


def test_the_ids_of_an_open_client_name_its_address():
    encoder = encoder_of()
    encoder._session.ip = "10.0.0.1"  # it is known when the session opens
    assert encoder.encode(Message("t", b"")).message_id.startswith("0A000001")


def test_large_bodies_are_compressed():
    def is_compressed(encoded):
        return bool(encoded.sys_flag & SysFlag.COMPRESSED)

    body = bytes(COMPRESS_OVER + 1)
    assert is_compressed(encoder_of().encode(Message("t", body)))
    assert not is_compressed(encoder_of().encode(Message("t", body[1:])))
    assert not is_compressed(encoder_of().encode(Message("t", body), compress_over=len(body)))
    assert is_compressed(encoder_of(compress_over=99).encode(Message("t", body[:100])))


def test_requests_and_halves_are_marked():
    encoder = encoder_of()
    request = encoder.encode(Message("t", b""), {"CORRELATION_ID": "7"})
    assert request.kind is SendKind.REQUEST
    assert parse_properties(request.properties)["CORRELATION_ID"] == "7"
    assert encoder.encode(Message("t", b""), half_of="g").kind is SendKind.HALF
