"""Captures the golden files from Java peers: `PYTHONPATH=tests .venv/bin/python -m golden.capture`.

`--only CODE` (may be repeated) captures the frames of some codes again, or for the first time, and leaves all other files.

Frames pass through taps between Java's NameServer, broker and clients; what they mean is what Java's own decoder says.
Store files are those of a Java broker with small segments, stopped cleanly.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.peers import (
    VERSION,
    JavaBroker,
    JavaClients,
    JavaController,
    JavaNameServer,
    ask,
    controlled,
    free_ports,
    message,
    why_unavailable,
)
from orbitmq.codes import RequestCode
from waiting import wait_for

HERE = Path(__file__).parent
COMMAND = "PYTHONPATH=tests .venv/bin/python -m golden.capture"
BROKER_HOST = "127.0.0.2"
MAGIC_BLANK = 0xCBD43194
NAMES = {
    code.value: code.name.lower().replace("_", "-") for code in RequestCode if not code.name.startswith("ORBITMQ_")
}
NAMES[99999] = "unknown"
IN_BINARY_TOO = {11, 14, 15, 30, 31, 34, 38, 40, 46, 103, 104, 105, 106, 310, 320, 322, 325, 326, 901, 904, 905}
PACKED = ("golden-zlib", "golden-lz4", "golden-zstd")
BODY_MAX = 40_000
TIMEOUT_S = 60


@dataclass(frozen=True)
class Passed:
    """One frame on its way through a tap."""

    tap: str
    connection: int
    to_server: bool
    frame: bytes


class Tap:
    """A TCP relay that writes down every frame that passes: listens on `listen`, relays to `target`, appends each whole frame to `passed`."""

    def __init__(self, name: str, listen: tuple[str, int], target: tuple[str, int], passed: list[Passed]) -> None:
        self.name = name
        self._target = target
        self._passed = passed
        self._count = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(listen, family=socket.AF_INET6 if ":" in listen[0] else socket.AF_INET)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        for open_socket in (self._listener, *self._sockets):
            open_socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._count += 1
            self._sockets += (client, server)
            for source, sink, to_server in ((client, server, True), (server, client, False)):
                pump = threading.Thread(target=self._pump, args=(source, sink, self._count, to_server), daemon=True)
                pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket, connection: int, to_server: bool) -> None:
        held = b""
        try:
            while data := source.recv(65536):
                held = self._note(held + data, connection, to_server)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # One side left, so the other pump ends by itself.

    def _note(self, data: bytes, connection: int, to_server: bool) -> bytes:
        """Append the whole frames at the front of `data` and return the rest."""
        while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
            self._passed.append(Passed(self.name, connection, to_server, data[:end]))
            data = data[end:]
        return data


def main() -> None:
    """Capture everything again, or the frames of some codes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", type=int, choices=sorted(NAMES), metavar="CODE")
    only = frozenset(parser.parse_args().only or ())
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "golden")
        target.mkdir()
        for serialize_type in ("JSON", "ROCKETMQ"):
            home = Path(folder, serialize_type)
            with running(home, serialize_type) as (clients, name_server, broker, passed):
                exercise(clients, name_server, broker)
                if serialize_type == "JSON":  # a binary header has no room for codes beyond 65,535
                    pop(clients, name_server, broker)
                ask_by_hand(name_server, broker)
            passed += lose_a_master(home / "group", serialize_type)
            if serialize_type == "JSON":
                passed += ask_a_controller(home / "controlled")
            write_frames(target, home / "decoder", passed, serialize_type, only or NAMES.keys())
            if serialize_type == "JSON" and not only:
                write_store(target / "store", home / "broker" / "store", home / "decoder")
        if not only:
            write_ipv6_records(target, Path(folder, "ipv6"))
        replace_old_files(target, only)


def replace_old_files(new: Path, only: Collection[int]) -> None:
    """Put the new files in the place of the old ones, now that all of them are there."""
    prefixes = [f"{code}-" for code in only] or [""]
    for stale in (path for prefix in prefixes for kind in ("bin", "json") for path in HERE.glob(f"{prefix}*.{kind}")):
        stale.unlink()
    if not only:
        shutil.rmtree(HERE / "store", ignore_errors=True)
    shutil.copytree(new, HERE, dirs_exist_ok=True)


