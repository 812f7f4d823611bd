"""mqadmin's commands about brokers, topics and figures, run against Java's broker and ours: they print the same.

Names and addresses are replaced by words, and whatever tells a time, a rate or a size of the disk by `#`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.conftest import JavaCluster
from interop.peers import JavaClients, PeerError, ask, message
from orbitmq.testing import BlockingCluster
from orbitmq.wire import fastjson

TOPIC, GROUP = "side-by-side", "side-by-side-group"
CHANGING = re.compile(r"\b\d+\.\d+\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?|\b\d{13}\b|\b\d+/\d+\b")


@dataclass(frozen=True)
class Side:
    """One of the two brokers."""

    cluster: str
    broker: str
    address: str

    def words(self, text: str) -> str:
        """Return a text in which the broker's names are words, without what changes from one run to the next."""
        for name, word in ((self.address, "ADDRESS"), (self.cluster, "CLUSTER"), (self.broker, "BROKER")):
            text = re.sub(rf"\b{re.escape(name)}\b", word, text)
        lines = [re.sub(r"\s+", " ", CHANGING.sub("#", line)).strip() for line in text.splitlines()]
        return "\n".join(line for line in lines if line)


Run = Callable[..., str]


@pytest.fixture(scope="module")
def sides(java_cluster: JavaCluster, guest: BlockingCluster) -> tuple[Side, Side]:
    """Java's broker and ours, which have the same NameServer."""
    broker = java_cluster.broker
    (address,) = guest.brokers.values()
    return Side(broker.cluster, broker.name, broker.address), Side("GuestCluster", "guest", address)


@pytest.fixture(scope="module")
def name_server(java_cluster: JavaCluster) -> str:
    """The NameServer of both."""
    return java_cluster.name_server.address


@pytest.fixture(scope="module")
def prepared(
    java: JavaClients, sides: tuple[Side, Side], name_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """A topic with messages and a group that has read some of them, on both; yields how a command is run on one."""
    files = tmp_path_factory.mktemp("mqadmin")
    (files / "topics.json").write_text(json.dumps([{"topicName": f"{TOPIC}-{number}"} for number in range(2)]))
    (files / "groups.json").write_text(json.dumps([{"groupName": f"{GROUP}-{number}"} for number in range(2)]))

    def run(side: Side, command: str, *arguments: str) -> str:
        places = {"cluster": side.cluster, "broker": side.broker, "address": side.address, "files": str(files)}
        try:
            return java.mqadmin(command, "-n", name_server, *(text.format(**places) for text in arguments))
        except PeerError as error:
            return f"FAILED {error}"

    for side in sides:
        run(side, "updateTopic", "-c", "{cluster}", "-t", TOPIC, "-r", "2", "-w", "2")
        run(side, "updateSubGroup", "-c", "{cluster}", "-g", GROUP)
    producer = java.producer(f"{TOPIC}-producers", name_server, send_timeout_ms=30_000)
    for side in sides:
        producer.send(*(message(TOPIC, b"%d" % n, broker=side.broker, queue_id=0) for n in range(4)))
        offset = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "1"}
        ask(side.address, 15, offset)
    yield run
    producer.stop()


BY_CLUSTER, BY_ADDRESS = ("-c", "{cluster}"), ("-b", "{address}")
ALL_COMMANDS = (
    ("updateTopic", *BY_CLUSTER, "-t", "{broker}-made", "-r", "4", "-w", "3", "-p", "6", "-a", "+message.type=FIFO"),
    ("updateTopic", *BY_ADDRESS, "-t", "{broker}-made", "-r", "4", "-w", "3", "-o", "true"),
    ("updateTopic", *BY_ADDRESS, "-t", "{broker}-made", "-a", "+message.type=NONE"),
    ("updateTopic", *BY_ADDRESS, "-t", "{broker}-made", "-a", "+message.type=MIXED"),
    ("updateTopic", *BY_ADDRESS, "-t", "{broker}-made", "-a", "+queue.type=BatchCQ"),
    ("updateTopic", *BY_ADDRESS, "-t", "TBW102", "-r", "1", "-w", "1"),
    ("updateTopicList", *BY_ADDRESS, "-f", "{files}/topics.json"),
    ("updateTopicPerm", *BY_ADDRESS, "-t", "{broker}-made", "-p", "4"),
    ("updateTopicPerm", *BY_CLUSTER, "-t", "{broker}-made", "-p", "4"),
    ("topicRoute", "-t", "{broker}-made"),
    ("topicRoute", "-t", "{broker}-made", "-l"),
    ("topicStatus", "-t", "{broker}-made"),
    ("topicClusterList", "-t", "{broker}-made"),
    ("allocateMQ", "-t", "{broker}-made", "-i", "ip1,ip2"),
    ("statsAll", "-t", "{broker}-made"),
    ("deleteTopic", *BY_CLUSTER, "-t", "{broker}-made"),
    ("updateSubGroupList", *BY_ADDRESS, "-f", "{files}/groups.json"),
    ("updateBrokerConfig", *BY_ADDRESS, "-k", "transactionCheckMax", "-v", "15"),
    ("updateBrokerConfig", *BY_CLUSTER, "-k", "transactionCheckMax", "-v", "15"),
    ("cleanExpiredCQ", *BY_ADDRESS),
    ("deleteExpiredCommitLog", *BY_ADDRESS),
    ("cleanUnusedTopic", *BY_ADDRESS),
    ("rocksDBConfigToJson", *BY_CLUSTER, "-t", "topics"),
    ("exportPopRecord", *BY_CLUSTER, "-d", "true"),
    ("resetMasterFlushOffset", *BY_ADDRESS, "-o", "0"),
    ("getColdDataFlowCtrInfo", *BY_ADDRESS),
    ("removeColdDataFlowCtrGroupConfig", *BY_ADDRESS, "-g", GROUP),
    ("setCommitLogReadAheadMode", *BY_ADDRESS, "-m", "0"),
    ("setCommitLogReadAheadMode", *BY_ADDRESS, "-m", "7"),
)
EXPORTS = ("exportConfigs", "exportMetadata", "exportMetrics")
IS_WHOLE = "ORBITMQ_ALL_COMMANDS" in os.environ
"""`make proof ARGS="--only compat/commands"` runs all of them; otherwise each command is run in its first form."""
COMMANDS = (
    ALL_COMMANDS if IS_WHOLE else tuple({command[0]: command for command in reversed(ALL_COMMANDS)}.values())[::-1]
)


