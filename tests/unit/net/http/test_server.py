import asyncio

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.net.http import server as module
from orbitmq.net.http.page import Answer
from orbitmq.net.http.server import HttpServer


def refuse(query):
    raise InvalidArgument("limit", query["limit"], "1 to 10")


def fail(_query):
    raise RuntimeError("secret")


PAGES = {
    "/healthz": lambda _: Answer(b"fine\n"),
    "/echo": lambda query: Answer(repr(query).encode()),
    "/bad": refuse,
    "/fail": fail,
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


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nope HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"GET /healthz SPDY/3\r\n\r\n", 400),
        (b"\xff\xfe\r\n\r\n", 400),
        (b"GET /bad?limit=99 HTTP/1.1\r\n\r\n", 400),
        (b"GET /echo?" + b"&".join(b"a=%d" % n for n in range(50)) + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * module.REQUEST_SIZE_MAX, 400),
        (b"GET /fail HTTP/1.1\r\n\r\n", 500),
    ],
)
def test_a_bad_request_is_refused(request_bytes, status):
    answer = ask(request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"secret" not in answer


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
