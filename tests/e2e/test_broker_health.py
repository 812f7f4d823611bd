"""Brokers in processes of their own that have something to say: in metrics, in readiness, and in `orbitmq health`."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from called import call_command
from orbitmq.errors import OrbitError
from orbitmq.testing import LocalCluster
from orbitmq.testing.blocking_cluster import BlockingCluster
from unit.testing.support import send

FAILING_SYNC = """
import errno, os
real = os.fdatasync
def fdatasync(descriptor):
    if os.path.exists(os.environ["FAIL_SYNC"]):
        raise OSError(errno.EIO, "Input/output error")
    real(descriptor)
os.fdatasync = fdatasync
"""
"""Runs at the start of each Python that has it on its path."""


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every fdatasync of processes that are started from now on fail while this file is there."""
    flag, folder = tmp_path / "fail", tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FAILING_SYNC)
    monkeypatch.setenv("FAIL_SYNC", str(flag))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return flag


@pytest.fixture
def cluster(tmp_path: Path, failing: Path) -> Iterator[BlockingCluster]:
    settings = {"metrics_port": 0, "flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 1 << 20}
    with LocalCluster.running(processes=True, settings=settings, data_dir=tmp_path / "data") as found:
        yield found


def get(cluster: BlockingCluster, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{cluster.metrics['broker-a']}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def figure(cluster: BlockingCluster, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(get(cluster, "/metrics")[1])
    (value,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return value


def health(cluster: BlockingCluster) -> tuple[int, str]:
    """Ask on the command line; return the exit code and what it says of the broker on stderr."""
    done = call_command("health", name_servers=cluster.name_servers)
    return done.returncode, done.stderr


def fenced(cluster: BlockingCluster) -> float:
    return figure(cluster, "rocketmq_broker_store_trouble", kind="fenced")


@pytest.mark.interop
def test_a_broker_whose_disk_failed_says_so_until_a_restart_on_a_good_one(cluster, failing):
    asyncio.run(send(cluster.name_servers, b"kept"))
    assert (fenced(cluster), get(cluster, "/readyz")) == (0, (200, "ready\n"))
    failing.touch()
    with pytest.raises(OrbitError):
        asyncio.run(send(cluster.name_servers, b"refused"))
    assert fenced(cluster) == 1
    assert figure(cluster, "rocketmq_broker_store_writable") == 0
    assert figure(cluster, "rocketmq_broker_alert", rule="RocketmqBrokerStoreFenced") == 1
    status, text = get(cluster, "/readyz")
    assert status == 503
    assert "read-only since a sync failed" in text
    assert get(cluster, "/healthz")[0] == 200
    code, said = health(cluster)
    assert code == 1
    assert f"{cluster.brokers['broker-a']}: RocketmqBrokerStoreFenced: the store is read-only" in said
    failing.unlink()
    cluster.restart_broker()
    assert (fenced(cluster), get(cluster, "/readyz")[0], health(cluster)) == (0, 200, (0, ""))


def test_a_broker_that_cut_a_torn_tail_says_so_until_it_is_removed(cluster):
    asyncio.run(send(cluster.name_servers, b"kept"))
    cluster.kill_broker()
    root = cluster.data_dir / "broker-a"
    segment = root / "commitlog" / f"{0:020}"
    content = segment.read_bytes()
    end = len(content.rstrip(b"\0"))
    with segment.open("r+b") as file:
        file.seek(end)
        file.write(b"torn tail")
    cluster.start_broker()
    assert figure(cluster, "rocketmq_broker_recovery_cut_bytes") == 9
    assert figure(cluster, "rocketmq_broker_quarantine_bytes") == 9
    assert figure(cluster, "rocketmq_broker_store_trouble", kind="quarantine") == 1
    document = json.loads(get(cluster, "/healthz")[1])
    assert document["recovery"]["cutBytes"] == 9
    assert document["ready"], "it serves all the same"
    code, said = health(cluster)
    assert code == 1
    assert "RocketmqBrokerRecoveryCut" in said
    assert "keeps 9 bytes that recovery has cut off the commitlog" in said
    for path in (root / "quarantine").iterdir():
        path.unlink()
    assert figure(cluster, "rocketmq_broker_quarantine_bytes") == 0
    assert health(cluster) == (0, "")
    cluster.restart_broker()
    assert figure(cluster, "rocketmq_broker_recovery_cut_bytes") == 0, "an orderly stop, and nothing to cut"
