"""Claims about the HTTP server: what it answers, and what it does not wait for."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.net import http as module
from orbitmq.net.http import HttpResponse, HttpServer, _HttpConnection
from unit.net.connection.fakes import FakeLoop, FakeTransport

pytestmark = pytest.mark.real


def refuse(query):
    raise InvalidArgument("limit", query["limit"], "1 to 10")


def fail(_query):
    raise RuntimeError("secret")


PAGES = {
    "/healthz": lambda _: HttpResponse(b"fine\n"),
    "/echo": lambda query: HttpResponse(repr(query).encode()),
    "/bad": refuse,
    "/fail": fail,
    "/down": lambda _: HttpResponse(b"starting\n", 503),
}


async def until_the_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def exchange(request: bytes) -> bytes:
    server = HttpServer(PAGES)
    port = await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer
    finally:
        await server.close()


def ask(request: bytes) -> bytes:
    return asyncio.run(exchange(request))


def get(target: str) -> bytes:
    return ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def test_a_page_is_answered_with_its_length_and_the_connection_closes():
    answer = get("/healthz")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 5\r\n" in answer
    assert answer.endswith(b"\r\n\r\nfine\n")


def test_head_has_the_length_but_no_body():
    answer = ask(b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 5\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_query_reaches_its_page():
    assert b"{'topic': 'a b'}" in get("/echo?topic=a%20b")


@each_case(
    (b"GET /nope HTTP/1.1\r\n\r\n", 404),
    (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
    (b"GET /healthz SPDY/3\r\n\r\n", 400),
    (b"\xff\xfe\r\n\r\n", 400),
    (b"GET /bad?limit=99 HTTP/1.1\r\n\r\n", 400),
    (b"GET /down HTTP/1.0\r\n\r\n", 503),
    (b"GET /echo?" + b"&".join(b"a=%d" % n for n in range(33)) + b" HTTP/1.1\r\n\r\n", 400),
    (b"GET /" + b"a" * module.REQUEST_SIZE_MAX, 400),
    (b"GET /fail HTTP/1.1\r\n\r\n", 500),
)
def test_a_bad_request_is_refused(request_bytes, status):
    answer = ask(request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"secret" not in answer
    assert answer.endswith(b"\n"), "the body says why"


def test_the_root_lists_the_pages():
    assert b"/healthz\n" in get("/")


def test_one_connection_too_many_ends_the_oldest(monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)

    async def scenario() -> tuple[bytes, ...]:
        server = HttpServer(PAGES)
        port = await server.start("127.0.0.1", 0)
        opened = []
        for _ in range(3):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(b"GET /healthz")
            await opened[-1][1].drain()
        lost = await until_the_end(opened[0][0])
        for _, writer in opened[1:]:
            writer.write(b" HTTP/1.1\r\n\r\n")
        answers = [await reader.read() for reader, _ in opened[1:]]
        for _, writer in opened:
            writer.close()
        await server.close()
        return lost, *answers

    lost, *answers = asyncio.run(scenario())
    assert lost == b""
    assert all(b"fine" in answer for answer in answers)


def test_a_query_may_have_32_parameters_and_the_root_is_found():
    many = get("/echo?" + "&".join(f"a{number}=b" for number in range(32)))
    assert many.startswith(b"HTTP/1.1 200 OK\r\n")
    assert many.count(b"'b'") == 32
    assert get("/").startswith(b"HTTP/1.1 200 OK\r\n")


class Client:
    """A connection of a server between a loop and a transport that do what the test says."""

    def __init__(self, server: HttpServer) -> None:
        self.loop, self.transport = FakeLoop(), FakeTransport()
        self.connection = _HttpConnection(server, cast(asyncio.AbstractEventLoop, self.loop))
        self.connection.connection_made(cast(asyncio.Transport, self.transport))


def test_a_client_has_its_time_for_the_request_and_as_long_again_for_the_answer():
    slow, gone = Client(HttpServer(PAGES)), Client(HttpServer(PAGES))
    assert [timer.when for timer in slow.loop.waiting] == [50 + 2 * module.REQUEST_MS / 1000]
    slow.loop.fire()
    assert slow.transport.calls == ["abort"]
    gone.connection.connection_lost(None)
    assert gone.loop.waiting == []


def test_a_request_may_arrive_in_pieces_up_to_its_limit():
    client = Client(HttpServer(PAGES))
    start = b"GET /echo?" + b"a" * module.REQUEST_SIZE_MAX
    for piece in (start[: module.REQUEST_SIZE_MAX - 1], b"a"):
        client.connection.data_received(piece)
    assert client.transport.writes == []
    client.connection.data_received(b"a")
    assert client.transport.writes[0].startswith(b"HTTP/1.1 400 ")
    assert client.transport.calls == ["close"]
    client.connection.data_received(b" HTTP/1.1\r\n\r\n")
    assert len(client.transport.writes) == 1


def test_a_request_that_is_too_large_is_refused_also_when_it_is_whole():
    client = Client(HttpServer(PAGES))
    client.connection.data_received(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * module.REQUEST_SIZE_MAX + b"\r\n\r\n")
    assert client.transport.writes[0].startswith(b"HTTP/1.1 400 ")


def test_a_server_forgets_who_has_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)
    server = HttpServer(PAGES)
    first, second = Client(server), Client(server)
    first.connection.connection_lost(None)
    third, fourth = Client(server), Client(server)
    ends = [client.transport.calls for client in (first, second, third, fourth)]
    assert ends == [[], ["abort"], [], []], "two are open: the second is the oldest of three"


@pytest.mark.parametrize(("descriptors", "open_count"), [(0, 20), (16, 2), (64, 4), (1_000_000, 20)])
def test_connections_leave_most_descriptors_to_others(
    descriptors: int, open_count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "descriptor_limit", lambda: descriptors)
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 20)
    server = HttpServer(PAGES)
    clients = [Client(server) for _ in range(30)]
    assert [client.transport.calls for client in clients] == [["abort"]] * (30 - open_count) + [[]] * open_count


async def test_no_more_connections_wait_to_be_accepted_than_may_be_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "descriptor_limit", lambda: 64)
    loop, asked = asyncio.get_running_loop(), {}
    create_server = loop.create_server

    def create(*args, **options):
        asked.update(options)
        return create_server(*args, **options)

    monkeypatch.setattr(loop, "create_server", create)
    server = HttpServer(PAGES)
    await server.start("127.0.0.1", 0)
    await server.close()
    assert asked["backlog"] == 4


async def test_closing_drops_every_connection_and_accepts_no_new_connection():
    server = HttpServer(PAGES)
    port = await server.start("127.0.0.1", 0)
    assert server.address == f"127.0.0.1:{port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    await reader.read()
    silent_reader, silent = await asyncio.open_connection("127.0.0.1", port)
    silent.write(b"GET /")
    other_reader, other = await asyncio.open_connection("127.0.0.1", port)
    other.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    await other_reader.read()  # the silent one was accepted before
    await server.close()
    assert await until_the_end(silent_reader) == b""
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    for one in (writer, silent, other):
        one.close()
