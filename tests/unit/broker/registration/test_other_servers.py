"""The list of NameServers in a file or at an address server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration.other_servers import NameServers
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