@contextmanager
def running(home: Path, serialize_type: str) -> Iterator[tuple[JavaClients, str, str, list[Passed]]]:
    """Java's NameServer, broker and clients, with taps in between; the broker has left cleanly at the end."""
    passed: list[Passed] = []
    jvm = (f"-Drocketmq.serialize.type={serialize_type}",)
    name_server = JavaNameServer(home / "nameserver", jvm=jvm)
    name_server.start()
    tap = Tap("name server", ("127.0.0.1", 0), ("127.0.0.1", name_server.port), passed)
    address = f"127.0.0.1:{tap.port}"
    broker = JavaBroker(
        home / "broker", address, name="broker-a", cluster="GoldenCluster", advertised_host=BROKER_HOST, jvm=jvm,
        properties=BROKER_SETTINGS,
    )  # fmt: skip
    broker.port = free_ports(-2, 0, 1)
    broker_tap = Tap("broker", (BROKER_HOST, broker.port), ("127.0.0.1", broker.port), passed)
    broker.start()
    old_client = "-Dorg.apache.rocketmq.client.sendSmartMsg=false"
    clients = JavaClients(home / "clients", jvm=jvm)
    old = JavaClients(home / "old", jvm=(*jvm, old_client))
    try:
        send_the_old_way(old, address)
        request_and_reply(clients, old, address, "golden-requests-to-old")  # who replies with long field names
        request_and_reply(clients, clients, address, "golden-requests")
        yield clients, address, broker.address, passed
    finally:
        old.close()
        clients.close()
        broker.stop()
        name_server.stop()
        tap.close()
        broker_tap.close()


BROKER_SETTINGS: dict[str, object] = {
    "enableSlaveActingMaster": "true",
    "compatibleWithOldNameSrv": "false",
    "brokerHeartbeatInterval": 1000,
    "syncBrokerMemberGroupPeriod": 1000,
    "forceRegister": "false",
    "registerNameServerPeriod": 10_000,
    "enablePropertyFilter": "true",
    "useServerSideResetOffset": "false",
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 500,
    "messageDelayLevel": "1s 2s 3s",
    "recallMessageEnable": "true",
    "mappedFileSizeCommitLog": 32_768,
    "mappedFileSizeConsumeQueue": 20 * 16,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
}


def send_the_old_way(clients: JavaClients, name_server: str) -> None:
    """Code 10, as clients before sendSmartMsg send."""
    producer = clients.producer("golden-old-producers", name_server)
    producer.send(message("golden", b"sent with long field names", tag="old", keys="k-old"))
    producer.stop()


def request_and_reply(clients: JavaClients, replier: JavaClients, name_server: str, topic: str) -> None:
    """A request, its reply through the broker, and the broker's push of it."""
    clients.mqadmin("updateTopic", "-n", name_server, "-c", "GoldenCluster", "-t", topic)
    requests = clients.producer("golden-requesters", name_server)
    replies = replier.producer("golden-repliers", name_server)
    consumer = replier.consumer(f"{topic}-group", name_server, topic)
    requests.request(message(topic, b"what is it?", tag="question"))
    replies.reply(consumer.wait_for_messages(1)[0], b"that is it")
    for client in (consumer, replies, requests):
        client.stop()


def exercise(clients: JavaClients, name_server: str, broker_address: str) -> None:
    """Everything that a Java client or mqadmin does in a day."""
    admin = clients.mqadmin
    admin("updateTopic", "-n", name_server, "-c", "GoldenCluster", "-t", "golden", "-r", "4", "-w", "4")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"topicName": f"golden-list-{number}", "perm": 6} for number in range(2)], file)
        file.flush()
        admin("updateTopicList", "-n", name_server, "-c", "GoldenCluster", "-f", file.name)
    produce(clients, name_server)
    pull_by_hand(clients, name_server)
    consume(clients, name_server, broker_address)
    administrate(clients, name_server)
    look_at_the_broker(clients, name_server, broker_address)
    admin("updateStaticTopic", "-n", name_server, "-t", "golden-static", "-qn", "2", "-b", "broker-a")


