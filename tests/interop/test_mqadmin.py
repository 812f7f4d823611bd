"""`orbitmq mqadmin` next to Java's mqadmin, over a Java cluster and ours: the same fields in the same order."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import test_access
from interop.conftest import JavaCluster
from interop.peers import JavaBroker, JavaClients, JavaNameServer
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.cli.main import main
from orbitmq.cli.mqadmin.table import SUBCOMMANDS
from orbitmq.testing import BlockingCluster, LocalCluster
from unit.broker.access.samples import CLUSTER
from waiting import wait_for

ROOT, guarded = test_access.ROOT, test_access.guarded
TIMEOUT_MS = 30_000
MESSAGE_COUNT = 8
VOLATILE = re.compile(
    r"\d+\.\d+|\b\d+-\d+(?=\()|(?<=\()\d+,\d+ms|\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:]\d{3}"
    r"|\b2\d{16}\b|\b\d{13}(?=/)|\S+(?=/msgbodys/)|rt=\d+ms|spentTimeMills=\d+"
)
"""Loads, ages and times: of two questions each has its own."""


def _commands(text: str) -> list[tuple[str, ...]]:
    return [tuple(shlex.split(line)) for line in text.strip().splitlines()]


READING = _commands("""
    clusterList
    clusterList -m
    topicList
    topicList -c
    topicRoute -t {topic}
    topicRoute -t {topic} -l
    topicStatus -t {topic}
    topicStatus -t {topic} -c {cluster}
    topicClusterList -t {topic}
    getNamesrvConfig
    brokerStatus -b {address}
    brokerStatus -c {cluster}
    getBrokerConfig -b {address}
    getBrokerConfig -c {cluster}
    producer -b {address}
    allocateMQ -t {topic} -i 10.0.0.1,10.0.0.2
    consumerProgress
    consumerProgress -g {group}
    consumerProgress -g {group} -t {topic} -s true
    consumerStatus -g {group}
    consumerStatus -g {group} -i {client}
    consumerConnection -g {group}
    consumerConnection -g {group} -b {address}
    producerConnection -g {producers} -t {topic}
    getConsumerConfig -g {group}
    brokerConsumeStats -b {address}
    statsAll -t {topic}
    exportMetadata -c {cluster} -f {files}
    exportMetadata -b {address} -t -f {files}
    exportConfigs -c {cluster} -f {files}
    exportMetrics -c {cluster} -f {files}
    getColdDataFlowCtrInfo -b {address}
    haStatus -b {address}
    haStatus -c {cluster}
    queryMsgById -t {topic} -i {id}
    queryMsgById -t {topic} -i {offset_id} -f UTF-8
    queryMsgById -t {topic} -i {id} -g {group} -d {client}
    queryMsgByKey -t {topic} -k k
    queryMsgByKey -t {topic} -k k -b 1 -m 64
    queryMsgByUniqueKey -t {topic} -i {id}
    queryMsgByOffset -t {topic} -b {broker} -i {queue} -o 0 -f UTF-8
    queryMsgTraceById -i {id}
    printMsg -t {topic}
    printMsg -t {topic} -s tag-1 -d false -b 2026-01-31#23:59:59:999 -c UTF-8
    printMsgByQueue -t {topic} -a {broker} -i {queue} -p true -d true -f true
    consumeMessage -t {topic} -b {broker} -i {queue}
    queryCq -t {topic} -q {queue} -i 0 -c 2
""")
OPTIONS = _commands("""
    brokerConsumeStats -b {address} -l 1000 -o true -t 3000
    consumerStatus -g {group} -i {client} -s
    queryMsgByUniqueKey -t {topic} -i {id} -a
    queryMsgByUniqueKey -t {topic} -i {id} -g {group} -d {client}
    queryCq -t {topic} -q {queue} -i 0 -g {group} -b {address}
    consumeMessage -t {topic} -c 3 -s 1000 -e 2026-01-31#23:59:59:999
    consumeMessage -t {topic} -c 3
    consumeMessage -t {topic} -b {broker} -i {queue} -o 1 -g {group}
    clusterRT -a 2 -c {cluster} -s 10
    clusterRT -a 1 -p true -m room
    printMsgByQueue -t {topic} -a {broker} -i {queue} -p true
