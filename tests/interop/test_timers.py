"""Delays with Java on either side: by levels and by times, taken back, and in directories that change hands."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interop.drain import bodies, read_all
from interop.peers import JavaBroker, JavaNameServer, PeerError, message
from interop.successor import our_broker_on
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.errors import RemoteRefused
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.queues.consume_queue import UNIT
from orbitmq.store.timers.checkpoint import parse_timer_checkpoint
from orbitmq.testing import LocalCluster
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.recall_handle import format_recall_handle, parse_recall_handle
from orbitmq.wire.messages.record import Record, parse_record
from waiting import wait_for

PRECISION_MS = 100
LEVELS = "1s 0s 1m 1h"
"""messageDelayLevel of both sides."""
TIMER_TRACES = {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID"}


@pytest.fixture(scope="module")
def java_broker(own_name_server, tmp_path_factory):
    properties: dict[str, object] = {"timerPrecisionMs": PRECISION_MS, "recallMessageEnable": "true"}
    properties |= {"timerMaxDelaySec": 1_000, "messageDelayLevel": LEVELS}
    broker = JavaBroker(tmp_path_factory.mktemp("java"), own_name_server.address, name="timers", properties=properties)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def ours():
    """A cluster of ours whose timers are as quick as the Java broker's."""
    settings: dict[str, Any] = {"timer_precision_ms": PRECISION_MS, "recall_message_enable": True}
    settings |= {"timer_max_delay_sec": 1_000, "message_delay_level": LEVELS}
    with LocalCluster.running(settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["java broker", "our broker"])
def name_servers(request):
    """Both sides: what holds for Java's broker holds for ours."""
    if request.param == "our broker":
        return request.getfixturevalue("ours").name_servers
    request.getfixturevalue("java_broker")
    return request.getfixturevalue("own_name_server").address


@pytest.fixture
def java_producer(java, name_servers):
    producer = java.producer("java-timers", name_servers)
    yield producer
    producer.stop()


def step_of(due_ms):
    return (int(due_ms) - 1) // PRECISION_MS * PRECISION_MS


def test_timers_of_both_clients_come_in_time_with_the_same_traces(java_producer, name_servers, name):
    # First: a producer's first send may take a second on a busy machine.
    java_producer.send(message(name, b"java, a time that is over", deliver_ms=int(time.time() * 1000) - 100_000))
    due_ms = int(time.time() * 1000) + 1_500
    java_producer.send(
        message(name, b"java, a delay", delay_ms=1_000, tag="t", keys="k"),
        message(name, b"java, seconds", delay_s=1),
        message(name, b"java, a time", deliver_ms=due_ms),
    )
    with Producer("our-timers", name_servers) as producer:
        producer.send(Message(name, b"ours, a delay", delay_ms=1_000))
    found = {bytes(read.body): read for read in read_all(name_servers, name, 5)}
    assert len(found) == 5
    over = found.pop(b"java, a time that is over")
    assert not TIMER_TRACES & over.properties.keys()
    for read in found.values():
        properties = dict(read.properties)
        assert properties.keys() >= TIMER_TRACES
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (name, str(read.queue_id))
        assert int(properties["TIMER_DEQUEUE_MS"]) >= int(properties["TIMER_OUT_MS"]) + PRECISION_MS
        assert read.stored_at_ms >= int(properties["TIMER_OUT_MS"]) + PRECISION_MS
    assert int(found[b"java, a time"].properties["TIMER_OUT_MS"]) == step_of(due_ms)
    assert found[b"java, a delay"].tag == "t"


