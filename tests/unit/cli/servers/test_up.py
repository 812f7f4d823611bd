from pathlib import Path

import pytest

from orbitmq.admin import AdminClient
from orbitmq.broker.config import BrokerConfig
from orbitmq.cli.servers.up import Pair, default_data_dir
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


def up(orbitmq, tmp_path, *words):
    return orbitmq("up", "--nameserver-port", 0, "--broker-port", 0, "--data-dir", tmp_path, *words)


def test_it_says_where_both_listen_and_what_to_export(orbitmq, served, tmp_path):
    seen = []
    served.inspect = lambda pair: seen.append((pair.name_server_address, pair.broker_address))
    result = up(orbitmq, tmp_path)
    assert result.code == 0
    ((nameserver, broker),) = seen
    ready, export = result.out.splitlines()
    assert ready.startswith(f"ready nameserver={nameserver} broker={broker} data_dir={tmp_path} pid=")
    assert export == f"export NAMESRV_ADDR={nameserver}"


def test_programs_get_one_object(orbitmq, served, tmp_path):
    ready = up(orbitmq, tmp_path, "-o", "json").json
    assert (ready["event"], ready["data_dir"]) == ("ready", str(tmp_path))
    assert ready["nameserver"] == served.services[0].name_server_address


def test_metrics_are_told_where_there_are_some(orbitmq, served, tmp_path):
    words = ("--nameserver-metrics-port", 0, "--broker-metrics-port", 0, "-o", "json")
    ready = up(orbitmq, tmp_path, *words).json
    addresses = [ready[name] for name in ("nameserver", "broker", "nameserver_metrics", "broker_metrics")]
    assert len(set(addresses)) == 4
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert not [name for name in up(orbitmq, tmp_path, "-o", "json").json if "metrics" in name]


def test_both_keep_their_files_under_the_data_dir(orbitmq, served, tmp_path):
    up(orbitmq, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"broker-a"}
    assert (tmp_path / "broker-a" / "config").is_dir()


def test_messages_are_kept_where_the_desktop_keeps_data(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/orbitmq")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_data_dir() == Path("/home/me/.local/share/orbitmq")
