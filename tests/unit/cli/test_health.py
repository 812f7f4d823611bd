"""`orbitmq health`, asked of a cluster of this test's own: the session's one has seen what other tests broke."""

import pytest

from cases import each_case
from orbitmq.admin.brokers import Brokers
from orbitmq.cli.health import exit_code_for
from orbitmq.errors import ClientError, RemoteRefused


def tables(result):
    """Return the rows of both tables, without their headers: NameServers and brokers."""
    first, _, second = result.out.partition("\n\n")
    return [[line.split() for line in text.splitlines()[1:]] for text in (first, second)]


def test_a_healthy_cluster_ends_with_0_and_its_figures(orbitmq, rocketmq):
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert (result.code, result.err) == (0, "")
    first, second = (text.splitlines()[0].split() for text in result.out.split("\n\n"))
    assert first == ["NAME_SERVER", "HEALTHY", "BROKERS", "TOPICS", "CONNECTIONS", "MEMORY_MB", "LAG_MS"]
    assert second == [
        "BROKER",
        "ADDRESS",
        "HEALTHY",
        "READY",
        "ROLE",
        "BEHIND",
        "IN_SYNC",
        "TOPICS",
        "GROUPS",
        "CONNECTIONS",
        "DISK_USED",
        "MEMORY_MB",
        "LAG_MS",
    ]
    ((address, healthy, brokers, topics, connections, memory_mb, _lag_ms),), ((name, broker, *figures),) = tables(
        result
    )
    assert (address, healthy, brokers) == (rocketmq.name_servers, "yes", "1")
    assert int(topics) > 0
    assert int(connections) > 0
    assert 1 < int(memory_mb) < 10_000
    assert (name, broker, *figures[:2]) == ("broker-a", rocketmq.brokers["broker-a"], "yes", "yes")
    assert figures[2:5] == ["master", "-", "-"]
    assert int(figures[5]) > 0
    found = orbitmq("health", "-n", address, "-o", "json").json
    assert [document.get("nameServer") for document in found] == [address, None]
    assert (found[1]["broker"], found[1]["brokerName"]) == (broker, "broker-a")
    assert found[1]["nameServers"] == {address: True}


def test_a_name_server_that_is_not_there_ends_with_1_and_its_reason(orbitmq, rocketmq):
    result = orbitmq("health", "-n", f"{rocketmq.name_servers};127.0.0.1:1")
    assert result.code == 1
    assert [row[:2] for row in tables(result)[0]] == [[rocketmq.name_servers, "yes"], ["127.0.0.1:1", "no"]]
    assert "127.0.0.1:1: Unreachable: cannot connect to 127.0.0.1:1" in result.err


def test_a_missing_server_ends_with_3(orbitmq):
    result = orbitmq("health", "-n", "127.0.0.1:1;127.0.0.1:2", "-o", "json")
    assert (result.code, "no NameServer answered" in result.err) == (3, True)
    assert [found["reachable"] for found in result.json] == [False, False]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RemoteRefused(16, "access denied", "ns"), "Refused: ns answered code 16: access denied"),
        (ClientError("ns answered with no health document"), "Unknown: ns answered with no health document"),
    ],
)
def test_a_server_that_refuses_to_tell_was_reached_and_ends_with_1(orbitmq, rocketmq, monkeypatch, error, told):
    async def refuse(pool, address, *, timeout_ms):
        raise error

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_health", refuse)
    address = rocketmq.name_servers
    result = orbitmq("health", "-n", address)
    assert (result.code, result.err) == (1, f"{address}: {told}\n")
    (document,) = orbitmq("health", "-n", address, "-o", "json").json
    assert "reachable" not in document


def test_a_broker_that_refuses_to_tell_was_reached(orbitmq, rocketmq, monkeypatch):
    async def refuse(pool, address, *, timeout_ms):
        raise RemoteRefused(16, "access denied", address)

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_broker_health", refuse)
    broker = rocketmq.brokers["broker-a"]
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert (result.code, result.err) == (1, f"{broker}: Refused: {broker} answered code 16: access denied\n")


def test_alerts_and_warnings_are_told_in_words(orbitmq, rocketmq_session, monkeypatch):
    async def ask(pool, address, *, timeout_ms):
        alerts = [{"rule": "TooFew", "reason": "brokers are gone"}]
        return {"healthy": False, "alerts": alerts, "warnings": ["the clock jumped"], "memory": 5 * 2**20}

    async def ask_brokers(pool, address, *, timeout_ms):
        return {}

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_health", ask)
    monkeypatch.setattr("orbitmq.admin.monitoring.ask_brokers", ask_brokers)
    result = orbitmq("health")
    address = rocketmq_session.name_servers
    assert result.code == 1
    assert result.err == f"{address}: TooFew: brokers are gone\n{address}: the clock jumped\n"
    assert result.rows == [[address, "no", "-", "-", "-", "5", "-"]]


