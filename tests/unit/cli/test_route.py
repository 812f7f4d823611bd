import json

import pytest

from orbitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def pair():
    """A cluster with two NameServers, whose broker is called broker-a."""
    with LocalCluster.running(name_servers=2) as cluster:
        yield cluster


def retire(orbitmq, cluster, command, *words, broker="broker-a"):
    return orbitmq("route", command, broker, "-n", cluster.name_servers, *words)


def permissions(orbitmq, cluster, topic):
    found = [orbitmq("route", topic, "-n", address, "-o", "json").json for address in cluster.name_servers.split(";")]
    return [queue["perm"] for route in found for queue in route["queues"]]


def test_a_name_alone_is_a_topic_to_show(orbitmq, topic):
    assert orbitmq("route", topic).out == orbitmq("route", "show", topic).out == orbitmq("topic", "route", topic).out
    assert orbitmq("route", "--help").code == 0


def test_history_tells_what_happened_newest_first(orbitmq, topic, rocketmq_session):
    orbitmq("topic", "create", topic, "--queues", 3)
    orbitmq("topic", "delete", "--yes", topic)
    result = orbitmq("route", "history", topic)
    assert result.code == 0
    assert result.out.splitlines()[0].split() == ["TIME", "KIND", "BROKER", "ADDRESS", "TOPICS", "CAUSE", "REMOTE"]
    changes = [line.split(topic)[0][-1] for line in result.out.splitlines()[1:]]
    assert (changes[0], changes[-1]) == ("-", "+")
    assert "~" in changes
    events = orbitmq("route", "history", topic, "-o", "json").json
    assert [event["at"] for event in events] == sorted((event["at"] for event in events), reverse=True)
    assert {event["nameServer"] for event in events} == {rocketmq_session.name_servers}


def test_history_is_of_a_broker_of_everything_or_of_the_time_since(orbitmq, topic):
    everything = orbitmq("route", "history", "-o", "json").json
    broker = orbitmq("route", "history", "broker-a", "-o", "json").json
    assert {event["brokerName"] for event in broker} == {"broker-a"}
    assert len(everything) >= len(broker) > 0
    numbers = [event["number"] for event in broker]
    assert numbers == sorted(set(numbers), reverse=True)
    assert orbitmq("route", "history", topic, "--since", "0s", "-o", "json").json == []
    assert len(orbitmq("route", "history", "--count", 1, "-o", "json").json) == 1


def test_two_name_servers_are_shown_side_by_side(orbitmq, pair):
    result = orbitmq("route", "history", "broker-a", "-n", pair.name_servers)
    assert result.out.startswith("NAME_SERVER")
    assert {row[0] for row in result.rows} == set(pair.name_servers.split(";"))
    times = [row[1] for row in result.rows]
    assert times == sorted(times, reverse=True)


def test_a_difference_ends_with_1_and_no_difference_with_0(orbitmq, topic, pair):
    long_ago = orbitmq("route", "diff", "--at", "30d", "-n", pair.name_servers)
    assert long_ago.code == 1
    assert long_ago.out.splitlines()[0].split() == ["NAME_SERVER", "WHAT", "BROKER", "BEFORE", "AFTER"]
    assert long_ago.err.count("does not remember all since then") == 2
    now = orbitmq("route", "diff", "--at", "0s", "-n", pair.name_servers, "-o", "json")
    assert now.code == 0
    assert [found["nameServer"] for found in now.json] == pair.name_servers.split(";")


def test_name_servers_that_agree_have_one_digest_and_those_that_differ_tell_where(orbitmq, pair, rocketmq_session):
    agree = orbitmq("route", "compare", "-n", pair.name_servers)
    assert agree.code == 0
    assert len(agree.rows) == 2
    assert len({(digest, facts) for _, digest, facts in agree.rows}) == 1
    servers = f"{pair.name_servers};{rocketmq_session.name_servers}"
    drift = orbitmq("route", "compare", "-n", servers)
    assert drift.code == 1
    assert ["SUBJECT", *servers.split(";")] in [line.split() for line in drift.out.splitlines()]
    found = orbitmq("route", "compare", "-n", servers, "-o", "json").json
    assert found["equal"] is False
    assert [len(digest["digest"]) for digest in found["digests"]] == [16] * 3
    assert all(digest["facts"] > 0 for digest in found["digests"])
    assert all(set(difference["facts"]) == set(servers.split(";")) for difference in found["differences"])


def test_a_broker_is_retired_on_every_name_server_and_called_back(orbitmq, pair):
    topic = "retired"
    assert orbitmq("topic", "create", topic, "-n", pair.name_servers).code == 0
    result = retire(orbitmq, pair, "wipe-write-perm", "-o", "json")
    assert result.code == 0
    assert [told["nameServer"] for told in result.json] == pair.name_servers.split(";")
    assert permissions(orbitmq, pair, topic) == [4, 4]
    result = retire(orbitmq, pair, "add-write-perm")
    assert result.code == 0
    assert [row[0] for row in result.rows] == pair.name_servers.split(";")
    assert min(int(row[1]) for row in result.rows) > 0
    assert permissions(orbitmq, pair, topic) == [6, 6]


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_unknown_broker_cannot_be_retired(orbitmq, pair, form):
    result = retire(orbitmq, pair, "wipe-write-perm", "-o", form, broker="nobody")
    assert result.code == 1
    assert result.err.splitlines() == [
        f"orbitmq: {address} knows no topic of a broker called 'nobody': `orbitmq cluster` shows its brokers"
        for address in pair.name_servers.split(";")
    ]


@pytest.mark.parametrize("words", [("history",), ("diff", "--at", "0s"), ("compare",), ("add-write-perm", "broker-a")])
def test_a_name_server_that_is_down_hides_nothing_that_the_others_know(orbitmq, rocketmq_session, words):
    one = rocketmq_session.name_servers
    partly = orbitmq("route", *words, "-o", "json", "-n", f"127.0.0.1:1;{one}")
    assert partly.code == 3
    assert "cannot connect to 127.0.0.1:1" in partly.err
    assert one in json.dumps(partly.json)


@pytest.mark.parametrize("at", ["yesterday", "2100-01-01T00:00"])
def test_a_time_that_is_none_or_still_to_come_is_a_usage_error(orbitmq, at):
    result = orbitmq("route", "diff", "--at", at)
    assert (result.code, result.out) == (2, "")
    assert "--at" in result.err
    assert repr(at) in result.err
