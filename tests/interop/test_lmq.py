"""LMQs (LMQ): a directory with some goes from Java's broker to ours and back, and both serve them alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.peers import JavaBroker, JavaClients, JavaNameServer, ask, message
from interop.successor import our_broker_on
from orbitmq.wire.messages.record import iter_records

NAME = "lights"
A, B = "%LMQ%a", "%LMQ%b"
SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true", "flushConsumerOffsetInterval": 200}
OURS: dict[str, Any] = {
    "broker_name": NAME, "broker_cluster_name": "LightCluster", "enable_lmq": True, "enable_multi_dispatch": True,
    "mapped_file_size_commit_log": 16 * 1024 * 1024, "mapped_file_size_consume_queue": 60_000,
    "mapped_file_size_timer_log": 1024 * 1024, "max_hash_slot_num": 10_000, "max_index_num": 40_000,
}  # fmt: skip


@pytest.fixture
def java_broker(own_name_server: JavaNameServer, tmp_path: Path) -> Iterator[JavaBroker]:
    broker = JavaBroker(
        tmp_path / "java", own_name_server.address, name=NAME, cluster="LightCluster", properties=SETTINGS
    )
    yield broker
    broker.kill()


def send(address: str, body: str, *names: str, topic: str = "mail", queue_id: int = 1, **more: str) -> int:
    """Send a message that names LMQs; return the code of the answer."""
    properties = {"INNER_MULTI_DISPATCH": ",".join(names), "TAGS": "t", **more}
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items() if value)
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1", "h": "0",
              "i": text, "j": "0", "k": "false", "l": "0", "m": "false"}  # fmt: skip
    return ask(address, 310, fields, body=body.encode())[0]["code"]


def pull(address: str, topic: str, offset: int = 0, suspend_ms: int = 0) -> tuple[int, list[str], str]:
    """Pull an LMQ; return the code, the bodies, and where the reader goes on."""
    fields = {"consumerGroup": "readers", "topic": topic, "queueId": "0", "queueOffset": str(offset),
              "maxMsgNums": "32", "sysFlag": "6" if suspend_ms else "4", "commitOffset": "0",
              "suspendTimeoutMillis": str(suspend_ms), "subscription": "*", "subVersion": "0"}  # fmt: skip
    header, body = ask(address, 11, fields)
    bodies = [bytes(record.body).decode() for record in iter_records(body)] if header["code"] == 0 else []
    return header["code"], bodies, header["extFields"]["nextBeginOffset"]


def wait_for(address: str, topic: str, offset: int) -> list[str]:
    """Pull until a message is there: both brokers keep a pull back for it."""
    while (found := pull(address, topic, offset, suspend_ms=10_000))[0] != 0:
        pass
    return found[1]


def commit(address: str, group: str, topic: str, offset: int) -> int:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    return ask(address, 15, fields)[0]["code"]


def committed(address: str, group: str, topic: str) -> str | None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    return (ask(address, 14, fields)[0].get("extFields") or {}).get("offset")


def ends(address: str, *topics: str) -> list[str]:
    """Return where LMQs end."""
    return [ask(address, 30, {"topic": topic, "queueId": "0"})[0]["extFields"]["offset"] for topic in topics]


def offsets_in(store: Path) -> Any:
    return json.loads((store / "config/lmqConsumerOffset.json").read_text().replace("{0:", '{"0":'))


@pytest.mark.proof
def test_lmqs_go_from_java_to_us_and_back(own_name_server: JavaNameServer, java_broker: JavaBroker) -> None:
    java_broker.start()
    there = java_broker.address
    assert [send(there, "1", A, B), send(there, "2", A), send(there, "3"), send(there, "4", B, queue_id=2)] == [0] * 4
    assert wait_for(there, A, 1) == ["2"]
    assert wait_for(there, B, 1) == ["4"]
    assert (pull(there, A), pull(there, "%LMQ%none")[0]) == ((0, ["1", "2"], "2"), 19)
    assert [commit(there, group, A, 1) for group in ("readers", "%LMQ%g")] == [0, 0]
    java_broker.stop()
    by_java = offsets_in(java_broker.store)
    assert by_java["lmqOffsetTable"] == {f"{A}@%LMQ%g": 1}
    assert by_java["offsetTable"][f"{A}@readers"] == {"0": 1}
    with our_broker_on(java_broker.store, own_name_server.address, **OURS) as ours:
        here = ours.address
        assert (pull(here, A), pull(here, B)) == ((0, ["1", "2"], "2"), (0, ["1", "4"], "2"))
        assert pull(here, "%LMQ%none")[0] == 19
        assert [committed(here, group, A) for group in ("readers", "%LMQ%g")] == ["1", "1"]
        assert [send(here, "5", A), send(here, "6", B, A, "%LMQ%c")] == [0, 0]
        assert wait_for(here, "%LMQ%c", 0) == ["6"]
        assert ends(here, A, B, "%LMQ%c", "%LMQ%none") == ["4", "3", "1", "0"]
        assert [commit(here, group, A, 3) for group in ("readers", "%LMQ%g")] == [0, 0]
    by_ours = offsets_in(java_broker.store)
    assert by_ours["lmqOffsetTable"] == {f"{A}@%LMQ%g": 3}
    assert by_ours["offsetTable"][f"{A}@readers"] == {"0": 3}
    assert by_ours.keys() == by_java.keys() - {"groupTopicMap"}
    java_broker.start()
    assert (pull(there, A), pull(there, B)) == ((0, ["1", "2", "5", "6"], "4"), (0, ["1", "4", "6"], "3"))
    assert [committed(there, group, A) for group in ("readers", "%LMQ%g")] == ["3", "3"]
    assert send(there, "7", "%LMQ%c", A) == 0
    assert (wait_for(there, "%LMQ%c", 1), wait_for(there, A, 4)) == (["7"], ["7"])


@pytest.mark.proof
def test_lmqs_of_a_broker_that_was_killed_are_whole_with_the_other(
    own_name_server: JavaNameServer, java_broker: JavaBroker
) -> None:
    java_broker.start()
    for number in range(50):
        assert send(java_broker.address, str(number), *[A, B][: 1 + number % 2]) == 0
    java_broker.kill()
    with our_broker_on(java_broker.store, own_name_server.address, **OURS) as ours:
        assert ends(ours.address, A, B) == ["50", "25"]
        for number in range(50, 100):
            assert send(ours.address, str(number), *[A, B][: 1 + number % 2]) == 0
        assert ends(ours.address, A, B) == ["100", "50"]
    (java_broker.store / "abort").write_text("1")  # Java's recovery reads the log again, as after a crash
    java_broker.start()
    assert ends(java_broker.address, A, B) == ["100", "50"]
    assert pull(java_broker.address, A, 68)[1] == [str(number) for number in range(68, 100)]


@pytest.fixture
def ours_with_lmqs(own_name_server: JavaNameServer, tmp_path: Path) -> Iterator[str]:
    with our_broker_on(tmp_path / "store", own_name_server.address, **OURS) as broker:
        yield broker.address


def test_a_java_consumer_reads_lmqs_of_ours(
    java: JavaClients, own_name_server: JavaNameServer, ours_with_lmqs: str
) -> None:
    """A client that knows the broker reads them as any queue; it is not told where they are."""
    name, servers = "light-puller", own_name_server.address
    producer = java.producer("p", servers)
    sent = message("mail", b"hello", properties={"INNER_MULTI_DISPATCH": f"{A},{B}"})
    assert [result["status"] for result in producer.send(sent, sent)] == ["SEND_OK"] * 2
    producer.stop()
    java.call("puller.start", name=name, group="readers", name_servers=servers)
    own = java.call("puller.pull", name=name, topic="mail", broker=NAME, queue_id=0, queue_offset=0, count=4)
    queue = {"topic": B, "broker": NAME, "queue_id": 0}
    page = java.call("puller.pull", name=name, queue_offset=1, count=4, **queue)
    offsets = java.call("puller.offsets", name=name, commit=1, **queue)
    java.call("puller.stop", name=name)
    assert own["status"] in ("FOUND", "NO_NEW_MSG")
    assert (page["status"], page["next_offset"], len(page["messages"])) == ("FOUND", 2, 1)
    assert page["messages"][0]["properties"]["INNER_MULTI_QUEUE_OFFSET"] == "1,1"
    assert {key: offsets[key] for key in ("committed", "min", "max")} == {"committed": 1, "min": 0, "max": 2}
