"""Claims about a fast path between a connection and its handlers."""

from __future__ import annotations

from orbitmq.net.limits import Limits
from orbitmq.wire.command import Command, encode_command
from waiting import until

from ..support import Peer, peer_of, request_frame, serving


async def _answered(peer: Peer, opaque: int) -> bool:
    await peer.send(request_frame("t", opaque))
    return (await peer.receive()).opaque == opaque


class OneAnswer:
    """A fast path that knows one frame."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.learnt: list[int] = []

    def answer(self, data: bytes, answers: list[bytes], connection: object) -> int:
        if not data.startswith(self.frame):
            return 0
        answers.append(encode_command(Command(0, 1, 1, body=b"short")))
        return len(self.frame)

    def learn(self, frame, command, reply) -> None:
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
        assert (await peer.receive()).body == b"t"
        assert await _answered(peer, 7)
        assert fast_path.learnt == [2, 1, 7]


async def test_questions_answered_from_memory_count_for_the_rate_as_well():
    frame = request_frame("t", 1)
    limits = Limits(requests_per_second_max=20)
    async with serving(limits, fast_path=OneAnswer(frame)) as server, peer_of(server) as peer:
        for _ in range(30):
            await peer.send(frame)
            assert (await peer.receive()).body == b"short"
        assert server.counters.throttled > 0