def produce(clients: JavaClients, name_server: str) -> None:
    """Plain, with properties, batch, long enough to roll the log over, compressed in three ways, transactional."""
    producer = clients.producer("golden-producers", name_server)
    (first,) = producer.send(message("golden", b"first of all", keys="first", tag="red"))
    message_id = first["offset_message_id"]
    clients.call("admin.resume_check", name_servers=name_server, topic="golden", message_id=message_id)
    producer.send(
        message("golden", b"hello, golden files", tag="red", keys="k1 k2", properties={"colour": "r\u00f6d", "n": 7})
    )
    producer.send(
        message("golden", b"0", tag="short"), message("golden", "Gr\u00fc\u00dfe \u4f60\u597d".encode(), tag="blue")
    )
    producer.send(message("golden", bytes(range(256)), tag="blue", flag=-5, queue_id=3, broker="broker-a"))
    producer.send(message("golden", b"later", tag="late", delay_level=1))
    timer = producer.send(message("golden", b"much later", tag="late", delay_s=600))[0]
    producer.recall("golden", timer["recall_handle"])
    producer.send_batch(*(message("golden", b"batch %d" % n, tag="red", keys=f"b{n}") for n in range(3)))
    producer.send_oneway(message("golden", b"one way"))
    producer.send(*(message("golden-roll", b"%04d" % n * 200, keys=f"r{n}") for n in range(40)))
    clients.mqadmin("producerConnection", "-n", name_server, "-g", "golden-producers", "-t", "golden")
    producer.stop()
    for topic in PACKED:
        compress_type = topic.removeprefix("golden-").upper()
        packer = clients.producer(f"{topic}-producers", name_server, compress_over=64, compress_type=compress_type)
        packer.send(message(topic, b"compress me, " * 20, tag="packed"))
        packer.stop()
    transact(clients, name_server)


def transact(clients: JavaClients, name_server: str) -> None:
    """Commit immediately, roll back immediately, and say only when asked."""
    producer = clients.producer("golden-transactions", name_server, transactional=True)
    for outcome in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"):
        properties = {"OUTCOME": outcome, "CHECKED": "COMMIT_MESSAGE"}
        producer.send(message("golden-transactions", outcome.encode(), keys=outcome, properties=properties))
    clients.wait_for(lambda: bool(clients.events("check")), "a transaction check")
    producer.stop()


def pull_by_hand(clients: JavaClients, name_server: str) -> None:
    """Pulls and offset questions whose queue is known."""
    clients.call("puller.start", name="puller", group="golden-pullers", name_servers=name_server)
    for topic in ("golden", *PACKED):
        for queue_id in range(4):
            queue = {"topic": topic, "broker": "broker-a", "queue_id": queue_id}
            clients.call("puller.pull", name="puller", queue_offset=0, count=32, **queue)
            clients.call("puller.offsets", name="puller", timestamp_ms=1, **queue)
    queue = {"topic": "golden", "broker": "broker-a", "queue_id": 3}
    clients.call("puller.pull", name="puller", queue_offset=0, count=32, tag="nobody-has-this-tag", **queue)
    clients.call("puller.pull", name="puller", queue_offset=10_000, count=32, **queue)
    clients.call("puller.offsets", name="puller", commit=1, **queue)
    clients.call("puller.stop", name="puller")


