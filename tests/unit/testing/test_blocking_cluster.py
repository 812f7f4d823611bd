"""The blocking cluster for users' tests, and its pytest fixture."""

import socket
import subprocess
import sys
import threading

import pytest

from orbitmq.address import parse_address
from orbitmq.broker.app import Broker
from orbitmq.errors import InvalidArgument, NoNameServer
from orbitmq.net.loop import run
from orbitmq.testing import LocalCluster
from unit.testing.support import broker_names, send

pytestmark = pytest.mark.real


def test_a_synchronous_test_does_with_a_cluster_what_an_asynchronous_one_does():
    with LocalCluster.running(brokers=2) as cluster:
        run(send(cluster.name_servers, b"1"))
        cluster.restart_name_server()
        cluster.restart_broker("broker-b")
        cluster.stop_broker("broker-a")
        cluster.start_broker("broker-a")
        cluster.stop_name_server()
        cluster.start_name_server()
        data_dir = cluster.data_dir
        assert {path.name for path in data_dir.iterdir()} >= {"broker-a", "broker-b"}
        assert len(cluster.brokers) == 2
    assert not data_dir.exists()


def test_each_server_may_be_stopped_by_its_name():
    with LocalCluster.running(brokers=2, name_servers=2) as cluster:
        first, second = cluster.name_servers.split(";")
        cluster.stop_broker("broker-b")
        assert run(broker_names(second)) == ["broker-a"]
        cluster.stop_name_server(1)
        with pytest.raises(NoNameServer):
            run(broker_names(second))
        assert run(broker_names(first)) == ["broker-a"]
        with pytest.raises(InvalidArgument, match="processes"):
            cluster.kill_name_server()
        with pytest.raises(InvalidArgument, match="processes"):
            cluster.kill_broker()


def test_no_thread_stays_behind_whether_the_cluster_started_or_not(tmp_path):
    before = threading.active_count()
    with LocalCluster.running():
        assert threading.active_count() > before
    (tmp_path / "broker-a").write_text("a file where a directory should be")
    with pytest.raises(Exception, match="broker-a"), LocalCluster.running(data_dir=tmp_path):
        pass
    assert threading.active_count() == before


def test_a_broker_that_fails_to_stop_keeps_no_other_server_and_is_told(monkeypatch):
    before = threading.active_count()
    stop = Broker.stop

    async def fail(broker):
        await stop(broker)
        if broker.config.broker_name == "broker-a":
            raise OSError("the disk is gone")

    monkeypatch.setattr(Broker, "stop", fail)
    with pytest.raises(OSError, match="the disk is gone"), LocalCluster.running(brokers=2) as cluster:
        data_dir, address = cluster.data_dir, cluster.brokers["broker-b"]
    assert not data_dir.exists()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(parse_address(address), 1)


def test_the_fixture_is_a_cluster_of_its_own(rocketmq, rocketmq_session):
    run(send(rocketmq.name_servers, topic="mine"))
    assert rocketmq.name_servers != rocketmq_session.name_servers


def test_the_fixtures_have_one_broker_each(rocketmq, rocketmq_session):
    for cluster in (rocketmq, rocketmq_session):
        assert run(broker_names(cluster.name_servers)) == ["broker-a"]


def test_a_project_that_does_not_use_the_fixtures_loads_next_to_nothing():
    script = (
        "import sys, orbitmq.testing.pytest_plugin; print(sorted(n for n in sys.modules if n.startswith('orbitmq.')))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "['orbitmq.testing', 'orbitmq.testing.pytest_plugin']\n"
