"""Claims about a broker's NameServers while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration import name_servers
from orbitmq.nameserver import NameServer, NameServerConfig
from waiting import until

pytestmark = pytest.mark.real


@asynccontextmanager
async def name_server(host: str, port: int = 0) -> AsyncIterator[NameServer]:
    server = NameServer(NameServerConfig(bind_address=host, listen_port=port))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def test_a_broker_follows_the_name_of_its_name_server_2042(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    meaning, failures = "127.0.0.1", 0
    real = asyncio.get_running_loop().getaddrinfo

    async def getaddrinfo(host: str, port: int, **kwargs: Any) -> list[Any]:
        nonlocal failures
        if host == "ns.example" and not meaning:
            failures += 1
            raise OSError("the name service is down")
        return await real(meaning if host == "ns.example" else host, port, **kwargs)

    monkeypatch.setattr(name_servers, "LOOK_UP_MS", 10)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    async with name_server("127.0.0.1") as first:
        port = int(first.address.partition(":")[2])
        async with name_server("127.0.0.2", port) as second:
            broker = Broker(
                BrokerConfig(
                    broker_name="a",
                    bind_address="127.0.0.1",
                    listen_port=0,
                    namesrv_addr=f"ns.example:{port}",
                    store_path_root_dir=tmp_path,
                    mapped_file_size_commit_log=4 * 1024 * 1024,
                )
            )
            await broker.start()
            try:
                assert first.service.tables.broker_count == 1
                meaning = ""
                await until(lambda: failures > 1)
                assert broker.running.registrar.name_servers == (f"127.0.0.1:{port}",)
                meaning = "127.0.0.2"
                await until(lambda: second.service.tables.broker_count == 1)
                assert broker.running.registrar.name_servers == (f"127.0.0.2:{port}",)
            finally:
                await broker.stop()
