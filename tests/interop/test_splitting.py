"""A Java 5.x broker that registers in parts, because one frame is too small for all of its topics."""

from __future__ import annotations

import asyncio

import pytest

from interop.peers import JavaBroker
from orbitmq.admin import AdminClient
from orbitmq.admin.monitoring import ask_history
from orbitmq.net.pool import ConnectionPool

CLUSTER = "SplitCluster"


async def topics_at(name_server: str) -> set[str]:
    async with AdminClient(name_server) as admin:
        return set(await admin.topic_list(CLUSTER))


async def part_sizes(name_server: str) -> list[int]:
    """Return how many topics each registration of the broker brought."""
    pool = ConnectionPool()
    try:
        events = await ask_history(pool, name_server, broker_name="split")
    finally:
        await pool.close()
    return [event["topicCount"] for event in events if event["kind"] == "topics changed"]


@pytest.mark.proof
def test_a_java_broker_that_registers_in_parts_is_known_whole_5296(java, java_name_server, our_name_server, tmp_path):
    parts = {"enableSplitRegistration": "true", "splitRegistrationSize": 3}
    both = f"{java_name_server.address};{our_name_server}"
    broker = JavaBroker(tmp_path / "broker", both, name="split", cluster=CLUSTER, properties=parts)
    with broker:
        java.wait_for(
            lambda: len(asyncio.run(topics_at(java_name_server.address))) > 9,
            "Java's NameServer to know four parts",
        )
        # Parts still come while either is asked: both are asked again until they agree.
        known: set[str] = set()

        def ours_knows_the_same() -> bool:
            nonlocal known
            known = asyncio.run(topics_at(java_name_server.address))
            return asyncio.run(topics_at(our_name_server)) == known

        java.wait_for(ours_knows_the_same, "ours to know the same topics")
        sizes = asyncio.run(part_sizes(our_name_server))
        assert len(sizes) > 3
        assert max(sizes) <= 3
        assert {CLUSTER, "split", "TBW102", "SELF_TEST_TOPIC"} <= known
        broker.kill()
