"""`orbitmq broker forget`."""

import pytest

from orbitmq.testing import LocalCluster
from waiting import wait_for

pytestmark = pytest.mark.real


def test_a_lost_broker_is_missed_until_it_is_forgotten(orbitmq, monkeypatch):
    with LocalCluster.running(brokers=2, processes=True) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.name_servers)
        assert orbitmq("topic", "create", "orders").code == 0
        unknown = orbitmq("broker", "forget", "broker-b", "--yes")
        assert (unknown.code, "that a NameServer of orbitmq misses" in unknown.err) == (2, True)
        unsure = orbitmq("broker", "forget", "broker-b", "--yes", "-n", f"{cluster.name_servers};127.0.0.1:1")
        assert (unsure.code, "none of the NameServers that answer misses broker-b" in unsure.err) == (1, True)
        cluster.kill_broker("broker-b")
        wait_for(
            lambda: "without broker-b: it is gone" in orbitmq("topic", "show", "orders").err,
            "a lost broker",
            pause_s=0.1,
        )
        assert orbitmq("topic", "show", "orders").code == 1
        planned = orbitmq("broker", "forget", "broker-b", "--dry-run")
        assert (planned.code, "miss broker-b:0 no longer" in planned.err) == (0, True)
        assert "broker-b" in orbitmq("message", "find", "orders", "none").err
        some = orbitmq("broker", "forget", "broker-b", "--yes", "-n", f"{cluster.name_servers};127.0.0.1:1")
        assert (some.code, some.err.count("cannot connect")) == (1, 1), "a NameServer that is down is asked once"
        assert orbitmq("topic", "show", "orders").code == 0
        assert "broker-b" not in orbitmq("message", "find", "orders", "none").err
        assert orbitmq("doctor").code in (0, 4)
        cluster.restart_broker("broker-b")
        assert "broker-b" in orbitmq("cluster").out
