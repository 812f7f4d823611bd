"""`orbitmq mqadmin` next to Java's mqadmin, over a Java cluster and ours: the same fields in the same order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from interop.conftest import JavaCluster
from interop.peers import JavaClients
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.cli.main import main
from orbitmq.cli.mqadmin.table import SUBCOMMANDS
from orbitmq.testing import BlockingCluster

TIMEOUT_MS = 30_000
VOLATILE = re.compile(r"\d+\.\d+|\b\d+-\d+(?=\()|(?<=\()\d+,\d+ms|\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:]\d{3}")
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
]
CHANGING = [
    ("updateTopic", "-c", "{cluster}", "-t", "{topic}-new", "-r", "4", "-w", "2", "-p", "6"),
    ("updateTopic", "-b", "{address}", "-t", "{topic}-ordered", "-o", "true", "-a", "+message.type=FIFO"),
    ("updateTopicPerm", "-c", "{cluster}", "-t", "{topic}-new", "-p", "4"),
    ("deleteTopic", "-c", "{cluster}", "-t", "{topic}-new"),
    ("updateOrderConf", "-t", "{topic}", "-m", "put", "-v", "{broker}:4"),
    ("updateOrderConf", "-t", "{topic}", "-m", "get"),
    ("updateOrderConf", "-t", "{topic}", "-m", "delete"),
    ("updateKvConfig", "-s", "{topic}", "-k", "key", "-v", "value"),
    ("deleteKvConfig", "-s", "{topic}", "-k", "key"),
    ("wipeWritePerm", "-b", "{broker}"),
    ("addWritePerm", "-b", "{broker}"),
    ("updateNamesrvConfig", "-k", "scanNotActiveBrokerInterval", "-v", "5000"),
    ("updateBrokerConfig", "-b", "{address}", "-k", "fileReservedTime", "-v", "72"),
    ("updateBrokerConfig", "-c", "{cluster}", "-k", "fileReservedTime", "-v", "72"),
    ("cleanUnusedTopic", "-c", "{cluster}"),
    ("cleanExpiredCQ", "-b", "{address}"),
    ("deleteExpiredCommitLog", "-c", "{cluster}"),
    ("deleteTopic", "-c", "{cluster}", "-t", "{topic}-ordered"),
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


@pytest.fixture
def filled(java_cluster: JavaCluster, name: str) -> dict[str, str]:
    """Names that command lines hold, of a topic with messages on Java's cluster."""
    with Producer(f"{name}-makers", java_cluster.name_server.address, send_timeout_ms=TIMEOUT_MS) as producer:
        for number in range(4):
            producer.send(Message(name, b"%d" % number, keys=["k"]))
    broker = java_cluster.broker
    return {"topic": name, "cluster": broker.cluster, "address": broker.address, "broker": broker.name}


def fields(text: str) -> list[list[str]]:
    """Return the words of each line, loads and times made alike; of a JSON document its values in one order."""
    if text.lstrip().startswith("{"):
        bare = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text)  # fastjson leaves numbers that are keys bare
        return [[json.dumps(_plain(json.loads(bare)), sort_keys=True)]]
    return [VOLATILE.sub("~", line).split() for line in text.splitlines() if line.strip() and "RocketMQLog" not in line]


def _plain(value: Any) -> Any:
    """Leave out what a dialect adds for nothing."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if part not in (None, {}, [])}
    return [_plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_prints_what_javas_does(
    java: JavaClients, java_cluster: JavaCluster, filled: dict[str, str], ours: Any, words: tuple[str, ...]
) -> None:
    line = [word.format(**filled) for word in words]
    servers = java_cluster.name_server.address
    expected = fields(java.mqadmin(*line, "-n", servers))
    code, out, err = ours(servers, *line)
    assert (code, err) == (0, "")
    found = fields(out)
    if words[0] in ("topicList", "getNamesrvConfig", "getBrokerConfig", "producer"):
        expected, found = sorted(expected), sorted(found)  # Java's order is its hash table's
    if words[0] == "brokerStatus":
        keys = [[line[: line.index(":")] if ":" in line else line[:1] for line in lines] for lines in (expected, found)]
        expected, found = keys  # its values go on meanwhile
    if words[0] == "topicStatus":
        expected = expected[:-1]  # its last line is the rate of the second before
    assert found == expected


def test_a_changing_command_prints_what_javas_does(
    java: JavaClients, java_cluster: JavaCluster, filled: dict[str, str], ours: Any
) -> None:
    servers = java_cluster.name_server.address
    for words in CHANGING:
        theirs = [word.format(**{**filled, "topic": f"{filled['topic']}-theirs"}) for word in words]
        own = [word.format(**filled) for word in words]
        expected = fields(java.mqadmin(*theirs, "-n", servers).replace("-theirs", ""))
        code, out, err = ours(servers, *own)
        assert (code, err) == (0, ""), words
        assert fields(out) == expected, words


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_works_on_our_cluster_and_gives_json(
    rocketmq_session: BlockingCluster, name: str, ours: Any, words: tuple[str, ...]
) -> None:
    with Producer(f"{name}-makers", rocketmq_session.name_servers) as producer:
        producer.send(Message(name, b"x", keys=["k"]))
    while ours(rocketmq_session.name_servers, "topicRoute", "-t", name)[0]:
        pass  # a topic that a send makes is registered a moment later
    (address,) = rocketmq_session.brokers.values()
    line = [word.format(topic=name, cluster="DefaultCluster", address=address) for word in words]
    code, out, err = ours(rocketmq_session.name_servers, *line)
    assert (code, err) == (0, "")
    assert out or words[0] == "producer"
    code, out, _ = ours(rocketmq_session.name_servers, "--output", "json", *line)
    assert code == 0
    assert json.loads(out) or words[0] == "producer"


def test_every_subcommand_of_the_table_is_tried_here_or_says_why_it_is_not_there() -> None:
    tried = {words[0] for words in (*READING, *CHANGING)}
    assert {name for name, one in SUBCOMMANDS.items() if one.family} == tried
    assert all(one.reason for one in SUBCOMMANDS.values() if not one.family)