def consume(clients: JavaClients, name_server: str, broker_address: str) -> None:
    """Groups that grow and shrink, filter, order, fail, and are looked at by mqadmin meanwhile."""
    first = clients.consumer("golden-group", name_server, "golden", tag="red || blue")
    clients.wait_for(lambda: any(event.get("keys") == "first" for event in first.received), "the first message")
    second = clients.consumer("golden-group", name_server, "golden", tag="red || blue", instance="second")
    clients.call("lite.start", name="lite", group="golden-lite", name_servers=name_server, topic="golden")
    polled: list[Any] = []
    while len(polled) < 5:
        polled += clients.call("lite.poll", name="lite", timeout_ms=5000)
    clients.call("lite.stop", name="lite")
    clients.consumer("golden-sql", name_server, "golden", sql="colour IS NOT NULL").wait_for_messages(1)
    clients.consumer("golden-order", name_server, "golden", orderly=True).wait_for_messages(5)
    failing = clients.consumer("golden-failing", name_server, "golden", tag="red", fail_first=1)
    clients.wait_for(lambda: any(event["reconsume_times"] == 1 for event in failing.received), "a redelivery")
    group = ("-n", name_server, "-g", "golden-group")
    sent = next(event for event in first.received if event.get("keys") == "first")
    message_id = ("-t", "golden", "-i", sent["offset_message_id"])
    clients.mqadmin("queryMsgById", "-n", name_server, *message_id)
    clients.mqadmin("queryMsgById", *group, *message_id, "-d", first.client_id)
    clients.mqadmin("queryCq", "-n", name_server, "-t", "golden", "-q", "0", "-i", "0", "-c", "4", "-b", broker_address)
    clients.mqadmin("consumerConnection", *group)
    clients.mqadmin("consumerProgress", *group)
    clients.mqadmin("consumerStatus", *group)
    clients.mqadmin("getConsumerStatus", *group, "-t", "golden", "-i", first.client_id)
    clients.call("admin.consume_time_span", name_servers=name_server, topic="golden", group="golden-group")
    clients.mqadmin("resetOffsetByTime", *group, "-t", "golden", "-s", "now")
    second.stop()
    first.stop()


def pop(clients: JavaClients, name_server: str, broker_address: str) -> None:
    """Messages for a time: acked, one by one and together, kept for longer, and come again."""
    topic = "golden-pop"
    clients.mqadmin("updateTopic", "-n", name_server, "-c", "GoldenCluster", "-t", topic, "-r", "1", "-w", "1")
    producer = clients.producer("golden-poppers", name_server)
    producer.send(*(message(topic, b"popped %d" % n, tag="red", keys=f"p{n}") for n in range(6)))
    producer.stop()
    place = {"address": broker_address, "broker": "broker-a", "group": "golden-poppers", "topic": topic, "queue_id": -1}

    def popped(count: int, invisible_ms: int = 60_000) -> list[str]:
        found = clients.call("pop.pop", count=count, invisible_ms=invisible_ms, poll_ms=5_000, **place)
        return [item["properties"]["POP_CK"] for item in found["messages"]]

    clients.call("pop.notify", poll_ms=1_000, **place)
    (first,) = popped(1)
    clients.call("pop.ack", handle=first, **place)
    clients.call("pop.batch_ack", handles=popped(3), **place)
    (kept,) = popped(1)
    clients.call("pop.change", handle=kept, invisible_ms=1_000, **place)
    popped(1, 1_000)
    while not clients.call("pop.notify", poll_ms=5_000, **place):
        pass  # neither was acknowledged: both come again
    popped(2)
    clients.call("pop.polling", **place)
    group = "golden-popping"
    clients.mqadmin("updateSubGroup", "-n", name_server, "-c", "GoldenCluster", "-g", group)
    mode = ("-m", "POP", "-q", "0")
    clients.mqadmin("setConsumeMode", "-n", name_server, "-c", "GoldenCluster", "-t", topic, "-g", group, *mode)
    clients.consumer(group, name_server, topic, pop=True).wait_for_messages(1)
    clients.call("pop.pop", count=1, invisible_ms=60_000, poll_ms=0, **place)


