"""The cluster that users' tests run against."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument, NoNameServer, OrbitError
from orbitmq.net.loop import run
from orbitmq.testing import LocalCluster
from orbitmq.testing.processes import ServerNode
from unit.testing.support import broker_names, read, send

pytestmark = pytest.mark.real


def test_a_message_goes_through_and_nothing_stays_behind():
    async def work():
        async with LocalCluster() as cluster:
            sent = await send(cluster.name_servers)
            assert sent.status == "SEND_OK"
            assert await read(cluster.name_servers) == [b"x"]
            return cluster.data_dir

    assert not run(work()).exists()


def test_every_broker_registers_with_every_name_server():
    async def work():
        async with LocalCluster(brokers=3, name_servers=2) as cluster:
            assert list(cluster.brokers) == ["broker-a", "broker-b", "broker-c"]
            return [await broker_names(address) for address in cluster.name_servers.split(";")]

    assert run(work()) == [["broker-a", "broker-b", "broker-c"]] * 2


@each_case(False, True)
def test_brokers_have_http_ports_where_the_settings_ask_for_them(processes):
    async def work():
        async with LocalCluster(brokers=2, settings={"metrics_port": 0}, processes=processes) as cluster:
            await cluster.stop_broker("broker-b")
            (address,) = cluster.metrics.values()
            assert list(cluster.metrics) == ["broker-a"]
            assert address.startswith("127.0.0.1:")
            assert address not in (*cluster.brokers.values(), cluster.name_servers)

    run(work())


def test_without_that_setting_there_are_no_http_ports():
    with LocalCluster.running() as cluster:
        assert cluster.metrics == {}


def test_a_restarted_broker_has_its_address_and_its_messages():
    async def work():
        async with LocalCluster() as cluster:
            before = cluster.brokers
            await send(cluster.name_servers, b"kept")
            await cluster.stop_broker()
            assert await broker_names(cluster.name_servers) == []
            await cluster.start_broker()
            assert cluster.brokers == before
            return await read(cluster.name_servers)

    assert run(work()) == [b"kept"]


def test_a_named_data_dir_keeps_messages_for_the_next_cluster(tmp_path):
    async def work():
        async with LocalCluster(data_dir=tmp_path) as cluster:
            await send(cluster.name_servers, b"kept")
        async with LocalCluster(data_dir=tmp_path) as cluster:
            return await read(cluster.name_servers)

    assert run(work()) == [b"kept"]


def test_a_stopped_name_server_is_silent_until_it_is_started_again():
    async def work():
        async with LocalCluster() as cluster:
            await cluster.stop_name_server()
            with pytest.raises(NoNameServer):
                await broker_names(cluster.name_servers)
            await cluster.start_name_server()
            return await broker_names(cluster.name_servers)

    assert run(work()) in ([], ["broker-a"])  # the broker comes back by itself, within a second


def test_settings_reach_every_broker():
    async def work():
        async with LocalCluster(settings={"auto_create_topic_enable": False}) as cluster:
            with pytest.raises(OrbitError):
                await send(cluster.name_servers)

    run(work())


@each_case({"autoCreateTopicEnable": False}, {"autoCreateTopicEnable": "false"})
def test_settings_may_be_spelt_as_in_a_broker_conf(settings):
    async def work():
        async with LocalCluster(settings=settings) as cluster:
            with pytest.raises(OrbitError):
                await send(cluster.name_servers)

    run(work())


@each_case(
    ("flushDiskTyp", "flushDiskType, perhaps"), ("flush_disk_typ", "flush_disk_type, perhaps"), ("x", "a key of")
)
def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant(key, meant):
    with pytest.raises(InvalidArgument, match=f"settings: '{key}' is not allowed, expected {meant}"):
        LocalCluster(settings={key: "SYNC_FLUSH"})


@each_case({"brokers": 0}, {"brokers": 27}, {"name_servers": 0})
def test_sizes_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        LocalCluster(**wrong)


def test_an_unknown_broker_is_refused_with_the_names_there_are():
    async def work():
        async with LocalCluster() as cluster:
            with pytest.raises(InvalidArgument, match="broker-a"):
                await cluster.stop_broker("broker-z")

    run(work())


def test_only_a_process_can_be_killed():
    async def work():
        async with LocalCluster() as cluster:
            with pytest.raises(InvalidArgument, match="processes"):
                await cluster.kill_broker()

    run(work())


def test_a_cluster_that_cannot_start_leaves_nothing_running(tmp_path):
    (tmp_path / "broker-b").write_text("a file where a directory should be")

    async def work():
        cluster = LocalCluster(brokers=2, data_dir=tmp_path)
        with pytest.raises(Exception, match="broker-b"):
            await cluster.start()
        with pytest.raises(NoNameServer):
            await broker_names(cluster.name_servers)

    run(work())


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
async def test_an_interrupted_stop_stops_every_server_and_raises_the_interruption(interruption, monkeypatch):
    stopped = []

    async def stop(node):
        stopped.append(node)
        raise OSError("no") if len(stopped) == 1 else interruption

    monkeypatch.setattr(ServerNode, "stop", stop)
    cluster = LocalCluster(brokers=2)
    cluster._data_dir = data_dir = Path(tempfile.mkdtemp())
    with pytest.raises(interruption):
        await cluster.stop()
    assert len(stopped) == 3
    assert not data_dir.exists()


def test_a_killed_process_comes_back_with_what_it_had_acknowledged():
    with LocalCluster.running(processes=True, settings={"flush_disk_type": "SYNC_FLUSH"}) as cluster:
        run(send(cluster.name_servers, b"acknowledged"))
        cluster.kill_broker()
        cluster.kill_name_server()
        cluster.start_name_server()
        cluster.start_broker()
        assert run(read(cluster.name_servers)) == [b"acknowledged"]