@each_case(([], 0), (["warning"], 4), (["warning", "error"], 1), (["error"], 1))
def test_the_exit_code_is_as_bad_as_the_worst_alert(severities, code):
    alerts = [{"rule": "r", "reason": "because", "severity": severity} for severity in severities]
    assert exit_code_for([{"alerts": alerts}, {"alerts": []}]) == code


def test_each_finding_of_a_broker_is_a_line_and_ends_with_1(orbitmq, rocketmq, monkeypatch):
    async def ask(pool, address, *, timeout_ms):
        alerts = [{"rule": "StoreFenced", "reason": "a sync failed"}, {"rule": "RecoveryCut", "reason": "9 bytes"}]
        return {"healthy": False, "ready": False, "alerts": alerts, "warnings": ["open"], "diskUsedRatio": 0.256}

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_broker_health", ask)
    result = orbitmq("health", "-n", rocketmq.name_servers)
    broker = rocketmq.brokers["broker-a"]
    assert result.code == 1
    assert result.err.splitlines() == [
        f"{broker}: StoreFenced: a sync failed",
        f"{broker}: RecoveryCut: 9 bytes",
        f"{broker}: open",
    ]
    assert tables(result)[1] == [["broker-a", broker, "no", "no", "master", "-", "-", "-", "-", "-", "26%", "-", "-"]]


def test_a_broker_is_shown_with_how_far_it_follows_its_master(orbitmq, rocketmq, monkeypatch):
    broker = rocketmq.brokers["broker-a"]

    async def find(admin):
        row = {"address": broker, "role": "slave", "behind": 4096, "in_sync": False, "controllers": "127.0.0.1:2"}
        return Brokers([row, row | {"address": "127.0.0.1:1"}], [])

    monkeypatch.setattr("orbitmq.admin.brokers.find_brokers", find)
    result = orbitmq("health", "-n", rocketmq.name_servers)
    brokers, _, controllers = result.out.partition("\n\n")[2].partition("\n\n")
    assert brokers.splitlines()[1].split()[4:7] == ["slave", "4096", "no"]
    assert (result.code, controllers.splitlines()[1].split()[:2]) == (1, ["127.0.0.1:2", "no"])
    assert "127.0.0.1:2: Unreachable: does not answer" in result.err
    document = orbitmq("health", "-n", rocketmq.name_servers, "-o", "json").json[1]
    assert (document["role"], document["behind"], document["inSync"]) == ("slave", 4096, False)


def test_what_a_terminal_would_obey_is_escaped(orbitmq, rocketmq, monkeypatch):
    async def ask(pool, address, *, timeout_ms):
        alerts = [{"rule": "R\x1b[31m", "reason": "two\nlines"}]
        return {"healthy": False, "alerts": alerts, "warnings": ["\x1b]0;title\x07"]}

    async def ask_brokers(pool, address, *, timeout_ms):
        return {"127.0.0.1:1": "broker \x1b[2J"}

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_broker_health", ask)
    monkeypatch.setattr("orbitmq.admin.monitoring.ask_brokers", ask_brokers)
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert result.err.splitlines() == [r"127.0.0.1:1: R\x1b[31m: two\x0alines", r"127.0.0.1:1: \x1b]0;title\x07"]
    assert r"broker \x1b[2J  127.0.0.1:1" in result.out


def test_a_broker_that_cannot_be_asked_is_shown_as_such(orbitmq, rocketmq, monkeypatch):
    async def ask_brokers(pool, address, *, timeout_ms):
        return {"127.0.0.1:1": "broker-b", **rocketmq_brokers}

    rocketmq_brokers = {address: name for name, address in rocketmq.brokers.items()}
    monkeypatch.setattr("orbitmq.admin.monitoring.ask_brokers", ask_brokers)
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert result.code == 1
    assert [row[:3] for row in tables(result)[1]] == [
        ["broker-a", rocketmq.brokers["broker-a"], "yes"],
        ["broker-b", "127.0.0.1:1", "no"],
    ]
    assert "127.0.0.1:1: Unreachable: cannot connect to 127.0.0.1:1" in result.err


def test_a_broker_at_what_is_no_address_is_shown_next_to_the_others(orbitmq, rocketmq, monkeypatch):
    async def ask_brokers(pool, address, *, timeout_ms):
        return {"a;b": "odd", "no port": "odd", **rocketmq_brokers}

    rocketmq_brokers = {address: name for name, address in rocketmq.brokers.items()}
    monkeypatch.setattr("orbitmq.admin.monitoring.ask_brokers", ask_brokers)
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert result.code == 1
    assert [row[:3] for row in tables(result)[1]] == [
        ["broker-a", rocketmq.brokers["broker-a"], "yes"],
        ["odd", "a;b", "no"],
        ["odd", "no", "port"],
    ]
    assert result.err.splitlines() == [f"{odd}: Unreachable: is not a host:port" for odd in ("a;b", "no port")]
