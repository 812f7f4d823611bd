"""The exporter's page: the last collection, its age, and what it says when the cluster is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq import Message, Producer
from orbitmq.exporter.app import Exporter
from orbitmq.testing import FakeClock, LocalCluster
from waiting import until

pytestmark = pytest.mark.real


class Watched:
    """A cluster, and an exporter whose clock stands still."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.clock = FakeClock()
        self.exporter = Exporter(cluster.name_servers, port=0, interval_s=3600, clock=self.clock)

    async def scrape(self) -> dict[str, dict[str, float]]:
        """Return the values by name and labels, as the page writes them."""
        page = await self.get("/metrics")
        assert page.status_code == 200
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(page.text):
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get(f"http://{self.exporter.address}{path}")


@pytest.fixture
def watched() -> AbstractAsyncContextManager[Watched]:
    """A cluster of one broker with its exporter; opened on the test's loop."""
    return _watching()


@asynccontextmanager
async def _watching() -> AsyncIterator[Watched]:
    async with LocalCluster() as cluster:
        watched = Watched(cluster)
        await watched.exporter.start()
        try:
            await until(lambda: watched.exporter.last, 0.01)
            yield watched
        finally:
            await watched.exporter.stop()


async def test_a_scrape_shows_the_last_collection(watched: Watched) -> None:
    async with Producer("makers", watched.cluster.name_servers) as producer:
        await producer.send(Message("orders", b"{}"))
    before = await watched.scrape()
    assert "broker=broker-a,cluster=DefaultCluster,topic=orders" not in before["rocketmq_producer_offset"]
    await watched.exporter.collect()
    after = await watched.scrape()
    assert after["rocketmq_producer_offset"]["broker=broker-a,cluster=DefaultCluster,topic=orders"] == 1
    assert after["orbitmq_exporter_collections_total"][""] == 2
    assert after["orbitmq_exporter_last_collection_timestamp_seconds"][""] == watched.clock() / 1000
    assert after["process_resident_memory_bytes"][""] > 0
    assert (await watched.get("/readyz")).text == "ready\n"


async def test_when_the_cluster_is_gone_its_last_values_stay_for_a_while_and_then_go(watched: Watched) -> None:
    await watched.cluster.stop()
    await watched.exporter.collect()
    found = await watched.scrape()
    assert found["orbitmq_exporter_up"][""] == 0
    assert found["orbitmq_exporter_errors_total"]["broker=,what=cluster"] == 1
    assert found["rocketmq_broker_up"]
    watched.clock.advance(4 * 3600 * 1000 + 1)
    found = await watched.scrape()
    assert "rocketmq_broker_up" not in found
    readiness = await watched.get("/readyz")
    assert readiness.status_code == 503
    assert "NameServer" in readiness.text
    assert (await watched.get("/healthz")).json()["healthy"] is False