REFUSED = {
    command
    for command in COMMANDS
    if {"+message.type=NONE", "+message.type=MIXED", "+queue.type=BatchCQ", "TBW102"} & {*command}
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_the_same(prepared: Run, sides: tuple[Side, Side], command: tuple[str, ...]) -> None:
    printed = [side.words(prepared(side, *command)) for side in sides]
    assert printed[1] == printed[0]
    # What is refused goes to stderr, with an exception's stack.
    assert bool(printed[0]) is (command not in REFUSED)


def test_settings_that_are_black_listed_are_refused_as_java_does(sides: tuple[Side, Side]) -> None:
    answers = [ask(side.address, 25, body=b"brokerConfigPath=/tmp/elsewhere\n")[0] for side in sides]
    assert [(answer["code"], answer["remark"]) for answer in answers] == 2 * [
        (16, "Can not update config in black list.")
    ]


def test_every_setting_and_every_run_time_value_of_javas_is_shown(prepared: Run, sides: tuple[Side, Side]) -> None:
    for command in ("getBrokerConfig", "brokerStatus"):
        java, ours = (
            {line.split()[0].partition("/")[0] for line in prepared(side, command, *BY_ADDRESS).splitlines() if line}
            for side in sides
        )
        missing = java - ours - {f"============{sides[0].address}============"}
        # One for each level that a message of this broker was delayed by, in whatever test.
        assert {name for name in missing if not name.startswith("scheduleMessageOffset_")} == set()


def test_how_far_groups_are_behind_is_the_same(prepared: Run, sides: tuple[Side, Side]) -> None:
    places = []
    for side in sides:
        body = ask(side.address, 317, {"isOrder": "false"})[1]
        groups = {
            name: topics for listed in fastjson.loads(body)["consumeStatsList"] for name, topics in listed.items()
        }
        (topic,) = groups[GROUP]
        places.append(
            {
                dict(queue)["queueId"]: (place["brokerOffset"], place["consumerOffset"], place["lastTimestamp"] > 0)
                for queue, place in topic["offsetTable"].items()
            }
        )
    assert places[1] == places[0] == {0: (4, 1, True), 1: (0, 0, False)}
    # This command works once in a JVM: it keeps its client, and closes it.
    printed = sides[1].words(prepared(sides[1], "brokerConsumeStats", *BY_ADDRESS))
    assert f"{TOPIC} {GROUP} BROKER 0 4 1 3 #" in printed


def test_the_cluster_list_has_as_many_columns_for_each(prepared: Run, sides: tuple[Side, Side]) -> None:
    clusters = prepared(sides[0], "clusterList").splitlines()
    java, ours = (next(line for line in clusters if side.address in line) for side in sides)
    assert len(re.split(r"\s{2,}", ours.strip())) == len(re.split(r"\s{2,}", java.strip()))
    assert TOPIC in prepared(sides[0], "topicList").split()


if IS_WHOLE:

    def test_each_broker_is_asked_for_queues_in_rocksdb(prepared: Run, sides: tuple[Side, Side]) -> None:
        for side in sides:
            printed = prepared(side, "checkRocksdbCqWriteProgress", *BY_CLUSTER, "-t", TOPIC)
            assert {f"{each.broker} check doing" in printed for each in sides} == {True}


def test_producers_and_slaves_are_shown_alike(prepared: Run, sides: tuple[Side, Side]) -> None:
    def shapes(text: str) -> list[str]:
        return sorted({re.sub(r"\d+", "0", re.sub(r"\S+@\d+#\d+", "ID", line)) for line in text.splitlines()})

    java, ours = (prepared(side, "haStatus", *BY_ADDRESS) for side in sides)
    assert shapes(sides[1].words(ours)) == shapes(sides[0].words(java))
    for side in sides:
        assert f"{TOPIC}-producers" in prepared(side, "producer", *BY_ADDRESS)


@pytest.mark.parametrize("command", EXPORTS if IS_WHOLE else EXPORTS[:1])
def test_an_export_has_the_same_keys(prepared: Run, sides: tuple[Side, Side], tmp_path: Path, command: str) -> None:
    keys = []
    for side in sides:
        folder = tmp_path / side.broker
        folder.mkdir()
        printed = prepared(side, command, *BY_CLUSTER, "-f", str(folder))
        (file,) = folder.iterdir()
        assert "FAILED" not in printed
        keys.append(_keys(json.loads(side.words(file.read_text()).replace("#", "0"))))
    assert keys[1] == keys[0]


def _keys(value: object, depth: int = 0) -> object:
    """Return a document's keys, of as many levels as have the same in both; of tables only what was made here."""
    if not isinstance(value, dict) or depth == 2:
        return None
    made = {name: value[name] for name in (TOPIC, GROUP) if name in value}
    return {key: _keys(item, depth + 1) for key, item in (made or value).items()}
