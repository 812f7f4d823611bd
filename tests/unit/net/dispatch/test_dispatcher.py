"""Claims about dispatch: whatever happens to a request becomes an answer; and about fast paths."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import Rejected
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import Frame
from waiting import until

from ..support import EchoService, RawClient, handlers, peer_of, request_frame, serving

pytestmark = pytest.mark.real


async def test_an_unknown_code_is_answered_with_3():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(99999, 4)))
        answer = await peer.receive()
        assert (answer.code, answer.remark) == (3, " request type 99999 not supported")
        assert server.counters.unsupported_requests == 1


async def test_a_handler_that_fails_is_answered_with_its_text():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(206, 4)))
        answer = await peer.receive()
        assert (answer.code, answer.remark) == (1, "ZeroDivisionError: by design")
        assert server.counters.failed_requests == 1


async def test_a_refusal_and_a_bad_header_keep_the_line():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(205, 1, ext_fields={"brokerName": "b"})))
        await peer.send(encode_command(Command(205, 2)))
        refused, incomplete = await peer.receive(), await peer.receive()
        assert (refused.code, refused.remark) == (16, "not for you")
        assert incomplete.code == 1
        assert "brokerName" in incomplete.remark
        assert dict(server.counters.refusals) == {(205, 16): 1, (205, 1): 1}


async def test_an_admission_may_refuse_before_the_handler():
    def refuse_all(command, peer):
        raise Rejected(16, "who are you?")

    async with serving(admission=refuse_all) as server, peer_of(server) as peer:
        await peer.send(request_frame("t"))
        assert (await peer.receive()).remark == "who are you?"
        assert server.service.seen == []


async def test_requests_are_counted_by_their_codes_once_each():
    async with serving() as server, peer_of(server) as peer:
        for number in range(3):
            await peer.send(request_frame("t", number))
            await peer.receive()
        await peer.send(encode_command(Command(206, 4)))
        await peer.receive()
        assert dict(server.counters.requests) == {105: 3, 206: 1}


async def test_a_body_that_is_larger_than_its_codes_may_be_is_refused_before_anything_is_read():
    async with serving() as server, peer_of(server) as peer:
        for size in (10, 11):
            await peer.send(encode_command(Command(205, size, ext_fields={"brokerName": "b"}, body=bytes(size))))
        fitting, larger = await peer.receive(), await peer.receive()
        assert fitting.code == 16
        assert (larger.code, larger.remark) == (1, "a body of 11 bytes, at most 10 are read")
        assert server.counters.oversized_requests == 1


def dispatcher_of(bound: Handlers[Any] | None) -> Dispatcher:
    return Dispatcher(bound, EchoService(), name="test", counters=Counters(), clock=lambda: 0)


def answer_code(dispatcher: Dispatcher, command: Command) -> int:
    peer: Any = SimpleNamespace(remote="10.0.0.1:5", pending_count=0)
    reply: Any = dispatcher.answer(command, peer)
    return int(reply.code)


@each_case((Version.V5_3_1, False), (Version.V5_3_1 + 1, True))
def test_only_clients_that_understand_it_are_sent_away(version: int, is_sent_away: bool):
    dispatcher = dispatcher_of(handlers)
    asked = Command(105, version=version, ext_fields={"topic": "t"})
    assert answer_code(dispatcher, asked) == ResponseCode.SUCCESS
    dispatcher.drain()
    assert answer_code(dispatcher, asked) == (ResponseCode.GO_AWAY if is_sent_away else ResponseCode.SUCCESS)


def test_without_handlers_nothing_is_supported():
    assert answer_code(dispatcher_of(None), Command(105)) == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_failures_without_end_do_not_fill_the_log(caplog: pytest.LogCaptureFixture):
    dispatcher = dispatcher_of(handlers)
    with caplog.at_level(logging.ERROR):
        assert {answer_code(dispatcher, Command(206)) for _ in range(40)} == {ResponseCode.SYSTEM_ERROR}
    assert len(caplog.records) == 10 + 2


async def _answered(peer: RawClient, opaque: int) -> bool:
    await peer.send(request_frame("t", opaque))
    return (await peer.receive()).opaque == opaque


class OneAnswer:
    """A fast path that knows one frame."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.learnt: list[int] = []

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        if not data.startswith(self.frame):
            return 0
        answers.append(encode_command(Command(0, 1, 1, body=b"short")))
        return len(self.frame)

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        self.learnt.append(command.opaque)


async def test_a_fast_path_answers_what_it_knows_and_the_handlers_the_rest():
    fast_path = OneAnswer(request_frame("t", 1))
    async with serving(fast_path=fast_path) as server, peer_of(server) as peer:
        await peer.send(request_frame("t", 1) + request_frame("t", 2))
        assert [(await peer.receive()).body for _ in range(2)] == [b"short", b"t"]
        before = server.counters.bytes_received
        await peer.send(request_frame("t", 1)[:5])
        await until(lambda: server.counters.bytes_received > before)
        await peer.send(request_frame("t", 1)[5:])
        assert (await peer.receive()).body == b"short"
        assert await _answered(peer, 7)
        assert fast_path.learnt == [2, 7]


class HeldAnswer(OneAnswer):
    """A fast path that knows one frame, and answers it when the test says so."""

    def __init__(self, frame: bytes) -> None:
        super().__init__(frame)
        self.peers: list[Peer] = []

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        held: list[bytes] = []
        size = super().answer(data, held, connection)
        if size:
            connection.pending_count += 1
            self.peers.append(connection)
        return size


async def test_a_held_answer_is_held_until_it_is_given():
    fast_path = HeldAnswer(request_frame("t", 1))
    async with serving(fast_path=fast_path) as server, peer_of(server) as peer:
        for count in (1, 2):  # one by one: a read that holds both would be split
            await peer.send(fast_path.frame)
            await until(lambda count=count: len(fast_path.peers) == count)
        (connection,) = server.connections
        draining = asyncio.ensure_future(server.drain(60_000))
        for left in (1, 0):
            assert not draining.done()
            fast_path.peers[0].answer_held([encode_command(Command(0, left, FLAG_RESPONSE))])
            assert connection.pending_count == left
            assert (await peer.receive()).opaque == left
        assert await draining


async def test_a_held_answer_to_a_peer_that_left_does_nothing():
    fast_path = HeldAnswer(request_frame("t", 1))
    async with serving(fast_path=fast_path) as server:
        async with peer_of(server) as peer:
            await peer.send(fast_path.frame)
            await until(lambda: fast_path.peers)
        await until(lambda: not server.connections)
        fast_path.peers[0].answer_held([b"late"])
        assert server.counters.bytes_sent == 0
