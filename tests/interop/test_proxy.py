"""Official clients of 5.x at our broker, through Java's proxy: Python's and Java's, row by row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interop.drain import read_all
from interop.peers import JavaProxy, require_java, walk_through
from orbitmq.admin import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import BlockingCluster, LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig

pytestmark = pytest.mark.java

TOPICS = {
    "normal": "NORMAL", "simple": "NORMAL", "delayed": "DELAY", "ordered": "FIFO", "transactional": "TRANSACTION", "pushed": "NORMAL",
    "failing": "NORMAL",
}  # fmt: skip
EXPECTED: dict[str, dict[str, Any]] = {
    "send": {
        "body": "hello", "tag": "a", "keys": ["k1"], "colour": "blue", "attempt": 1, "same_id": True, "empty": True,
    },
    "delay": {"body": "later", "in_time": True},
    "fifo": {"x": True, "y": True},
    "transaction": {"bodies": ["checked", "committed"], "empty": True},
    "simple": {"attempts": [1, 2], "same_id": True, "empty": True},
    "push": {"bodies": True, "attempts": [1]},
    "retry": {"seen": [["never", 1], ["never", 2], ["second", 1], ["second", 2]]},
}  # fmt: skip


async def prepare(name_servers: str) -> None:
    async with AdminClient(name_servers) as admin:
        for topic, kind in TOPICS.items():
            await admin.create_topic(TopicConfig(topic=topic, attributes={"+message.type": kind}))
        await admin.create_group(GroupConfig(group="g-fifo", consume_message_orderly=True))
        await admin.create_group(GroupConfig(group="g-retry", retry_times_max=1))


@pytest.fixture(scope="module", params=["python", "java"])
def cluster(tmp_path_factory, request):
    """A cluster of ours, and what an official client has told of each row."""
    require_java()
    home = tmp_path_factory.mktemp(f"proxy-{request.param}")
    settings = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000}
    with LocalCluster.running(settings=settings) as running:
        asyncio.run(prepare(running.name_servers))
        proxy = JavaProxy(home, running.name_servers)
        proxy.start()
        try:
            yield running, walk_through(proxy, request.param, EXPECTED)
        finally:
            proxy.kill()


@pytest.mark.parametrize("row", EXPECTED)
def test_an_official_client_finds_through_the_proxy_what_it_finds_at_javas_broker(cluster, row):
    _, told = cluster
    assert told[row] == EXPECTED[row]


def test_what_a_client_of_the_proxy_gives_up_is_a_dead_letter_with_the_topic_that_it_was_sent_to(
    cluster: tuple[BlockingCluster, Any],
):
    running, _ = cluster
    (letter,) = read_all(running.name_servers, "%DLQ%g-retry", 1)
    assert letter.body == b"never"
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == "failing"