def test_what_either_client_takes_back_is_not_delivered(java_producer, name_servers, name):
    sent = java_producer.send(*(message(name, b"java %d" % number, delay_ms=5_000) for number in range(3)))
    with Producer("our-recalls", name_servers) as producer:
        ours = [producer.send(Message(name, b"ours %d" % number, delay_ms=5_000)) for number in range(3)]
        # Each client takes back one of its own, and one of the other's.
        assert java_producer.recall(name, sent[0]["recall_handle"]) == sent[0]["message_id"]
        assert producer.recall(sent[1]["recall_handle"]) == sent[1]["message_id"]
        assert java_producer.recall(name, ours[0].recall_handle) == ours[0].message_id
        assert producer.recall(ours[1].recall_handle or "") == ours[1].message_id
        handle = parse_recall_handle(ours[2].recall_handle or "")
        assert (handle.topic, handle.unique_key) == (name, ours[2].message_id)
        producer.send(Message(name, b"last", delay_ms=6_000))
    assert bodies(read_all(name_servers, name, 3)) == [b"java 2", b"last", b"ours 2"]


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "1001"},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELIVER_MS": "99999999999999999999"},
        {"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "t+K"},
    ],
)
def test_both_brokers_refuse_the_same_times_with_the_same_code(java_producer, name_servers, name, properties):
    with pytest.raises(PeerError, match=r"CODE: 13 .*timer message illegal"):
        java_producer.send(message(name, b"x", raw_properties=properties))


@pytest.mark.parametrize(
    ("properties", "is_waiting"),
    [
        ({"TIMER_DELAY_SEC": "-5"}, False),
        ({"TIMER_DELAY_SEC": "0"}, False),
        ({"TIMER_DELIVER_MS": "-1"}, False),
        ({"TIMER_DELAY_SEC": "+500"}, True),
        ({"TIMER_DELAY_SEC": "500", "TIMER_DELAY_MS": "0"}, True),
        ({"TIMER_DELAY_MS": "0", "TIMER_DELIVER_MS": "9999999999999"}, False),
        ({"TIMER_DELAY_SEC": "500", "TIMER_OUT_MS": "5"}, False),
    ],
)
def test_both_brokers_take_the_same_times(java_producer, name_servers, name, properties, is_waiting):
    (sent,) = java_producer.send(message(name, b"x", raw_properties=properties))
    assert (sent.get("recall_handle") is not None) is is_waiting
    if not is_waiting:
        assert bodies(read_all(name_servers, name, 1)) == [b"x"]


def test_both_brokers_refuse_the_same_recalls(java_producer, name_servers, name):
    with Producer("our-recalls", name_servers) as producer:
        handle = parse_recall_handle(producer.send(Message(name, b"x", delay_ms=60_000)).recall_handle or "")
        for wrong in (handle._replace(time="5"), handle._replace(time="soon")):
            with pytest.raises(RemoteRefused, match="timestamp invalid") as caught:
                producer.recall(format_recall_handle(wrong))
            assert caught.value.code == 604


def waiting_delays(store: Path, topic: str) -> dict[int, list[tuple[bytes, int]]]:
    """What waits by level for a topic, by queue: bodies, and how long after they were stored their entries say."""
    log = (store / "commitlog" / f"{0:020}").read_bytes()
    found: dict[int, list[tuple[bytes, int]]] = {}
    for path in (store / "consumequeue" / "SCHEDULE_TOPIC_XXXX").glob("*/*"):
        for physical_offset, size, due_at_ms in UNIT.iter_unpack(path.read_bytes()):
            record = parse_record(log[physical_offset : physical_offset + size]) if size and due_at_ms else None
            if isinstance(record, Record) and parse_properties(record.properties)["REAL_TOPIC"] == topic:
                waited = (bytes(record.body), due_at_ms - record.stored_at_ms)
                found.setdefault(int(path.parent.name), []).append(waited)
    return found


def test_levels_are_the_same_on_both_brokers_by_the_same_setting(request, java_producer, name_servers, name):
    java_producer.send(*(message(name, b"level %d" % level, delay_level=level) for level in (1, 2, 3, 4, 99)))
    assert bodies(read_all(name_servers, name, 2)) == [b"level 1", b"level 2"]
    is_ours = "our broker" in request.node.name
    (root,) = [path.parent for path in store_of(request, is_ours).rglob("consumequeue")]
    expected = {0: [(b"level 1", 1_000)], 1: [(b"level 2", 0)], 2: [(b"level 3", 60_000)]}
    expected[3] = [(b"level 4", 3_600_000), (b"level 99", 3_600_000)]
    wait_for(lambda: waiting_delays(root, name) == expected, "the delays in the files")


