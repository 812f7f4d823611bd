"""An operator's questions to NameServers on the command line: health, history, differences; exit codes for scripts."""

import json

import pytest

from called import call_command
from orbitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster.running(name_servers=2) as found:
        yield found


def run(cluster, *words, name_servers=None):
    done = call_command(*words, name_servers=name_servers or cluster.name_servers)
    return done.returncode, done.stdout, done.stderr


def test_history_shows_who_added_and_removed_a_topic_on_every_name_server(cluster):
    assert run(cluster, "topic", "create", "shown")[0] == 0
    assert run(cluster, "topic", "delete", "--yes", "shown")[0] == 0
    code, text, _ = run(cluster, "route", "history", "shown", "-o", "json")
    events = json.loads(text)
    assert code == 0
    for address in cluster.name_servers.split(";"):
        causes = [event["cause"] for event in events if event["nameServer"] == address]
        assert causes[0] in ("topic deletion", "registration")
        assert causes[-1] == "registration"
    code, text, _ = run(cluster, "route", "history", "broker-a", "--since", "1h")
    assert code == 0
    assert "broker joined" in text


def test_a_difference_ends_with_1_and_no_difference_with_0(cluster):
    assert run(cluster, "route", "diff", "--at", "1h")[0] == 1
    assert run(cluster, "route", "diff", "--at", "0s")[0] == 0
    assert run(cluster, "route", "compare")[0] == 0


def test_name_servers_that_differ_are_told_apart(cluster):
    with LocalCluster.running() as other:
        both = f"{cluster.name_servers};{other.name_servers}"
        code, text, _ = run(cluster, "route", "compare", "-o", "json", name_servers=both)
    found = json.loads(text)
    assert code == 1
    assert found["equal"] is False
    assert {difference["subject"] for difference in found["differences"]} >= {"broker broker-a"}
    assert [digest["nameServer"] for digest in found["digests"]] == both.split(";")
    assert len({digest["digest"] for digest in found["digests"]}) == 2


@pytest.mark.parametrize("words", [("history",), ("diff", "--at", "0s"), ("compare",)])
def test_a_name_server_that_is_down_hides_nothing_that_the_others_know(cluster, words):
    one = cluster.name_servers.split(";")[0]
    code, text, errors = run(cluster, "route", *words, "-o", "json", name_servers=f"127.0.0.1:1;{one}")
    assert code == 3
    assert "cannot connect to 127.0.0.1:1" in errors
    assert one in text
    code, text, errors = run(cluster, "route", *words, "-o", "json", name_servers="127.0.0.1:1")
    assert (code, text) == (3, "")
    assert errors.count("\n") == 1


def test_a_broker_is_retired_on_every_name_server_and_called_back(cluster):
    assert run(cluster, "topic", "create", "retired")[0] == 0

    def permissions():
        addresses = cluster.name_servers.split(";")
        found = [run(cluster, "route", "retired", "-o", "json", name_servers=address)[1] for address in addresses]
        return [queue["perm"] for text in found for queue in json.loads(text)["queues"]]

    code, text, _ = run(cluster, "route", "wipe-write-perm", "broker-a", "-o", "json")
    assert code == 0
    assert [told["nameServer"] for told in json.loads(text)] == cluster.name_servers.split(";")
    assert min(told["topics"] for told in json.loads(text)) > 0
    assert permissions() == [4, 4]
    code, text, errors = run(
        cluster, "route", "add-write-perm", "broker-a", name_servers=f"{cluster.name_servers};127.0.0.1:1"
    )
    assert code == 3
    assert "127.0.0.1:1" in errors
    assert permissions() == [6, 6]
    assert run(cluster, "route", "wipe-write-perm", "nobody")[0] == 1


def test_health_is_0_when_all_are_fine_1_when_one_is_not_and_3_when_no_server_answers(cluster):
    code, text, _ = run(cluster, "health", "-o", "json")
    assert code == 0
    found = json.loads(text)
    assert {document["healthy"] for document in found} == {True}
    assert [set(document) & {"nameServer", "broker"} for document in found] == [
        {"nameServer"},
        {"nameServer"},
        {"broker"},
    ]
    code, _, errors = run(cluster, "health", name_servers=f"{cluster.name_servers};127.0.0.1:1")
    assert code == 1
    assert "127.0.0.1:1: Unreachable" in errors
    assert run(cluster, "health", name_servers="127.0.0.1:1")[0] == 3


def test_a_route_is_shown_without_a_subcommand_too(cluster):
    assert run(cluster, "topic", "create", "short")[0] == 0
    short, long = run(cluster, "route", "short"), run(cluster, "route", "show", "short")
    assert short == long
    assert short[0] == 0


@pytest.mark.parametrize("at", ["yesterday", "2100-01-01T00:00"])
def test_a_time_that_is_none_or_still_to_come_is_a_usage_error(cluster, at):
    code, _, errors = run(cluster, "route", "diff", "--at", at)
    assert code == 2
    assert "--at" in errors
    assert repr(at) in errors


def test_settings_are_printed_as_java_prints_them(tmp_path):
    config = tmp_path / "namesrv.conf"
    config.write_text("listenPort=1234\nscanNotActiveBrokerInterval=10000\n")

    def print_settings(*more):
        options = ("-c", str(config), "--data-dir", str(tmp_path / "data"), "-p", *more)
        done = call_command("nameserver", *options)
        assert done.returncode == 0
        return done.stdout

    printed = dict(line.split("=", 1) for line in print_settings().splitlines())
    assert json.loads(print_settings("-o", "json")) == printed
    assert (printed["listenPort"], printed["scanNotActiveBrokerInterval"]) == ("1234", "10000")
    assert printed["kvConfigPath"] == str(tmp_path / "data" / "kvConfig.json")
    assert printed["configStorePath"] == str(config)
