"""`orbitmq broker config …`."""

import pytest

from orbitmq.admin import AdminClient
from orbitmq.errors import RemoteRefused, RequestTimeout


def test_settings_are_listed_with_what_can_be_done_with_them(orbitmq):
    rows = {row[1]: row for row in orbitmq("broker", "config", "list").rows}
    assert rows["transactionCheckMax"] == ["broker-a", "transactionCheckMax", "15", "yes", "yes"]
    assert rows["brokerName"] == ["broker-a", "brokerName", "broker-a", "yes", "no"]
    assert rows["sendMessageThreadPoolNums"][3:] == ["no", "no"]
    assert not any(name.startswith("keysThat") for name in rows)


def test_a_list_is_cut_down_to_what_is_looked_for(orbitmq):
    listed = orbitmq("broker", "config", "list", "--filter", "THREADPOOL", "-o", "json").json
    assert listed
    assert all("threadpool" in row["key"].lower() for row in listed)
    assert orbitmq("broker", "config", "list", "--filter", "sendMessageThreadPool", "--in-effect").rows == []


def test_a_setting_is_changed_and_shown_before_and_after(orbitmq):
    changed = orbitmq("broker", "config", "set", "transactionCheckMax=14", "traceOn=true", "--name", "broker-a")
    try:
        assert changed.rows == [
            ["broker-a", "transactionCheckMax", "15", "14"],
            ["broker-a", "traceOn", "true", "true"],
        ]
        assert orbitmq("broker", "config", "get", "transactionCheckMax").rows[0][2] == "14"
    finally:
        assert orbitmq("broker", "config", "set", "transactionCheckMax=15").code == 0


def test_a_broker_is_chosen_by_its_address_and_needs_no_name_server(orbitmq, rocketmq_session):
    address = rocketmq_session.brokers["broker-a"]
    chosen = ("--address", address, "-n", "127.0.0.1:1")
    assert orbitmq("broker", "config", "get", "brokerName", *chosen).rows[0][:3] == [address, "brokerName", "broker-a"]


def test_a_key_that_is_no_setting_is_a_wrong_argument_and_nothing_is_changed(orbitmq):
    wrong = orbitmq("broker", "config", "set", "transactionCheckMax=9", "transactionChekMax=9")
    assert (wrong.code, wrong.out) == (2, "")
    assert "transactionChekMax: '9' is not allowed" in wrong.err
    assert orbitmq("broker", "config", "get", "transactionCheckMax").rows[0][2] == "15"


def test_settings_that_do_not_count_now_are_kept_and_said_to_be(orbitmq):
    changed = orbitmq("broker", "config", "set", "asyncSendEnable=false", "popPollingSize=1025")
    try:
        assert (changed.code, changed.rows) == (
            0,
            [["broker-a", "asyncSendEnable", "true", "false"], ["broker-a", "popPollingSize", "1024", "1025"]],
        )
        assert changed.err == (
            "orbitmq: broker-a: kept for the next start: popPollingSize; "
            "kept, without effect in this broker: asyncSendEnable\n"
        )
        assert orbitmq("broker", "config", "get", "asyncSendEnable").rows[0][2] == "false"
    finally:
        assert orbitmq("broker", "config", "set", "asyncSendEnable=true", "popPollingSize=1024").code == 0


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("storePathRootDir=/tmp", "cannot be changed by a request"),
        ("asyncSendEnable=1", "asyncSendEnable"),
        ("transactionCheckMax=0", "transactionCheckMax"),
        ("brokerConfigPath=/tmp/x", "black list"),
    ],
)
def test_what_the_broker_refuses_is_told_in_its_words(orbitmq, pair, said):
    refused = orbitmq("broker", "config", "set", pair)
    assert (refused.code, refused.out) == (1, "")
    assert said in refused.err


@pytest.mark.parametrize("words", [("traceOn",), ("=1",), ("traceOn=true", "traceOn=false")])
def test_pairs_that_are_none_are_wrong_arguments(orbitmq, words):
    wrong = orbitmq("broker", "config", "set", *words)
    assert (wrong.code, "KEY=VALUE" in wrong.err) == (2, True)


def test_a_key_that_a_broker_has_not_is_a_negative_answer(orbitmq):
    found = orbitmq("broker", "config", "get", "traceOn", "trace0n")
    assert (found.code, [row[1] for row in found.rows]) == (1, ["traceOn"])
    assert "trace0n is not a setting of broker-a" in found.err