""")
"""Commands that read, with options that cannot be compared: some of Java's run once in a process, others tell of the moment."""
SENDING = ("sendMessage", "sendMsgStatus", "checkMsgSendRT")
CHANGING = _commands("""
    updateTopic -c {cluster} -t {new}-sent -r 4 -w 4
    updateTopic -c {cluster} -t {new} -r 4 -w 2 -p 6
    updateTopic -b {address} -t {new}-ordered -o true -a +message.type=FIFO
    updateTopicPerm -c {cluster} -t {new} -p 4
    deleteTopic -c {cluster} -t {new}
    updateOrderConf -t {new} -m put -v {broker}:4
    updateOrderConf -t {new} -m get
    updateOrderConf -t {new} -m delete
    updateKvConfig -s {new} -k key -v value
    deleteKvConfig -s {new} -k key
    wipeWritePerm -b {broker}
    addWritePerm -b {broker}
    updateNamesrvConfig -k scanNotActiveBrokerInterval -v 5000
    updateBrokerConfig -b {address} -k fileReservedTime -v 72
    updateBrokerConfig -c {cluster} -k fileReservedTime -v 72
    cleanUnusedTopic -c {cluster}
    cleanExpiredCQ -b {address}
    deleteExpiredCommitLog -c {cluster}
    deleteTopic -c {cluster} -t {new}-ordered
    updateSubGroup -c {cluster} -g {new} -s true -m true -d false -q 2 -r 3
    updateSubGroup -b {address} -g {new}-ordered -o true -i 0 -w 1 -a false
    updateSubGroup -b {address} -g {new} -p '{{"type":"EXPONENTIAL","exponentialRetryPolicy":{{"max":9}}}}'
    setConsumeMode -c {cluster} -t {topic} -g {new} -m POP -q 4
    setConsumeMode -b {address} -t {topic} -g {new} -m PULL
    resetOffsetByTime -g {new} -t {topic} -s 1000
    resetOffsetByTime -g {new} -t {topic} -s 2026-01-31#23:59:59:999 -f false
    resetOffsetByTime -g {new} -t {topic} -s 1000 -b {address} -q 0 -o 1
    resetOffsetByTime -g {new} -t {topic} -s 1000 -b {address} -q 0
    skipAccumulatedMessage -g {new} -t {topic}
    cloneGroupOffset -s {group} -d {new} -t {topic}
    sendMessage -t {new}-sent -p body -k 'a b' -c tag -b {broker} -i 1 -m true
    updateTopicList -b {address} -f {files}/topics.json
    updateSubGroupList -b {address} -f {files}/groups.json
    updateColdDataFlowCtrGroupConfig -b {address} -g {new} -v 1000
    removeColdDataFlowCtrGroupConfig -c {cluster} -g {new}
    setCommitLogReadAheadMode -b {address} -m 0
    sendMsgStatus -b {broker} -c 2 -s 20
    checkMsgSendRT -t {new}-sent -a 3 -s 10
    deleteSubGroup -b {address} -g {new}-ordered -r true
    deleteSubGroup -c {cluster} -g {new}
""")
REPLICATED = _commands("""
    haStatus -c {cluster}
    haStatus -b {slave}
    getSyncStateSet -a {controller} -b {broker}
    getSyncStateSet -a {controller} -c {cluster}
    getBrokerEpoch -b {broker}
    getBrokerEpoch -c {cluster}
    getControllerMetaData -a {controller}
    getControllerConfig -a {controller}
    updateControllerConfig -a {controller} -k scanNotActiveBrokerInterval -v 5000
    resetMasterFlushOffset -b {slave} -o 0
    electMaster -a {controller} -b {member} -bn {broker} -c {cluster}
    cleanBrokerMetadata -a {controller} -bn {broker} -c {cluster} -b 3 -l
""")
"""Commands about replication, for three members of one broker name."""
GUARDED = _commands("""
    createUser -b {at} -u {new} -p pw -t Normal
    updateUser -b {at} -u {new} -s disable
    getUser -b {at} -u {new}
    listUser -b {at} -f {new}
    createAcl -b {at} -s User:{new} -r Topic:a,Group:b* -a Pub,Sub -i 10.0.0.0/8 -d Allow
    updateAcl -b {at} -s User:{new} -r Topic:a -a All -d Deny
    getAcl -b {at} -s User:{new}
    listAcl -b {at} -s {new} -r Topic
    copyUser -f {at} -t {other} -u {new}
    copyAcl -f {at} -t {other} -s User:{new}
    deleteAcl -b {at} -s User:{new} -r Topic:a
    deleteAcl -b {at} -s User:{new}
    deleteUser -b {at} -u {new}
    deleteUser -b {other} -u {new}
    createUser -c {cluster} -u {new} -p pw
    getUser -c {cluster} -u {new}
    listUser -c {cluster} -f {new}
    deleteUser -c {cluster} -u {new}
""")
"""Commands about users and rules, for brokers with auth on."""

SHOWING_SECRETS = ("getUser", "listUser", "getBrokerConfig", "getNamesrvConfig")
"""Commands that show secrets in Java; ours are asked to."""


