"""Claims about a fast path between a connection and its handlers."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.limits import Limits
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import Frame
from waiting import until

from ..support import RawClient, peer_of, request_frame, serving

pytestmark = pytest.mark.real


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


async def test_questions_answered_from_memory_count_for_the_rate_as_well():
    frame = request_frame("t", 1)
    limits = Limits(requests_per_second_max=20)
    async with serving(limits, fast_path=OneAnswer(frame)) as server, peer_of(server) as peer:
        for _ in range(30):
            await peer.send(frame)
            assert (await peer.receive()).body == b"short"
        assert server.counters.throttled > 0


class HeldAnswer(OneAnswer):
    """A fast path that knows one frame, and answers it when the test says so."""

    def __init__(self, frame: bytes) -> None:
        super().__init__(frame)
        self.peers: list[Peer] = []

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        held: list[bytes] = []
        size = super().answer(data, held, connection)
        if size:
            connection.parked_count += 1
            self.peers.append(connection)
        return size


async def test_a_held_answer_is_parked_until_it_is_given():
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
            assert connection.parked_count == left
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