def test_a_list_of_name_servers_counts_immediately_and_one_of_which_none_answers_only_by_force(
    orbitmq, rocketmq_session
):
    servers = rocketmq_session.name_servers
    refused = orbitmq("broker", "config", "set", "namesrvAddr=127.0.0.1:1")
    assert (refused.code, "at least one NameServer answers" in refused.err) == (2, True)
    for words in ((f"namesrvAddr={servers};127.0.0.1:1",), ("namesrvAddr=127.0.0.1:1", "--force", "--address")):
        address = [next(iter(rocketmq_session.brokers.values()))] if "--address" in words else []
        assert orbitmq("broker", "config", "set", *words, *address).err == ""
    address = next(iter(rocketmq_session.brokers.values()))
    back = orbitmq("broker", "config", "set", f"namesrvAddr={servers}", "--address", address)
    assert [row[1:] for row in back.rows] == [["namesrvAddr", "127.0.0.1:1", servers]]
    assert orbitmq("cluster").rows


def test_a_broker_that_says_yes_and_changes_nothing_is_found_out(orbitmq, monkeypatch):
    async def accept(self, address, changes):
        return ""

    monkeypatch.setattr(AdminClient, "change_broker_settings", accept)
    result = orbitmq("broker", "config", "set", "transactionCheckMax=14", "traceOn=TRUE")
    assert (result.code, len(result.rows)) == (1, 2)
    assert result.err == "orbitmq: broker-a has accepted transactionCheckMax=14, and not changed it\n"


def test_what_was_changed_before_a_refusal_is_told(orbitmq, monkeypatch, rocketmq_session):
    address = rocketmq_session.brokers["broker-a"]

    async def masters(self, *, cluster=None, broker=None):
        return {"one": address, "three": "127.0.0.1:1", "two": address}

    monkeypatch.setattr(AdminClient, "masters", masters)
    result = orbitmq("broker", "config", "set", "traceOn=true")
    assert (result.code, result.rows) == (3, [["one", "traceOn", "true", "true"]])
    assert "127.0.0.1:1" in result.err
    assert result.err.endswith(". Not asked after that: two\n")
    refused = orbitmq("broker", "config", "set", "transactionCheckMax=0")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith(". Not asked after that: three, two\n")


def test_a_change_that_was_accepted_is_told_also_where_the_broker_falls_silent_then(orbitmq, monkeypatch):
    asked, calls = AdminClient.broker_settings, []

    async def settings(self, at):
        calls.append(at)
        if len(calls) > 1:
            raise RequestTimeout(f"no answer from {at}")
        return await asked(self, at)

    monkeypatch.setattr(AdminClient, "broker_settings", settings)
    silent = orbitmq("broker", "config", "set", "traceOn=true")
    assert (silent.code, silent.out) == (3, "")
    assert silent.err.endswith(". broker-a has accepted the change\n")


def test_a_broker_that_was_lost_and_keeps_its_settings_is_named(orbitmq, monkeypatch):
    async def missing(self):
        return {"broker-x": "it is gone"}

    monkeypatch.setattr(AdminClient, "missing_masters", missing)
    changed = orbitmq("broker", "config", "set", "traceOn=true")
    assert (changed.code, changed.err) == (1, "without broker-x: it is gone\n")
    assert orbitmq("broker", "config", "set", "traceOn=true", "--name", "broker-a").code == 0


def test_brokers_that_do_not_answer_are_told_of_next_to_those_that_do(orbitmq, monkeypatch, rocketmq_session):
    address = rocketmq_session.brokers["broker-a"]
    asked = AdminClient.broker_settings

    async def masters(self, *, cluster=None, broker=None):
        return {"one": "127.0.0.1:1", "two": address}

    async def settings(self, at):
        if at != address:
            raise RemoteRefused(16, "go away", at)
        return await asked(self, at)

    monkeypatch.setattr(AdminClient, "masters", masters)
    result = orbitmq("broker", "config", "get", "traceOn")
    assert (result.code, [row[0] for row in result.rows]) == (3, ["two"])
    monkeypatch.setattr(AdminClient, "broker_settings", settings)
    result = orbitmq("broker", "config", "get", "traceOn")
    assert (result.code, [row[0] for row in result.rows]) == (1, ["two"])
    assert "go away" in result.err