@pytest.fixture
def ours(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run our mqadmin in this process; return exit code, stdout and stderr."""

    def call(name_servers: str, *words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        as_java = ["--showSecrets"] if words[0] in SHOWING_SECRETS else []
        code = main(["mqadmin", *words, *as_java, "-n", name_servers])
        return int(code), *capfd.readouterr()

    return call


def names_of(java: JavaClients, servers: str, cluster: str, broker: str, address: str) -> Iterator[dict[str, str]]:
    """Fill a topic, read it with a group that stays online, and yield the names that command lines hold."""
    topic, group, producers = "mqadmin", "mqadmin-readers", "mqadmin-makers"
    java.mqadmin("updateTopic", "-n", servers, "-c", cluster, "-t", topic, "-r", "4", "-w", "4")
    with Producer(producers, servers, send_timeout_ms=TIMEOUT_MS, trace=True) as producer:
        sent = [
            producer.send(Message(topic, b"%d" % number, keys=["k"], tag=f"tag-{number % 2}"))
            for number in range(MESSAGE_COUNT)
        ]
        consumer = java.consumer(group, servers, topic, trace=True)
        consumer.wait_for_messages(MESSAGE_COUNT)
        progress = ""
        while f"{topic} " not in progress or "Consume Diff Total: 0" not in progress:
            progress = java.mqadmin("consumerProgress", "-n", servers, "-g", group)  # it commits every five seconds
        while producers not in java.mqadmin("producer", "-n", servers, "-b", address):
            pass
        while java.mqadmin("queryMsgTraceById", "-n", servers, "-i", sent[0].message_id).count("success") < 2:
            pass  # of its sending, and of its consumption
        ids = {"id": sent[0].message_id, "offset_id": sent[0].offset_message_id, "queue": str(sent[0].queue.queue_id)}
        names = ids | {"topic": topic, "group": group, "producers": producers, "client": consumer.client_id}
        files = java.home / broker
        files.mkdir(exist_ok=True)
        (files / "topics.json").write_text(json.dumps([{"topicName": f"{topic}-listed", "perm": 6}]))
        (files / "groups.json").write_text(json.dumps([{"groupName": f"{topic}-listed"}]))
        yield names | {"cluster": cluster, "broker": broker, "address": address, "files": str(files)}
        consumer.stop()


@pytest.fixture(scope="module")
def java(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    """A JVM of this module's own: some of Java's commands work once in a JVM."""
    clients = JavaClients(tmp_path_factory.mktemp("java-clients"))
    yield clients
    clients.close()


@pytest.fixture(scope="module")
def java_cluster(own_name_server: JavaNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A Java cluster of this module's own: other tests change neither what it shows nor how long it counts, nor does this one theirs."""
    broker = JavaBroker(
        tmp_path_factory.mktemp("java-broker"), own_name_server.address, properties={"timerFlushIntervalMs": 60_000}
    )
    broker.start()
    yield JavaCluster(own_name_server, broker, own_name_server.address)
    broker.kill()


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
    text = text.replace("]MessageTrack [", "]\nMessageTrack [")
    if text.lstrip().startswith("{"):
        bare = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text)  # fastjson leaves numbers that are keys bare
        return [[json.dumps(_plain(json.loads(bare)), sort_keys=True)]]
    return [VOLATILE.sub("~", line).split() for line in text.splitlines() if line.strip() and "RocketMQLog" not in line]


def kinds(lines: list[list[str]]) -> list[list[str]]:
    """Return lines with ids, offsets and times made alike."""
    return [[re.sub(r"[0-9A-F]{20,}|\d+", "~", word) for word in line] for line in lines]


def in_one_order(lines: list[list[str]], group: str) -> list[list[str]]:
    """Return lines with the words of each sorted: properties come in the order of a hash table. Other groups are left out."""
    others = ("MessageTrack", "See")  # of a group without route Java prints an exception
    own = (line for line in lines if line[0] not in others or f"[consumerGroup={group}," in line)
    return sorted(sorted(word.replace("properties=", "").strip("{},") for word in line) for line in own)


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
    "brokerConsumeStats", "queryMsgByKey", "printMsg",
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
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
    if words[0].startswith(("queryMsgBy", "print", "consumeMessage", "getCold")):
        expected, found = in_one_order(expected, java_names["group"]), in_one_order(found, java_names["group"])
    if words[0] == "statsAll":
        expected, found = ([line for line in text if java_names["group"] in line] for text in (expected, found))
    if words[0] == "allocateMQ":
        expected, found = shares(expected), shares(found)  # it shares queues in the order of a hash table
    if words == ("clusterList", "-m"):
        expected, found = ([line[:2] for line in lines] for lines in (expected, found))  # it counts on meanwhile
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
        if words[0] in SENDING:
            expected, found = kinds(expected), kinds(found)
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
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
        if words[0].startswith("updateColdData"):
            assert code == 1
            assert "coldDataFlowControlEnable" in err  # our broker says that it has no such limits
            continue
        assert (code, err) == (0, ""), words
        assert json.loads(out), words


