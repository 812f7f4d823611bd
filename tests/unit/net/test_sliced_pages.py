"""Claims about pages that are made in slices, through a server's port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.net.http import HttpResponse, HttpServer, Page
from orbitmq.wire.slices import Slices

pytestmark = pytest.mark.real

GET = b"GET /slow HTTP/1.1\r\n\r\n"


class Work:
    """A page of some slices; notes when each of them was made."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.made: list[str] = []
        self._count = count
        self._error = error

    def page(self, query: Mapping[str, str]) -> Slices[HttpResponse]:
        for _ in range(self._count):
            self.made.append(query.get("who", ""))
            yield
        if self._error is not None:
            raise self._error
        return HttpResponse(f"made {self._count}".encode())


async def asked(work: Work, ask: Callable[[str, int], object]) -> object:
    server = HttpServer({"/slow": Page(work.page, ("who",))})
    port = await server.start("127.0.0.1", 0)
    try:
        return await ask("127.0.0.1", port)
    finally:
        await server.close()


async def get(host: str, port: int, request: bytes = GET) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_others_have_their_turns_between_two_slices():
    work, turns = Work(50), []

    async def scenario(host, port):
        asking = asyncio.create_task(get(host, port))
        while not asking.done():
            turns.append(len(work.made))
            await asyncio.sleep(0)
        return await asking

    await asked(work, scenario)
    assert {later - earlier for earlier, later in pairwise(turns)} <= {0, 1}
    assert len(set(turns)) > 40


async def test_many_that_ask_share_one_slice_per_turn():
    work = Work(20)

    async def scenario(host, port):
        requests = [f"GET /slow?who={name} HTTP/1.1\r\n\r\n".encode() for name in "abc"]
        return await asyncio.gather(*(get(host, port, request) for request in requests))

    answers = await asked(work, scenario)
    assert all(answer.endswith(b"made 20") for answer in answers)
    assert len(work.made) == 60
    # One after another: the page of the first is ready as early as if it were alone.
    assert [name for name, before in zip(work.made, [None, *work.made], strict=False) if name != before] == [
        *dict.fromkeys(work.made)
    ]


async def test_a_page_without_a_waiter_is_left():
    work = Work(1_000_000)

    async def scenario(host, port):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(GET)
        while not work.made:
            await asyncio.sleep(0)
        writer.transport.abort()
        counts = [0, -1]
        while counts[-1] != counts[-2]:
            await asyncio.sleep(0)
            counts.append(len(work.made))

    await asked(work, scenario)
    assert len(work.made) < 1_000_000


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InvalidArgument("count", 0, "1 or more"), b"400 ", b"count: 0"),
        (RuntimeError("secret"), b"500 ", b"RuntimeError"),
    ],
)
async def test_a_failure_on_the_way_is_answered_and_the_next_page_is_made(error, status, text):
    async def scenario(host, port):
        return [await get(host, port) for _ in range(2)]

    for answer in await asked(Work(2, error), scenario):
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert text in answer
        assert b"secret" not in answer


async def test_a_second_request_behind_the_first_is_not_looked_at():
    work = Work(5)
    answer = await asked(work, lambda host, port: get(host, port, GET + GET))
    assert answer.count(b"HTTP/1.1") == 1
    assert len(work.made) == 5