def administrate(clients: JavaClients, name_server: str) -> None:
    """Everyday mqadmin, so that its requests and their answers are on record."""
    on_cluster = ("-c", "GoldenCluster")
    for line in (
        ("clusterList",),
        ("topicList",),
        ("topicList", *on_cluster),
        ("topicClusterList", "-t", "golden"),
        ("topicRoute", "-t", "golden"),
        ("topicRoute", "-t", "no-such-topic"),
        ("topicStatus", "-t", "golden"),
        ("brokerStatus", *on_cluster),
        ("getBrokerConfig", *on_cluster),
        ("updateBrokerConfig", *on_cluster, "-k", "transactionCheckMax", "-v", "14"),
        ("updateSubGroup", *on_cluster, "-g", "golden-made"),
        ("queryMsgByKey", "-t", "golden", "-k", "k1"),
        ("wipeWritePerm", "-b", "broker-a"),
        ("addWritePerm", "-b", "broker-a"),
        ("updateKvConfig", "-s", "golden-space", "-k", "key", "-v", "value"),
        ("deleteKvConfig", "-s", "golden-space", "-k", "key"),
        ("updateOrderConf", "-t", "golden", "-v", "broker-a:4", "-m", "put"),
        ("updateOrderConf", "-t", "golden", "-m", "get"),
        ("updateOrderConf", "-t", "no-such-topic", "-m", "get"),
        ("getNamesrvConfig",),
        ("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "44"),
        ("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/tmp/elsewhere"),
        ("deleteTopic", *on_cluster, "-t", "golden-zlib"),
        ("cleanExpiredCQ", *on_cluster),
        ("cleanUnusedTopic", *on_cluster),
        ("deleteExpiredCommitLog", *on_cluster),
        ("createUser", *on_cluster, "-u", "golden", "-p", "golden-secret", "-t", "Normal"),
        ("updateUser", *on_cluster, "-u", "golden", "-p", "golden-secret-2"),
        ("getUser", *on_cluster, "-u", "golden"),
        ("listUser", *on_cluster, "-f", "gold"),
        (
            "createAcl",
            *on_cluster,
            "-s",
            "User:golden",
            "-r",
            "Topic:a*,Group:*",
            "-a",
            "Pub,Sub",
            "-i",
            "10.0.0.0/8",
            "-d",
            "Allow",
        ),
        ("updateAcl", *on_cluster, "-s", "User:golden", "-r", "Topic:b", "-a", "All", "-d", "Deny"),
        ("getAcl", *on_cluster, "-s", "User:golden"),
        ("listAcl", *on_cluster, "-s", "User", "-r", "Topic"),
        ("deleteAcl", *on_cluster, "-s", "User:golden", "-r", "Topic:b"),
        ("deleteUser", *on_cluster, "-u", "golden"),
    ):
        clients.mqadmin(line[0], "-n", name_server, *line[1:])


def look_at_the_broker(clients: JavaClients, name_server: str, broker_address: str) -> None:
    """What mqadmin asks one broker, or tells it, besides the usual."""
    producer = clients.producer("golden-looked-at", name_server, send_timeout_ms=30_000)
    (sent,) = producer.send(message("golden", b"counted"))
    assert sent["offset_message_id"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"groupName": f"golden-list-{number}"} for number in range(2)], file)
        file.flush()
        clients.mqadmin("updateSubGroupList", "-n", name_server, "-b", broker_address, "-f", file.name)
    for command, *arguments in (
        ("statsAll", "-t", "golden"),
        ("brokerConsumeStats", "-b", broker_address),
        ("producer", "-b", broker_address),
        ("haStatus", "-b", broker_address),
        ("resetMasterFlushOffset", "-b", broker_address, "-o", "0"),
        ("updateColdDataFlowCtrGroupConfig", "-b", broker_address, "-g", "golden-group", "-v", "1000"),
        ("getColdDataFlowCtrInfo", "-b", broker_address),
        ("removeColdDataFlowCtrGroupConfig", "-b", broker_address, "-g", "golden-group"),
        ("setCommitLogReadAheadMode", "-b", broker_address, "-m", "0"),
    ):
        clients.mqadmin(command, "-n", name_server, *arguments)
    producer.stop()


def lose_a_master(home: Path, serialize_type: str) -> list[Passed]:
    """A NameServer that tells a slave what its group's smallest id is: the master comes, and leaves again."""
    passed: list[Passed] = []
    jvm = (f"-Drocketmq.serialize.type={serialize_type}",)
    settings = {"enableSlaveActingMaster": "true", "compatibleWithOldNameSrv": "false"}
    with JavaNameServer(home / "nameserver", properties={"notifyMinBrokerIdChanged": "true"}, jvm=jvm) as name_server:
        address = name_server.address
        group: dict[str, Any] = {"name": "broker-g", "cluster": "GoldenCluster", "properties": settings, "jvm": jvm}
        slave = JavaBroker(home / "slave", address, broker_id=1, advertised_host=BROKER_HOST, **group)
        slave.port = free_ports(-2, 0, 1)
        tap = Tap("broker", (BROKER_HOST, slave.port), ("127.0.0.1", slave.port), passed)
        slave.start()
        with JavaBroker(home / "master", address, **group):
            pass  # it comes, and leaves cleanly
        wait_for(
            lambda: any(b"offlineBrokerAddr" in item.frame for item in passed),
            "the NameServer to notify the slave that its master has left",
        )
        slave.kill()
        tap.close()
    return passed