@pytest.fixture
def signed(java: JavaClients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Java's mqadmin and ours sign as the super user."""
    keys = tmp_path / "security.properties"
    keys.write_text(f"accessKey={ROOT.access_key}\nsecretKey={ROOT.secret_key}\n")
    keys.chmod(0o600)
    monkeypatch.setenv("ORBITMQ_SECURITY", str(keys))
    tools = java.home / "conf" / "tools.yml"
    tools.parent.mkdir(exist_ok=True)
    tools.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    yield
    tools.unlink()


@pytest.mark.parametrize("is_java", [True, False], ids=["java", "ours"])
def test_a_command_about_users_and_rules_prints_what_javas_does(
    guarded: test_access.Guarded, java: JavaClients, ours: Any, signed: None, *, is_java: bool
) -> None:
    at, other = guarded.both if is_java else guarded.both[::-1]
    names = {"at": at, "other": other, "cluster": CLUSTER if is_java else "DefaultCluster"}
    for words in GUARDED:
        theirs = [word.format(**names, new="theirs") for word in words]
        own = [word.format(**names, new="own") for word in words]
        printed = java.mqadmin(*theirs, "-n", guarded.name_servers).replace("theirs", "own")
        code, out, err = ours(guarded.name_servers, *own)
        assert (code, err) == (0, ""), words
        expected, found = (
            sorted(fields(text.replace(at, other))) for text in (printed, out)
        )  # either is a cluster's first
        assert found == expected, words


def test_a_command_about_replication_prints_what_javas_does(java: JavaClients, ours: Any) -> None:
    with LocalCluster.running(replicas=3) as cluster:
        servers = cluster.name_servers

        def rows(*words: str) -> list[dict[str, Any]]:
            return list(json.loads(ours(servers, "--output", "json", *words)[1]))

        wait_for(lambda: len(rows("clusterList")) == 3, "all members at the NameServer")
        members = {row["id"]: row["address"] for row in rows("clusterList")}
        controllers = rows("getBrokerConfig", "-b", members[0])[0]["settings"]["controllerAddr"].split(";")
        state = "getSyncStateSet", "-a", controllers[0], "-b", "broker-a"
        wait_for(lambda: len(rows(*state)[0]["in_sync"]) == 3, "all members in the sync set")
        slave = min(id for id in members if id)  # any of the three may lead
        names = {"cluster": "DefaultCluster", "broker": "broker-a", "slave": members[slave], "member": str(slave)}
        for words in REPLICATED:
            line = [word.format(**names, controller=controllers[0]) for word in words]
            code, out, err = ours(servers, *line)
            assert (code, err) == (0, ""), words
            if words[0] not in ("electMaster", "cleanBrokerMetadata"):  # which succeed once
                printed = java.mqadmin(*line, "-n", servers)
                # Where there is no time, ours says none, and Java 1970.
                expected, found = (
                    sorted(line for line in fields(text) if not line[0].startswith("#Last")) for text in (printed, out)
                )
                assert found == expected, words


def test_the_table_has_each_of_javas_subcommands_with_its_options(java: JavaClients) -> None:
    listed = set(re.findall(r"^   (\S+) +\S", java.mqadmin(), re.MULTILINE)) - {"getConsumerStatus"}  # the tests' own
    assert listed == set(SUBCOMMANDS)
    for name in listed:
        printed = java.mqadmin("help", name)
        found = set(re.findall(r"^ *(?:-(\w+),)?--([\w ]*?\w) *(?:<arg>|  |$)", printed, re.MULTILINE))
        own = {(option.short, option.long) for option in SUBCOMMANDS[name].options}
        assert found - {("h", "help"), ("n", "namesrvAddr")} - own == set(), name
        assert own - found <= {("s", "showSecrets")}, name


def test_a_user_that_is_not_there_is_said(guarded: test_access.Guarded, ours: Any, signed: None) -> None:
    at = guarded.ours
    for words in (("getUser", "-u"), ("getAcl", "-s"), ("copyUser", "-f", at, "-t", at, "-u")):
        given = (*words, "nobody") if words[0].startswith("copy") else (*words, "nobody", "-b", at)
        code, out, err = ours(guarded.name_servers, *given)
        assert (code, out) == (1, "")
        assert "nobody" in err or "subject is not exist" in err
    code, _, err = ours(guarded.name_servers, "updateUser", "-b", at, "-u", "x", "-s", "off")
    assert code == 2
    assert "one of enable, disable" in err


def test_every_subcommand_of_the_table_is_tried_here_or_says_why_it_is_not_there() -> None:
    tried = {words[0] for words in (*READING, *OPTIONS, *CHANGING, *GUARDED, *REPLICATED)}
    assert {name for name, one in SUBCOMMANDS.items() if one.family} == tried
    assert all(one.reason for one in SUBCOMMANDS.values() if not one.family)
