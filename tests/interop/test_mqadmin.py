"""`orbitmq mqadmin` next to Java's mqadmin, over a Java cluster and ours: the same fields in the same order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.conftest import JavaCluster
from interop.peers import JavaClients
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.cli.main import main
from orbitmq.cli.mqadmin.table import SUBCOMMANDS
from orbitmq.testing import BlockingCluster, LocalCluster

TIMEOUT_MS = 30_000
MESSAGE_COUNT = 8
VOLATILE = re.compile(
    r"\d+\.\d+|\b\d+-\d+(?=\()|(?<=\()\d+,\d+ms|\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:]\d{3}"
    r"|\b2\d{16}\b|\b\d{13}(?=/)"
)
"""Loads, ages and times: of two questions each has its own."""
READING = [
    ("clusterList",),
    ("clusterList", "-m"),
    ("topicList",),
    ("topicList", "-c"),
    ("topicRoute", "-t", "{topic}"),
    ("topicRoute", "-t", "{topic}", "-l"),
    ("topicStatus", "-t", "{topic}"),
    ("topicStatus", "-t", "{topic}", "-c", "{cluster}"),
    ("topicClusterList", "-t", "{topic}"),
    ("getNamesrvConfig",),
    ("brokerStatus", "-b", "{address}"),
    ("brokerStatus", "-c", "{cluster}"),
    ("getBrokerConfig", "-b", "{address}"),
    ("getBrokerConfig", "-c", "{cluster}"),
    ("producer", "-b", "{address}"),
    ("allocateMQ", "-t", "{topic}", "-i", "10.0.0.1,10.0.0.2"),
    ("consumerProgress",),
    ("consumerProgress", "-g", "{group}"),
    ("consumerProgress", "-g", "{group}", "-t", "{topic}", "-s", "true"),
    ("consumerStatus", "-g", "{group}"),
    ("consumerStatus", "-g", "{group}", "-i", "{client}"),
    ("consumerConnection", "-g", "{group}"),
    ("consumerConnection", "-g", "{group}", "-b", "{address}"),
    ("producerConnection", "-g", "{producers}", "-t", "{topic}"),
    ("getConsumerConfig", "-g", "{group}"),
    ("brokerConsumeStats", "-b", "{address}"),
]
OPTIONS = [
    ("brokerConsumeStats", "-b", "{address}", "-l", "1000", "-o", "true", "-t", "3000"),
    ("consumerStatus", "-g", "{group}", "-i", "{client}", "-s"),
]
"""Commands that read, with options that cannot be compared: some of Java's run once in a process, others tell of the moment."""
CHANGING = [
    ("updateTopic", "-c", "{cluster}", "-t", "{new}", "-r", "4", "-w", "2", "-p", "6"),
    ("updateTopic", "-b", "{address}", "-t", "{new}-ordered", "-o", "true", "-a", "+message.type=FIFO"),
    ("updateTopicPerm", "-c", "{cluster}", "-t", "{new}", "-p", "4"),
    ("deleteTopic", "-c", "{cluster}", "-t", "{new}"),
    ("updateOrderConf", "-t", "{new}", "-m", "put", "-v", "{broker}:4"),
    ("updateOrderConf", "-t", "{new}", "-m", "get"),
    ("updateOrderConf", "-t", "{new}", "-m", "delete"),
    ("updateKvConfig", "-s", "{new}", "-k", "key", "-v", "value"),
    ("deleteKvConfig", "-s", "{new}", "-k", "key"),
    ("wipeWritePerm", "-b", "{broker}"),
    ("addWritePerm", "-b", "{broker}"),
    ("updateNamesrvConfig", "-k", "scanNotActiveBrokerInterval", "-v", "5000"),
    ("updateBrokerConfig", "-b", "{address}", "-k", "fileReservedTime", "-v", "72"),
    ("updateBrokerConfig", "-c", "{cluster}", "-k", "fileReservedTime", "-v", "72"),
    ("cleanUnusedTopic", "-c", "{cluster}"),
    ("cleanExpiredCQ", "-b", "{address}"),
    ("deleteExpiredCommitLog", "-c", "{cluster}"),
    ("deleteTopic", "-c", "{cluster}", "-t", "{new}-ordered"),
    (
        "updateSubGroup",
        "-c",
        "{cluster}",
        "-g",
        "{new}",
        "-s",
        "true",
        "-m",
        "true",
        "-d",
        "false",
        "-q",
        "2",
        "-r",
        "3",
    ),
    ("updateSubGroup", "-b", "{address}", "-g", "{new}-ordered", "-o", "true", "-i", "0", "-w", "1", "-a", "false"),
    (
        "updateSubGroup",
        "-b",
        "{address}",
        "-g",
        "{new}",
        "-p",
        '{{"type":"EXPONENTIAL","exponentialRetryPolicy":{{"max":9}}}}',
    ),
    ("setConsumeMode", "-c", "{cluster}", "-t", "{topic}", "-g", "{new}", "-m", "POP", "-q", "4"),
    ("setConsumeMode", "-b", "{address}", "-t", "{topic}", "-g", "{new}", "-m", "PULL"),
    ("resetOffsetByTime", "-g", "{new}", "-t", "{topic}", "-s", "1000"),
    ("resetOffsetByTime", "-g", "{new}", "-t", "{topic}", "-s", "2026-01-31#23:59:59:999", "-f", "false"),
    ("resetOffsetByTime", "-g", "{new}", "-t", "{topic}", "-s", "1000", "-b", "{address}", "-q", "0", "-o", "1"),
    ("resetOffsetByTime", "-g", "{new}", "-t", "{topic}", "-s", "1000", "-b", "{address}", "-q", "0"),
    ("skipAccumulatedMessage", "-g", "{new}", "-t", "{topic}"),
    ("cloneGroupOffset", "-s", "{group}", "-d", "{new}", "-t", "{topic}"),
    ("deleteSubGroup", "-b", "{address}", "-g", "{new}-ordered", "-r", "true"),
    ("deleteSubGroup", "-c", "{cluster}", "-g", "{new}"),
]
Ask = Callable[..., str]


