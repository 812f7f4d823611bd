"""The list of NameServers in a file or at an address server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration import other_servers
from orbitmq.broker.registration.other_servers import LIST_SIZE_MAX, NameServers
from orbitmq.errors import ConfigError

pytestmark = pytest.mark.real


class FakeRegistrar:
    """Notes the NameServers that it is to register with."""

    def __init__(self) -> None:
        self.name_servers: list[str] = []

    def set_name_servers(self, addresses: Any) -> None:
        self.name_servers = list(addresses)


def reading(source: str) -> tuple[NameServers, FakeRegistrar]:
    registrar: Any = FakeRegistrar()
    return NameServers(registrar, (), source=source), registrar


@contextmanager
def address_server(text: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
        finally:
            server.shutdown()
            thread.join()


async def test_a_list_in_a_file_is_read_again_and_one_that_cannot_be_read_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "name-servers"
    path.write_text("127.0.0.1:1;127.0.0.1:2\n")
    name_servers, registrar = reading(str(path))
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:1", "127.0.0.1:2"]
    path.write_text("127.0.0.1:3")
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:3"]
    for text in (b"a:b:c", b"", b"\xff", None):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_bytes(text)
        await name_servers.look_up()
        assert registrar.name_servers == ["127.0.0.1:3"], text
    assert "the list of NameServers cannot be read, the last one stays in use" in caplog.text


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Yield the URL of a server that writes these bytes to each connection, and closes it."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@each_case(
    b"hello\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n127.0.0.1:1;127.0.0.1:98",
    b"HTTP/1.1 404 Not Found\r\n\r\n127.0.0.1:1",
    b"HTTP/1.1 200 OK\r\n\r\n<html>",
    b"HTTP/1.1 200 OK\r\n\r\nService Unavailable",
    b"HTTP/1.1 200 OK\r\n\r\n" + b"127.0.0.1:1;" * 10_000,
    b"",
)
async def test_an_answer_that_is_not_a_whole_list_changes_nothing(answer: bytes) -> None:
    with raw_server(answer) as url:
        name_servers, registrar = reading(url)
        await name_servers.look_up()
    assert registrar.name_servers == []
    assert name_servers.problem is not None


async def test_a_list_that_is_too_long_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "name-servers"
    path.write_text(f"127.0.0.1:1;{' ' * (LIST_SIZE_MAX - 15)}127.0.0.1:9876")
    name_servers, registrar = reading(str(path))
    await name_servers.look_up()
    assert registrar.name_servers == []


async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "name-servers"
    os.mkfifo(path)
    name_servers, registrar = reading(str(path))
    await name_servers.look_up()
    assert "not a regular file" in (name_servers.problem or "")
    path.unlink()
    path.write_text("127.0.0.1:1")
    await name_servers.look_up()
    assert (registrar.name_servers, name_servers.problem) == (["127.0.0.1:1"], None)


async def test_a_source_that_does_not_answer_has_one_thread_and_keeps_no_look_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(other_servers, "READ_TIMEOUT_S", 0)
    go, count = threading.Event(), 0

    def hang(source: str) -> tuple[str, ...]:
        nonlocal count
        count += 1
        go.wait()
        return ("127.0.0.1:2",)

    monkeypatch.setattr(other_servers, "_read_list", hang)
    registrar: Any = FakeRegistrar()
    name_servers = NameServers(registrar, ["127.0.0.1:1"], source="/lists/one")
    await name_servers.look_up()
    await name_servers.look_up()
    assert (count, registrar.name_servers) == (1, ["127.0.0.1:1"])
    assert "no answer" in (name_servers.problem or "")
    go.set()
    monkeypatch.setattr(other_servers, "READ_TIMEOUT_S", 60)
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:2"]


async def test_a_list_that_was_read_before_counts_until_it_is_read_again() -> None:
    registrar: Any = FakeRegistrar()
    name_servers = NameServers(registrar, ["127.0.0.1:1"], source="/nowhere/at/all")
    await name_servers.start()
    assert registrar.name_servers == ["127.0.0.1:1"]


async def test_names_that_are_looked_up_while_others_are_set_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    registrar: Any = FakeRegistrar()
    name_servers = NameServers(registrar, ["127.0.0.1:1"])

    async def resolve(name: str) -> list[str]:
        name_servers.replace(["127.0.0.1:9"])
        return [name]

    monkeypatch.setattr(other_servers, "resolve", resolve)
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:9"]


async def test_a_list_that_is_set_by_a_request_counts_instead_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "name-servers"
    path.write_text("127.0.0.1:1")
    name_servers, registrar = reading(str(path))
    name_servers.replace(["127.0.0.1:9"])
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:9"]


async def test_a_list_comes_from_an_address_server() -> None:
    with address_server(b"127.0.0.1:1;127.0.0.1:2") as url:
        name_servers, registrar = reading(url)
        await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:1", "127.0.0.1:2"]
    await name_servers.look_up()
    assert registrar.name_servers == ["127.0.0.1:1", "127.0.0.1:2"]


def test_it_is_read_only_where_no_list_is_set() -> None:
    settings = {"fetchNamesrvAddrByAddressServer": "true", "addressServer": "/etc/name-servers"}
    assert BrokerConfig.from_mapping(settings).name_server_source == "/etc/name-servers"
    assert BrokerConfig.from_mapping(settings | {"namesrvAddr": "127.0.0.1:1"}).name_server_source == ""
    with pytest.raises(ConfigError, match="addressServer"):
        BrokerConfig.from_mapping({"fetchNamesrvAddrByAddressServer": "true"})
