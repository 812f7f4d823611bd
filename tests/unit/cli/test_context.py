"""`orbitmq context`, and the clusters that commands ask because of it."""

import pytest

from orbitmq.cli.terminal import contexts


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ORBITMQ_CONTEXT", raising=False)
    return tmp_path


def test_contexts_are_set_listed_used_and_deleted(orbitmq):
    assert orbitmq("context", "list").rows == []
    assert orbitmq("context", "set", "prod", "-n", "a:1;b:2").code == 0
    assert orbitmq("context", "set", "test", "-n", "c").code == 0
    assert orbitmq("context", "list").rows == [["*", "prod", "a:1;b:2", "-"], ["-", "test", "c:9876", "-"]]
    assert orbitmq("context", "use", "test").code == 0
    assert [row["name"] for row in orbitmq("context", "list", "-o", "json").json if row["current"]] == ["test"]
    assert orbitmq("context", "delete", "test").code == 0
    assert orbitmq("context", "list").rows == [["-", "prod", "a:1;b:2", "-"]]
    for words in (("use", "none"), ("delete", "none")):
        result = orbitmq("context", *words)
        assert (result.code, "there is no context 'none': prod" in result.err) == (1, True)


def test_commands_ask_the_cluster_of_the_context_unless_another_is_named(orbitmq, rocketmq, monkeypatch):
    orbitmq("context", "set", "here", "-n", rocketmq.name_servers)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert orbitmq("cluster").rows[0][1] == "broker-a"
    assert orbitmq("send", "orders", "hello").code == 0
    assert orbitmq("consume", "orders").out == "hello\n"
    assert orbitmq("cluster", "-n", "127.0.0.1:1").code == 3
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    assert orbitmq("cluster").code == 3


def test_a_variable_chooses_another_context(orbitmq, rocketmq, monkeypatch):
    orbitmq("context", "set", "gone", "-n", "127.0.0.1:1")
    orbitmq("context", "set", "here", "-n", rocketmq.name_servers)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert orbitmq("cluster").code == 3
    monkeypatch.setenv("ORBITMQ_CONTEXT", "here")
    assert orbitmq("cluster").code == 0
    monkeypatch.setenv("ORBITMQ_CONTEXT", "none")
    result = orbitmq("cluster")
    assert (result.code, "ORBITMQ_CONTEXT: 'none' is not allowed, expected one of gone, here" in result.err) == (
        2,
        True,
    )


def test_the_security_file_goes_with_its_name_servers_alone(orbitmq, rocketmq, tmp_path, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR")
    orbitmq("context", "set", "here", "-n", rocketmq.name_servers, "--security", tmp_path / "missing.properties")
    result = orbitmq("cluster")
    assert (result.code, "missing.properties" in result.err) == (2, True)
    assert orbitmq("cluster", "-n", rocketmq.name_servers).code == 0


@pytest.mark.parametrize("text", ["[", "contexts: 7", "contexts: {a: {}}", "contexts: [a]", "\x00"])
def test_a_file_that_is_none_is_named(orbitmq, text, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR")
    contexts.path().parent.mkdir(parents=True)
    contexts.path().write_text(text)
    result = orbitmq("cluster")
    assert (result.code, "contexts.yaml" in result.err) == (2, True)