@pytest.fixture
def ours(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run our mqadmin in this process; return exit code, stdout and stderr."""

    def call(name_servers: str, *words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["mqadmin", *words, "-n", name_servers])
        return int(code), *capfd.readouterr()

    return call


def names_of(java: JavaClients, servers: str, cluster: str, broker: str, address: str) -> Iterator[dict[str, str]]:
    """Fill a topic, read it with a group that stays online, and yield the names that command lines hold."""
    topic, group, producers = "mqadmin", "mqadmin-readers", "mqadmin-makers"
    java.mqadmin("updateTopic", "-n", servers, "-c", cluster, "-t", topic, "-r", "4", "-w", "4")
    with Producer(producers, servers, send_timeout_ms=TIMEOUT_MS) as producer:
        for number in range(MESSAGE_COUNT):
            producer.send(Message(topic, b"%d" % number, keys=["k"], tag=f"tag-{number % 2}"))
        consumer = java.consumer(group, servers, topic)
        consumer.wait_for_messages(MESSAGE_COUNT)
        progress = ""
        while f"{topic} " not in progress or "Consume Diff Total: 0" not in progress:
            progress = java.mqadmin("consumerProgress", "-n", servers, "-g", group)  # it commits every five seconds
        while producers not in java.mqadmin("producer", "-n", servers, "-b", address):
            pass
        names = {"topic": topic, "group": group, "producers": producers, "client": consumer.client_id}
        yield names | {"cluster": cluster, "broker": broker, "address": address}
        consumer.stop()


@pytest.fixture(scope="module")
def java_names(java: JavaClients, java_cluster: JavaCluster) -> Iterator[dict[str, str]]:
    """Names on Java's cluster."""
    broker = java_cluster.broker
    yield from names_of(java, java_cluster.name_server.address, broker.cluster, broker.name, broker.address)


@pytest.fixture(scope="module")
def our_cluster() -> Iterator[BlockingCluster]:
    """A NameServer and a broker of ours, whose settings change here."""
    with LocalCluster.running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def our_names(java: JavaClients, our_cluster: BlockingCluster) -> Iterator[dict[str, str]]:
    """Names on our cluster."""
    ((broker, address),) = our_cluster.brokers.items()
    yield from names_of(java, our_cluster.name_servers, "DefaultCluster", broker, address)


def fields(text: str) -> list[list[str]]:
    """Return the words of each line, loads and times made alike; of a JSON document its values in one order."""
    if text.lstrip().startswith("{"):
        bare = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text)  # fastjson leaves numbers that are keys bare
        return [[json.dumps(_plain(json.loads(bare)), sort_keys=True)]]
    return [VOLATILE.sub("~", line).split() for line in text.splitlines() if line.strip() and "RocketMQLog" not in line]