def store_of(request, is_ours):
    return request.getfixturevalue("ours").data_dir if is_ours else request.getfixturevalue("java_broker").store


def test_no_message_waits_longer_in_a_directory_of_javas_than_by_the_levels_of_the_start(
    java, java_broker, own_name_server, tmp_path, name
):
    producer = java.producer("java-levels", own_name_server.address)
    producer.send(*(message(name, b"level %d" % level, delay_level=level) for level in (3, 4)))
    producer.stop()
    shutil.copytree(java_broker.store, tmp_path / "copy")  # as a crash leaves it
    with JavaNameServer(tmp_path) as name_server:
        with our_broker_on(tmp_path / "copy", name_server.address, message_delay_level="1s 0s 1s", **OURS) as ours:
            assert bodies(read_all(name_server.address, name, 2)) == [b"level 3", b"level 4"]
            assert ours.service.sends.delays.backlog().keys() == {1, 2, 3, 4}
    assert wrong_timers(tmp_path / "copy") == []


SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 * 1024 * 1024,
    "mapped_file_size_consume_queue": 20 * 3000,
    "mapped_file_size_timer_log": 1024 * 1024,
}


OURS: dict[str, Any] = {
    "broker_name": "changing-timers", "broker_cluster_name": "JavaCluster", "timer_precision_ms": PRECISION_MS,
    "recall_message_enable": True, **SIZES,
}  # fmt: skip
"""Of a broker of ours on a directory of Java's, under the same name."""


@pytest.mark.proof
def test_timers_go_from_java_to_us_and_back_again(java, jars, tmp_path_factory, name):
    with JavaNameServer(tmp_path_factory.mktemp("nameserver")) as name_server:
        address = name_server.address
        properties = {"timerPrecisionMs": PRECISION_MS, "recallMessageEnable": "true"}
        theirs = JavaBroker(tmp_path_factory.mktemp("java"), address, name="changing-timers", properties=properties)
        theirs.start()
        producer = java.producer("changing-timers", address)
        soon = int(time.time() * 1000) + 3_000
        late = soon + 27_000
        producer.send(*(message(name, b"java soon %d" % number, deliver_ms=soon) for number in range(3)))
        sent = producer.send(*(message(name, b"java late %d" % number, deliver_ms=late) for number in range(3)))
        producer.recall(name, sent[0]["recall_handle"])
        wait_until_java_has_saved(theirs.store, 7)
        theirs.kill()

        with our_broker_on(theirs.store, address, **OURS) as ours:
            timers = ours.service.sends.timers
            assert timers.timers.pending_count >= 1
            assert bodies(read_all(address, name, 3)) == [b"java soon 0", b"java soon 1", b"java soon 2"]
            with Producer("changing-timers", address) as sender:
                sender.recall(sent[1]["recall_handle"])
                mine = [
                    sender.send(Message(name, b"ours %d" % number, deliver_at=datetime.fromtimestamp(late / 1000, UTC)))
                    for number in range(2)
                ]
                sender.recall(mine[0].recall_handle or "")
        assert wrong_timers(theirs.store) == []
        checkpoint = parse_timer_checkpoint((theirs.store / "config" / "timercheck").read_bytes())
        assert checkpoint.queue_offset == checkpoint.master_queue_offset == 11

        theirs.start()
        found = [bytes(read.body) for read in read_all(address, name, 5)]
        producer.stop()
        theirs.kill()
    assert sorted(found) == [b"java late 2", b"java soon 0", b"java soon 1", b"java soon 2", b"ours 1"]


def wrong_timers(store):
    """What a check finds wrong with the timers' files."""
    sizes = Sizes(timer_log_file_size=SIZES["mapped_file_size_timer_log"])
    return [
        found for found in StoreCheck(store, sizes).run() if "timer" in found.path and found.severity.value == "wrong"
    ]


def wait_until_java_has_saved(store, queue_offset):
    """Wait until Java's checkpoint says that so many messages are in the wheel."""
    path = store / "config" / "timercheck"
    wait_for(
        lambda: parse_timer_checkpoint(path.read_bytes()).queue_offset >= queue_offset,
        "Java to save its timers",
        errors=FileNotFoundError,
    )
