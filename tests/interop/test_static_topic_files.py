"""A broker's static topics change hands: Java's broker serves them from the file that ours wrote, and ours from Java's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.peers import JavaBroker, JavaClients, JavaNameServer, ask
from interop.successor import our_broker_on

CLUSTER, NAME = "StaticCluster", "statics"
NOT_LEADER = 501


@pytest.fixture
def java_broker(own_name_server: JavaNameServer, tmp_path: Path) -> Iterator[JavaBroker]:
    broker = JavaBroker(tmp_path / "java", own_name_server.address, name=NAME, cluster=CLUSTER)
    yield broker
    broker.kill()


def mapping_of(store: Path, topic: str) -> Any:
    """Return what the file says of a topic; Java writes queue ids as bare numbers."""
    text = (store / "config/topicQueueMapping.json").read_text()
    for number in range(4):
        text = text.replace(f"{{{number}:", f'{{"{number}":').replace(f",{number}:", f',"{number}":')
    return json.loads(text)["topicQueueMappingInfoMap"][topic]


def end_of(address: str, topic: str, queue_id: int) -> tuple[int, str | None]:
    """Ask where a logical queue ends."""
    header, _ = ask(address, 30, {"topic": topic, "queueId": str(queue_id)})
    return header["code"], (header.get("extFields") or {}).get("offset")


def send(address: str, topic: str, queue_id: int) -> tuple[int, str, str]:
    """Send a message to a logical queue; return the code, the queue and the offset that are answered."""
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1", "h": "0", "i": "",
              "j": "0", "k": "false", "l": "0", "m": "false"}  # fmt: skip
    header, _ = ask(address, 310, fields, body=b"hello")
    said = header.get("extFields") or {}
    return header["code"], said.get("queueId", ""), said.get("queueOffset", "")


@pytest.mark.proof
def test_static_topics_go_from_java_to_us_and_back(
    java: JavaClients, own_name_server: JavaNameServer, java_broker: JavaBroker, name: str
) -> None:
    def make(queue_count: int) -> None:
        java.mqadmin(
            "updateStaticTopic", "-n", own_name_server.address, "-t", name, "-qn", str(queue_count), "-b", NAME
        )

    java_broker.start()
    make(2)
    assert [send(java_broker.address, name, 1) for _ in range(2)] == [(0, "1", "0"), (0, "1", "1")]
    java_broker.stop()
    by_java = mapping_of(java_broker.store, name)
    sizes = {"mapped_file_size_commit_log": 16 * 1024 * 1024, "mapped_file_size_consume_queue": 60_000,
             "mapped_file_size_timer_log": 1024 * 1024, "max_hash_slot_num": 10_000, "max_index_num": 40_000}  # fmt: skip
    settings: dict[str, Any] = {"broker_name": NAME, "broker_cluster_name": CLUSTER, **sizes}
    with our_broker_on(java_broker.store, own_name_server.address, **settings) as ours:
        ends = [end_of(ours.address, name, queue_id) for queue_id in range(2)]
        assert ends == [(0, "0"), (0, "2")]
        assert send(ours.address, name, 1) == (0, "1", "2")
        assert mapping_of(java_broker.store, name) == by_java
        make(3)
        assert send(ours.address, name, 2) == (0, "2", "0")
        assert end_of(ours.address, name, 3)[0] == NOT_LEADER
    by_ours = mapping_of(java_broker.store, name)
    assert (by_ours["totalQueues"], sorted(by_ours["hostedQueues"])) == (3, ["0", "1", "2"])
    java_broker.start()
    assert [end_of(java_broker.address, name, queue_id) for queue_id in range(3)] == [(0, "0"), (0, "3"), (0, "1")]
    assert [send(java_broker.address, name, queue_id) for queue_id in (1, 2)] == [(0, "1", "3"), (0, "2", "1")]
    assert end_of(java_broker.address, name, 3)[0] == NOT_LEADER
