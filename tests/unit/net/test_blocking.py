"""Claims about the blocking connection: the same session for code without an event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cases import each_case
from orbitmq.errors import ConnectionFailed, RequestTimeout
from orbitmq.net import blocking
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.security.tls import ServerTls, TlsFiles, TlsMode, client_context
from orbitmq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.headers import GetClusterInfo, GetRouteInfo, GetTopicsByCluster
from orbitmq.wire.signature import Credentials, is_signed_by

from .certificates import Authority
from .support import serving

pytestmark = pytest.mark.real


@contextmanager
def scripted(script: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection with `script` on a thread; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                script(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


def read_commands(connection: socket.socket, count: int) -> list[Command]:
    decoder, found = FrameDecoder(), []
    while len(found) < count:
        data = connection.recv(65536)
        assert data, "the client left"
        found += [decode_command(frame) for frame in decoder.feed(data)]
    return found


async def test_requests_are_answered_one_by_one_or_pipelined():
    def use(address: str) -> list[bytes]:
        with BlockingConnection(address) as connection:
            one = connection.request(GetRouteInfo(topic="one")).body
            asked = [connection.send(GetRouteInfo(topic=f"p{number}")) for number in range(3)]
            last = connection.receive(asked[2]).body
            return [one, last, connection.receive().body, connection.receive().body]

    async with serving() as server:
        assert await asyncio.to_thread(use, server.address) == [b"one", b"p2", b"p0", b"p1"]


@each_case(1, 3000, 65_536, 1 << 22)
def test_small_and_large_answers_are_read_whole_however_they_arrive(slice_size):
    sizes = [5, 70_000, 65_500, 0, 1 << 20, 3, 1_200_000, 66_000, 7, 150_001] if slice_size > 1 else [5, 70_000, 3]
    # What stands within a body may look like the size of a large frame.
    bodies = [(b"\0\2\0\2" * (size // 4 + 1))[number % 2 : size] for number, size in enumerate(sizes)]

    def answer(connection: socket.socket) -> None:
        asked = read_commands(connection, len(bodies))
        answers = zip(asked, bodies, strict=True)
        data = b"".join(encode_command(Command(0, one.opaque, FLAG_RESPONSE, body=body)) for one, body in answers)
        for start in range(0, len(data), slice_size):
            connection.sendall(data[start : start + slice_size])

    with scripted(answer) as address, BlockingConnection(address) as connection:
        for _ in bodies:
            connection.send(GetClusterInfo())
        assert [connection.receive().body for _ in bodies] == bodies


@each_case(1000, 65_536, 1 << 22)
def test_large_answers_are_read_into_the_memory_that_is_given_for_them(slice_size):
    sizes = [5, 70_000, 65_500, 0, 1 << 20, 3, 1_200_000, 66_000, 7, 150_001]
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    given: dict[int, bytearray] = {}

    def answer(connection: socket.socket) -> None:
        asked = read_commands(connection, len(bodies))
        answers = zip(asked, bodies, strict=True)
        data = b"".join(encode_command(Command(0, one.opaque, FLAG_RESPONSE, body=body)) for one, body in answers)
        for start in range(0, len(data), slice_size):
            connection.sendall(data[start : start + slice_size])

    def place(opaque: int, size: int) -> memoryview | None:
        if opaque % 3 == 0:
            return None
        given[opaque] = bytearray(size)
        return memoryview(given[opaque])

    with scripted(answer) as address, BlockingConnection(address) as connection:
        asked = [connection.send(GetClusterInfo()) for _ in bodies]
        received = [connection.receive(place=place).body for _ in bodies]

    assert {bodies.index(body) for body in given.values()} >= {4, 7}, "the large ones"
    for number, opaque in enumerate(asked):
        assert (received[number] or given.get(opaque, b"")) == bodies[number]
        assert not (received[number] and opaque in given)


def test_a_large_answer_that_comes_in_two_parts_with_a_time_out_between_does_no_harm():
    may_go_on = threading.Event()

    def answer_slowly(connection: socket.socket) -> None:
        (first,) = read_commands(connection, 1)
        late = encode_command(Command(0, first.opaque, FLAG_RESPONSE, body=bytes(200_000)))
        connection.sendall(late[:100_000])
        may_go_on.wait()
        connection.sendall(late[100_000:])
        (second,) = read_commands(connection, 1)
        connection.sendall(encode_command(Command(0, second.opaque, FLAG_RESPONSE, body=b"in time")))
        connection.recv(1)

    with scripted(answer_slowly) as address, BlockingConnection(address, timeout_ms=50) as connection:
        with pytest.raises(RequestTimeout):
            connection.request(GetClusterInfo())
        connection._timeout_ms = 10_000
        may_go_on.set()
        assert connection.request(GetClusterInfo()).body == b"in time"


def test_no_answer_in_time_is_an_error_and_a_late_one_does_no_harm():
    may_answer = threading.Event()

    def answer_late(connection: socket.socket) -> None:
        (first,) = read_commands(connection, 1)
        may_answer.wait()
        connection.sendall(encode_command(Command(0, first.opaque, FLAG_RESPONSE, body=b"late")))
        (second,) = read_commands(connection, 1)
        connection.sendall(encode_command(Command(0, second.opaque, FLAG_RESPONSE, body=b"in time")))
        connection.recv(1)

    with scripted(answer_late) as address, BlockingConnection(address, timeout_ms=50) as connection:
        with pytest.raises(RequestTimeout, match=address):
            connection.request(GetClusterInfo())
        may_answer.set()
        connection._timeout_ms = 5000
        assert connection.request(GetClusterInfo()).body == b"in time"
        assert connection._answers == {}, "the late one is not kept"


def test_what_was_answered_before_a_time_out_is_still_received_and_the_rest_is_given_up():
    is_answered, may_end = threading.Event(), threading.Event()

    def answer_the_second(connection: socket.socket) -> None:
        connection.sendall(encode_command(Command(0, 1, FLAG_RESPONSE, body=b"here")))
        is_answered.set()
        may_end.wait()

    with scripted(answer_the_second) as address, BlockingConnection(address, timeout_ms=50) as connection:
        try:
            asked = [connection.send(GetClusterInfo()) for _ in range(3)]
            assert asked == [0, 1, 2]
            is_answered.wait()
            with pytest.raises(RequestTimeout, match="did not answer within 50 ms"):
                connection.receive(0)
            for given_up in (0, 2):
                with pytest.raises(RequestTimeout, match=f"request {given_up} .* not open"):
                    connection.receive(given_up)
            assert connection.receive().body == b"here"
            with pytest.raises(RequestTimeout, match="not open"):
                connection.receive(1)
        finally:
            may_end.set()


def test_a_server_that_closes_is_an_error():
    with scripted(lambda connection: None) as address, BlockingConnection(address) as connection:
        with pytest.raises(ConnectionFailed, match=address):
            connection.request(GetClusterInfo())


def test_garbage_is_an_error():
    with scripted(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad")) as address:
        with BlockingConnection(address) as connection, pytest.raises(ConnectionFailed, match="frame of"):
            connection.request(GetClusterInfo())


def test_a_missing_listener_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionFailed, match="cannot connect"):
            BlockingConnection(f"127.0.0.1:{taken.getsockname()[1]}")


def test_a_server_that_asks_is_told_that_there_is_no_handler():
    asked_back: list[Command] = []

    def ask_back(connection: socket.socket) -> None:
        (request,) = read_commands(connection, 1)
        connection.sendall(encode_command(Command(40, 5)) + encode_command(Command(0, request.opaque, FLAG_RESPONSE)))
        answer, _ = read_commands(connection, 2)
        asked_back.append(answer)
        connection.sendall(encode_command(Command(0, request.opaque + 1, FLAG_RESPONSE)))

    with scripted(ask_back) as address, BlockingConnection(address) as connection:
        connection.send_oneway(GetRouteInfo(topic="t"))
        connection._session.take_out()
        connection._session._next_opaque = 0
        connection.request(GetClusterInfo())
        connection.request(GetClusterInfo())
    assert [(answer.code, answer.opaque) for answer in asked_back] == [(3, 5)]


def guarded_echo(files: TlsFiles, seen: list[Command]) -> dict[str, object]:
    """Return the options of a server that speaks TLS only and keeps the requests it is asked."""
    return {"tls": ServerTls(TlsMode.ENFORCING, files), "admission": lambda command, _peer: seen.append(command)}


async def test_requests_are_signed_and_encrypted_where_that_is_wanted(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    seen: list[Command] = []

    def use(address: str) -> list[bytes]:
        credentials, context = Credentials("me", "my secret"), client_context(files)
        with BlockingConnection(address, credentials=credentials, tls=context) as connection:
            connection.send_oneway(GetRouteInfo(topic="one way"))
            sizes = ("3000000", "0", "70000")  # longer than what TLS hands over in one call
            asked = [connection.send(GetTopicsByCluster(cluster=size)) for size in sizes]
            return [connection.receive(opaque).body for opaque in asked]

    async with serving(**guarded_echo(files, seen)) as server:
        assert list(map(len, await asyncio.to_thread(use, server.address))) == [3_000_000, 0, 70_000]
    assert [is_signed_by(command.ext_fields or {}, command.body, "my secret") for command in seen] == [True] * 4


async def test_a_certificate_that_is_not_trusted_and_a_server_without_tls_are_errors(tmp_path: Path):
    (tmp_path / "other").mkdir()
    ours, others = Authority(tmp_path).issue("server"), Authority(tmp_path / "other").issue("server")

    def fail(address: str, match: str) -> None:
        with pytest.raises(ConnectionFailed, match=match):
            BlockingConnection(address, tls=client_context(ours))

    async with serving(**guarded_echo(others, [])) as server:
        await asyncio.to_thread(fail, server.address, "certificate verify failed")
    async with serving() as server:
        await asyncio.to_thread(fail, server.address, "cannot connect")


def test_a_handshake_that_never_ends_is_an_error(tmp_path: Path):
    context = client_context(Authority(tmp_path).issue("server"))
    may_end = threading.Event()
    with scripted(lambda connection: may_end.wait() and None) as address:
        with pytest.raises(ConnectionFailed, match="timed out"):
            BlockingConnection(address, timeout_ms=50, tls=context)
        may_end.set()


def test_an_answer_that_dribbles_in_has_the_same_time_as_any_other():
    is_over = threading.Event()

    def dribble(connection: socket.socket) -> None:
        (request,) = read_commands(connection, 1)
        frame = encode_command(Command(0, request.opaque, FLAG_RESPONSE, body=bytes(1000)))
        for byte in frame:
            if is_over.wait(0.01):
                break
            connection.sendall(bytes([byte]))

    with scripted(dribble) as address, BlockingConnection(address, timeout_ms=100) as connection:
        try:
            with pytest.raises(RequestTimeout):
                connection.request(GetClusterInfo())
        finally:
            is_over.set()


def test_a_peer_that_has_left_is_told_at_the_flush():
    has_left = threading.Event()

    def leave(connection: socket.socket) -> None:
        connection.close()
        has_left.set()

    with scripted(leave) as address, BlockingConnection(address) as connection:
        has_left.wait()
        connection.flush()  # nothing to write, nothing to notice
        connection.send(GetClusterInfo(), bytes(15_000_000))
        with pytest.raises(ConnectionFailed, match=f"the connection to {address} broke"):
            connection.flush()


def test_a_peer_that_does_not_read_is_given_up():
    may_end = threading.Event()
    with scripted(lambda connection: may_end.wait() and None) as address:
        with BlockingConnection(address, timeout_ms=50) as connection:
            connection.send(GetClusterInfo(), bytes(15_000_000))
            try:
                with pytest.raises(ConnectionFailed, match="timed out"):
                    connection.flush()
            finally:
                may_end.set()


def test_a_connection_that_broke_is_closed_immediately():
    has_seen_the_end = threading.Event()

    def send_garbage(connection: socket.socket) -> None:
        connection.sendall(b"\xff" * 8)
        read_commands(connection, 1)
        if not connection.recv(1):
            has_seen_the_end.set()

    with scripted(send_garbage) as address, BlockingConnection(address) as connection:
        with pytest.raises(ConnectionFailed):
            connection.request(GetClusterInfo())
        has_seen_the_end.wait()


def test_small_requests_do_not_wait_for_each_others_acknowledgement():
    with scripted(lambda connection: None) as address, BlockingConnection(address) as connection:
        assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_writing_has_the_whole_time_however_little_the_last_read_had_left(monkeypatch: pytest.MonkeyPatch):
    is_answered, may_end = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(encode_command(Command(0, 0, FLAG_RESPONSE)))
        is_answered.set()
        may_end.wait()

    with scripted(answer) as address, BlockingConnection(address, timeout_ms=5000) as connection:
        try:
            times = iter([100.0, 104.75])  # when `receive` begins, and when it reads
            monkeypatch.setattr(blocking, "time", SimpleNamespace(monotonic=lambda: next(times)))
            is_answered.wait()
            connection.request(GetClusterInfo())
            assert connection._socket.gettimeout() == 0.25
            connection.send(GetClusterInfo())
            connection.flush()
            assert connection._socket.gettimeout() == 5
        finally:
            may_end.set()