def ask_a_controller(home: Path) -> list[Passed]:
    """Two brokers whose roles a controller decides: they join, one is elected by hand, and one is lost."""
    passed: list[Passed] = []
    controller = JavaController(home / "controller", advertised_host=BROKER_HOST)
    controller.port = free_ports(0)
    taps = [Tap("controller", (BROKER_HOST, controller.port), ("127.0.0.1", controller.port), passed)]
    settings = controlled(controller.address)
    with controller, JavaNameServer(home / "nameserver") as name_server:
        group = {"name": "broker-c", "cluster": "GoldenCluster", "advertised_host": BROKER_HOST, "properties": settings}
        brokers = [JavaBroker(home / f"broker-{number}", name_server.address, **group) for number in (1, 2)]  # type: ignore[arg-type]
        for broker in brokers:
            broker.port = free_ports(-2, 0, 1)
            taps.append(Tap("broker", (BROKER_HOST, broker.port), ("127.0.0.1", broker.port), passed))
            broker.start()
        ask(controller.address, 1001, {"brokerName": "broker-c", "masterBrokerId": "2", "masterEpoch": "1", "invokeTime": "1"},
            body=b'{"syncStateSet":[2],"syncStateSetEpoch":1}')  # fmt: skip
        wait_for(
            lambda: b'"notInSyncReplicas":[]' in ask(controller.address, 1006, body=b'["broker-c"]')[1],
            "both brokers in the sync set",
        )
        administrate_controllers(home / "clients", controller.address, name_server.address)
        brokers[0].kill()
        wait_for(
            lambda: ask(controller.address, 1004, {"brokerName": "broker-c"})[0]["extFields"]["masterEpoch"] > "1",
            "another election",
        )
        group_ids = {"clusterName": "GoldenCluster", "brokerName": "broker-c"}
        ask(controller.address, 1002, {**group_ids, "brokerId": "1", "designateElect": "true", "invokeTime": "1"})
        ask(
            controller.address,
            1011,
            {**group_ids, "brokerControllerIdsToClean": "1", "isCleanLivingBroker": "false", "invokeTime": "1"},
        )
        ask(controller.address, 1013, {**group_ids, "appliedBrokerId": "2", "registerCheckCode": "nobody:1;1"})
        ask(controller.address, 1004, {"brokerName": "no-such-broker"})
        ask(controller.address, 904, {**group_ids, "brokerAddr": "nobody:1"})
        brokers[1].kill()
    for tap in taps:
        tap.close()
    return passed


def administrate_controllers(home: Path, controller: str, name_server: str) -> None:
    """Every command of mqadmin about controllers."""
    clients = JavaClients(home)
    for command, *arguments in (
        ("getControllerMetaData", "-a", controller),
        ("getSyncStateSet", "-a", controller, "-b", "broker-c"),
        ("getBrokerEpoch", "-n", name_server, "-b", "broker-c"),
        ("getControllerConfig", "-a", controller),
        ("updateControllerConfig", "-a", controller, "-k", "electMasterMaxRetryCount", "-v", "4"),
        ("updateControllerConfig", "-a", controller, "-k", "configStorePath", "-v", "/tmp/elsewhere"),
        ("cleanBrokerMetadata", "-a", controller, "-bn", "broker-c", "-c", "GoldenCluster"),
        ("electMaster", "-a", controller, "-b", "1", "-bn", "broker-c", "-c", "GoldenCluster"),
    ):
        clients.mqadmin(command, *arguments)
    clients.close()


