import pytest

from orbitmq.admin import AdminClient
from orbitmq.broker.config import BrokerConfig
from orbitmq.cli.servers.pair import Pair
from orbitmq.errors import OrbitError
from orbitmq.nameserver.config import NameServerConfig

pytestmark = pytest.mark.real


def pair(root, host="127.0.0.1", **broker):
    nameserver = NameServerConfig(
        bind_address=host,
        listen_port=0,
        kv_config_path=root / "kvConfig.json",
        config_store_path=root / "namesrv.properties",
    )
    settings = {"broker_name": "broker-a", "bind_address": "127.0.0.1", "listen_port": 0, **broker}
    return Pair(nameserver, BrokerConfig(store_path_root_dir=root / "broker", **settings))


async def test_the_broker_registers_with_the_name_server_of_the_pair(tmp_path):
    found = pair(tmp_path)
    await found.start()
    try:
        async with AdminClient(found.name_server_address) as admin:
            (broker,) = (await admin.cluster_info()).brokers.values()
        assert broker.addresses == {0: found.broker_address}
    finally:
        await found.stop()


async def test_a_wildcard_is_no_address_for_clients(tmp_path):
    found = pair(tmp_path, host="0.0.0.0")
    await found.start()
    try:
        assert found.name_server_address.startswith("127.0.0.1:")
    finally:
        await found.stop()


async def test_a_pair_whose_broker_does_not_start_stops_all_the_same(tmp_path):
    (tmp_path / "broker").write_text("a file where a directory should be")
    found = pair(tmp_path)
    with pytest.raises((OrbitError, OSError)):
        await found.start()
    with pytest.raises(AssertionError, match="not started"):
        _ = found.broker_address
    address = found.name_server_address
    await found.stop()
    async with AdminClient(address) as admin:
        with pytest.raises(OrbitError, match="no NameServer answered"):
            await admin.cluster_info()