def shares(document: list[list[str]]) -> list[list[str]]:
    """Return how many queues each client has."""
    return [[f"{client}: {len(queues)}" for client, queues in json.loads(document[0][0])["result"].items()]]


def _plain(value: Any) -> Any:
    """Leave out what a dialect adds for nothing."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if part not in (None, {}, [])}
    return [_plain(part) for part in value] if isinstance(value, list) else value


UNORDERED = {
    "topicList", "getNamesrvConfig", "getBrokerConfig", "producer", "consumerProgress", "consumerStatus", "consumerConnection",
    "brokerConsumeStats",
}  # fmt: skip
"""Java's order is its hash tables'."""


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_prints_what_javas_does(
    java: JavaClients,
    java_cluster: JavaCluster,
    java_names: dict[str, str],
    ours: Any,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    line = [word.format(**java_names) for word in words]
    servers = java_cluster.name_server.address
    expected = fields(java.mqadmin(*line, "-n", servers))
    code, out, err = ours(servers, *line)
    assert (code, err) == (0, "")
    found = fields(out)
    if words[0] in UNORDERED:
        expected, found = sorted(expected), sorted(found)
    if words[0] == "brokerStatus":
        keys = [[line[: line.index(":")] if ":" in line else line[:1] for line in lines] for lines in (expected, found)]
        expected, found = keys  # its values go on meanwhile
    if words[0] == "allocateMQ":
        expected, found = shares(expected), shares(found)  # it shares queues in the order of a hash table
    if words[0] == "topicStatus":
        expected = expected[:-1]  # its last line is the rate of the second before
    assert found == expected


def test_a_changing_command_prints_what_javas_does(
    java: JavaClients, java_cluster: JavaCluster, java_names: dict[str, str], ours: Any
) -> None:
    servers = java_cluster.name_server.address
    for words in CHANGING:
        theirs = [word.format(**java_names, new="changed-theirs") for word in words]
        own = [word.format(**java_names, new="changed") for word in words]
        expected = fields(java.mqadmin(*theirs, "-n", servers).replace("-theirs", ""))
        code, out, err = ours(servers, *own)
        assert (code, err) == (0, ""), words
        found = fields(out)
        if words[0] in ("resetOffsetByTime", "skipAccumulatedMessage"):
            expected, found = sorted(expected), sorted(found)
        assert found == expected, words


@pytest.mark.parametrize("words", [*READING, *OPTIONS], ids=" ".join)
def test_a_reading_command_works_on_our_cluster_and_gives_json(
    our_cluster: BlockingCluster,
    our_names: dict[str, str],
    ours: Any,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line = [word.format(**our_names) for word in words]
    code, out, err = ours(our_cluster.name_servers, *line)
    assert (code, err) == (0, "")
    assert out
    code, out, _ = ours(our_cluster.name_servers, "--output", "json", *line)
    assert code == 0
    assert json.loads(out)


def test_the_changing_commands_work_on_our_cluster_and_give_json(
    our_cluster: BlockingCluster, our_names: dict[str, str], ours: Any
) -> None:
    for words in CHANGING:
        line = [word.format(**our_names, new="changed") for word in words]
        code, out, err = ours(our_cluster.name_servers, "--output", "json", *line)
        assert (code, err) == (0, ""), words
        assert json.loads(out), words


def test_every_subcommand_of_the_table_is_tried_here_or_says_why_it_is_not_there() -> None:
    tried = {words[0] for words in (*READING, *CHANGING)}
    assert {name for name, one in SUBCOMMANDS.items() if one.family} == tried
    assert all(one.reason for one in SUBCOMMANDS.values() if not one.family)