def ask_by_hand(name_server: str, broker: str) -> None:
    """What no 5.3.3 program asks: old versions' JSON dialect, an unknown code, lists without a tool."""
    questions: list[tuple[int, int, dict[str, str] | None]] = [
        (105, 315, {"topic": "golden"}),
        (105, 315, {"topic": "golden", "acceptStandardJsonOnly": "true"}),
        (106, 315, None),
        (219, 479, {"namespace": "ORDER_TOPIC_CONFIG"}),
        (219, 479, {"namespace": "no-such-space"}),
        (224, 479, {"cluster": "GoldenCluster"}),
        (304, 479, None),
        (901, 479, {"clusterName": "GoldenCluster", "brokerName": "no-such-broker"}),
        (99999, 479, None),
    ]
    for code, version, ext_fields in questions:
        ask(name_server, code, ext_fields, version=version)
    queue = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "topicSysFlag": 3, "writeQueueNums": 2}
    route = {"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queue]}
    ask(name_server, 217, {"topic": "golden-registered"}, body=json.dumps(route).encode())
    for code in (311, 312, 313):
        ask(name_server, code)
    for code, ext_fields in (
        (21, None),
        (43, None),
        (45, None),
        (60, None),
        (61, None),
        (201, None),
        (305, None),
        (308, {"compareGroup": "golden-group", "topic": "golden"}),
        (351, {"topic": "golden"}),
        (352, {"group": "golden-group"}),
        (354, {"topic": "golden", "checkStoreTime": "0"}),
        (355, {"configType": "topics;subscriptionGroups;consumerOffsets;"}),
        (402, None),
        (906, None),
        (200052, {"consumerGroup": "golden-peekers", "topic": "golden-pop", "queueId": "-1", "maxMsgNums": "2"}),
        (200052, {"consumerGroup": "golden-peekers", "topic": "golden-pop", "queueId": "0", "maxMsgNums": "0"}),
        (200056, None),
        (314, {"srcGroup": "golden-group", "destGroup": "golden-twin", "topic": "golden", "offline": "true"}),
        (343, {"group": "golden-group"}),
        (345, {"group": "golden-group", "topic": "golden"}),
        (353, {"group": "golden-group", "topic": "golden"}),
        (207, {"groupName": "golden-made"}),
    ):
        ask(broker, code, ext_fields)


def write_frames(target: Path, home: Path, passed: list[Passed], serialize_type: str, wanted: Collection[int]) -> None:
    """Write the first request of each kind, and the first answer of each code it got."""
    decoder = JavaClients(home)
    try:
        asked: dict[tuple[str, int, bool, int], str] = {}
        written: set[str] = set()
        for item in list(passed):
            header = decoder.call("decode.frame", bytes=base64.b64encode(item.frame).decode())
            if not header["flag"] & 1:
                name = name_of(header, item.frame)
                asked[item.tap, item.connection, item.to_server, header["opaque"]] = name
                stem = f"{name}-request"
            else:
                asker = (item.tap, item.connection, not item.to_server, header["opaque"])
                if asker not in asked:
                    continue
                stem = f"{asked[asker]}-answer" + (f"-{header['code']}" if header["code"] else "")
            code = int(stem.split("-", 1)[0])
            if serialize_type == "ROCKETMQ":
                if code not in IN_BINARY_TOO or header["serialize_type"] != "ROCKETMQ":
                    continue
                stem += "-binary"
            if stem in written or len(item.frame) > BODY_MAX or code not in wanted:
                continue
            written.add(stem)
            write_frame(target, decoder, stem, item, header)
        print(f"{len(written)} frames with {serialize_type} headers")
    finally:
        decoder.close()


def name_of(header: dict[str, Any], frame: bytes) -> str:
    """Name a request: its code, its name, and what is special about it."""
    fields = header.get("ext_fields") or {}
    name = f"{header['code']}-{NAMES.get(header['code'], 'unnamed')}"
    topic = fields.get("b") or fields.get("topic") or ""
    if topic in PACKED and header["code"] in (11, 310):
        name += topic.removeprefix("golden")
    if b'"consumerDataSet":[{' in frame:
        name += "-of-a-consumer"
    if header["version"] == 315:
        name += "-asked-by-4.5.1"
    if "acceptStandardJsonOnly" in fields and header["version"] == 315:
        name += "-standard-json"
    if fields.get("b") == "golden-transactions":
        name += "-half"
    if header["code"] == 200050 and fields.get("pollTime") == "0":
        name += "-without-waiting"
    if "offlineBrokerAddr" in fields:
        name += "-without-its-master"
    return name


def write_frame(target: Path, decoder: JavaClients, stem: str, item: Passed, header: dict[str, Any]) -> None:
    """Write one frame and what Java reads in it."""
    direction = f"to the {item.tap}" if item.to_server else f"from the {item.tap}"
    expected: dict[str, Any] = {"origin": {"rocketmq": VERSION, "way": direction, "command": COMMAND}, "header": header}
    body = item.frame[len(item.frame) - header["body_size"] :]
    if stem.startswith(("11-", "361-", "33-", "12-", "39-")) and header["body_size"]:
        encoded = base64.b64encode(body).decode()
        expected["records"] = decoder.call("decode.records", bytes=encoded, decompress=True)
    (target / f"{stem}.bin").write_bytes(item.frame)
    (target / f"{stem}.json").write_text(json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def write_store(target: Path, store: Path, home: Path) -> None:
    """Copy a stopped broker's store, and write down what Java reads in its log."""
    for folder in ("commitlog", "consumequeue", "index", "config"):
        shutil.copytree(store / folder, target / folder, ignore=shutil.ignore_patterns("*.bak"))
    shutil.copy(store / "checkpoint", target / "checkpoint")
    decoder = JavaClients(home)
    try:
        records: list[Any] = []
        for segment in sorted((target / "commitlog").iterdir()):
            records += read_records(decoder, segment.read_bytes())
    finally:
        decoder.close()
    expected = {"origin": {"rocketmq": VERSION, "command": COMMAND}, "records": records}
    (target / "records.json").write_text(json.dumps(expected, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"store of {len(records)} records")


def read_records(decoder: JavaClients, segment: bytes) -> Any:
    """What Java reads in the used part of a segment."""
    encoded = base64.b64encode(segment[: used_size(segment)]).decode()
    return decoder.call("decode.records", bytes=encoded, decompress=True)


def write_ipv6_records(target: Path, home: Path) -> None:
    """One record of each way in which its born host (the client) and its store host (the broker) may be IPv6."""
    with JavaNameServer(home / "nameserver") as name_server:
        for born, stored in (("::1", "::1"), ("::1", BROKER_HOST), ("127.0.0.1", "::1")):
            kind = f"born-v{6 if ':' in born else 4}-stored-v{6 if ':' in stored else 4}"
            write_ipv6_record(target / f"record-{kind}", home / kind, name_server.address, born, stored)


def write_ipv6_record(stem: Path, home: Path, name_server: str, born: str, stored: str) -> None:
    """Send one message to a broker that calls itself `stored` and listens at `born`; a tap joins the two."""
    settings = {"bindAddress": born}
    broker = JavaBroker(home / "broker", name_server, name=home.name, advertised_host=stored, properties=settings)
    broker.port = free_ports(-2, 0, 1)
    tap = None if born == stored else Tap("broker", (stored, broker.port), (born, broker.port), [])
    with broker:
        clients = JavaClients(home / "clients")
        producer = clients.producer("golden-ipv6", name_server)
        producer.send(message("golden-ipv6", b"from far away", tag="six"))
        producer.stop()
        broker.kill()
    log = next((broker.store / "commitlog").iterdir()).read_bytes()
    records = read_records(clients, log)
    clients.close()
    if tap is not None:
        tap.close()
    stem.with_suffix(".bin").write_bytes(log[: used_size(log)])
    expected = {"origin": {"rocketmq": VERSION, "command": COMMAND}, "records": records}
    stem.with_suffix(".json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def used_size(segment: bytes) -> int:
    """Return where the records of a segment end: at its filler or at its first unwritten byte."""
    place = 0
    while place + 8 <= len(segment):
        size, magic = struct.unpack_from(">II", segment, place)
        if magic == MAGIC_BLANK or size == 0:
            return place
        place += size
    return place


if __name__ == "__main__":
    main()
