"""PEEK_MESSAGE and POP_ROLLBACK over a connection."""

from __future__ import annotations

from typing import Any

from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PeekMessage, PopResponse, RollBackPops
from orbitmq.wire.messages.record import iter_records

from ...parts import Serve
from .support import pop


def peek_header(**fields: Any) -> PeekMessage:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": -1, "count_max": 32}
    return PeekMessage(**settings | fields)


async def peek(rig: Any, **fields: Any) -> tuple[int, int, list[bytes]]:
    answer = await rig.ask(peek_header(**fields))
    header = decode_header(PopResponse, answer.ext_fields)
    assert (header.pop_time_ms, header.invisible_ms, header.start_offset_info) == (0, 0, None)
    return answer.code, header.rest_count, [bytes(record.body) for record in iter_records(answer.body)]


async def test_a_peek_shows_what_waits_and_takes_nothing(serve: Serve) -> None:
    async with serve() as rig:
        for body in (b"0", b"1", b"2"):
            await rig.send(body=body)
        assert await peek(rig, count_max=2) == (0, 3, [b"0", b"1"])
        assert await peek(rig, count_max=2**31 - 1) == (0, 3, [b"0", b"1", b"2"])
        await pop(rig, count_max=1)
        assert await peek(rig, queue_id=0) == (0, 2, [b"1", b"2"])
        for count_max in (0, -5):
            assert await peek(rig, count_max=count_max) == (19, 2, [])
        await pop(rig)
        assert await peek(rig) == (19, 0, [])
        assert (await rig.ask(peek_header(topic="nowhere"))).code == 17
        assert (await rig.ask(peek_header(queue_id=4))).code == 29


async def test_nothing_is_there_to_be_rolled_back(serve: Serve) -> None:
    async with serve() as rig:
        answer = await rig.ask(RollBackPops())
        assert (answer.code, answer.body) == (0, b"")
