from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.admin.controllers import Controllers
from orbitmq.broker.registration.addresses import reserved_port
from orbitmq.errors import ClientError
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.with_controller import NameServerWithController, controller_config
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import GetAllTopics
from waiting import until

pytestmark = pytest.mark.real


async def test_both_serve_and_both_stop(tmp_path: Path) -> None:
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json",
        config_store_path=tmp_path / "namesrv.conf", enable_controller_in_namesrv=True,
    )  # fmt: skip
    with reserved_port("127.0.0.1", 0, has_vip=False) as port:
        properties = {
            "controllerDLegerPeers": f"n0-127.0.0.1:{port}", "controllerStorePath": f"{tmp_path / 'controller'}",
            "aclFile": f"{tmp_path / 'accounts.json'}", "listenPort": "9876", "metricsPort": "0",
        }  # fmt: skip
        own = controller_config(config, properties)
        both = NameServerWithController(config, own)
        await both.start()
    assert own.metrics_port == -1
    assert own.config_store_path == tmp_path / "controller" / "controller.properties"
    pool = ConnectionPool()
    asked = Controllers([own.address], pool)

    async def is_answered() -> bool:
        return await asked.sync_states(["none"]) == {}

    async with asyncio.timeout(30):
        await until(is_answered, errors=ClientError)
        assert (await pool.request(both.address, GetAllTopics())).code == 0
    await both.stop()
    for address in (own.address, both.address):
        with pytest.raises(ClientError):
            await pool.request(address, GetAllTopics())
    await pool.close()
