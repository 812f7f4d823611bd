"""`orbitmq message …`."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from children import freeze
from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import AdminClient
from orbitmq.cli.main import main
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster


def send(orbitmq, topic, body, *keys):
    options = [word for key in keys for word in ("--key", key)]
    assert orbitmq("send", topic, body, *options).code == 0


def test_messages_are_found_by_key(orbitmq, topic):
    send(orbitmq, topic, "one", "k1", "all")
    send(orbitmq, topic, "two", "k2", "all")
    send(orbitmq, topic, "three", "all")
    rows = orbitmq("message", "find", topic, "all").rows
    assert [row[1] for row in rows] == ["broker-a"] * 3
    assert [" ".join(row[-2:]) for row in rows[:2]] == ["k1 all", "k2 all"]
    (found,) = orbitmq("message", "find", topic, "k2", "-o", "json").json_lines
    assert (found["body"], found["keys"]) == ("two", ["k2", "all"])
    newest = orbitmq("message", "find", topic, "all", "-c", 1, "-o", "json").json_lines
    assert [message["body"] for message in newest] == ["three"]
    later = orbitmq("message", "find", topic, "all", "--from", found["stored_at_ms"] + 1, "-o", "json").json_lines
    assert "one" not in [message["body"] for message in later]


def test_messages_are_found_by_times_as_people_type_them(orbitmq, topic):
    send(orbitmq, topic, "one", "k")
    for options in (("--from", "10m"), ("--from", "2026-11-21T12:03", "--to", "0s"), ("--to", "2100-01-01")):
        assert len(orbitmq("message", "find", topic, "k", *options).rows) == 1
    assert orbitmq("message", "find", topic, "k", "--to", "10m").code == 1
    wrong = orbitmq("message", "find", topic, "k", "--to", "later")
    assert (wrong.code, "--to" in wrong.err) == (2, True)


def test_a_delayed_message_is_taken_back_before_its_time(orbitmq, monkeypatch):
    with LocalCluster.running(settings={"recall_message_enable": True}) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.name_servers)
        assert orbitmq("topic", "create", "t", "--queues", 1).code == 0
        sent = orbitmq("send", "t", "later", "--delay", "2h").rows[0]
        recalled = orbitmq("message", "recall", sent[-1])
        assert (recalled.code, recalled.out) == (0, sent[0] + "\n")


def test_a_broker_that_takes_nothing_back_is_a_no(orbitmq, topic):
    (sent,) = orbitmq("send", topic, "soon", "--delay", "1s", "-o", "json").json_lines
    refused = orbitmq("message", "recall", sent["recall_handle"])
    assert (refused.code, refused.out) == (1, "")
    assert "recall" in refused.err


@pytest.mark.parametrize("handle", ["", "no handle", "aGFuZGxl"])
def test_what_is_no_handle_is_a_wrong_argument(orbitmq, handle):
    assert orbitmq("message", "recall", handle).code == 2


def test_a_message_is_shown_by_its_id(orbitmq, topic):
    send(orbitmq, topic, "one", "k")
    (found,) = orbitmq("message", "find", topic, "k", "-o", "json").json_lines
    assert orbitmq("message", "show", topic, found["message_id"]).json == found
    assert orbitmq("message", "show", topic, found["message_id"], "-o", "table").rows[0][0] == found["message_id"]


def test_a_body_is_shown_as_its_schema_reads_it(orbitmq, topic, tmp_path):
    send(orbitmq, topic, "\x04hi", "k")
    schema = tmp_path / "texts.avsc"
    schema.write_text('{"type": "string"}')
    (found,) = orbitmq("message", "find", topic, "k", "-o", "json").json_lines
    shown = orbitmq("message", "show", topic, found["message_id"], "--schema", schema).json
    assert (shown["body"], shown["decoded"]) == ("\x04hi", "hi")
    assert orbitmq("consume", topic, "--schema", schema).out == '"hi"\n'
    wrong = orbitmq("consume", topic, "--schema", tmp_path)
    assert (wrong.code, "schema" in wrong.err) == (2, True)


def test_what_is_not_there_ends_with_1(orbitmq, topic):
    send(orbitmq, topic, "one", "k")
    for words in (("find", topic, "none"), ("find", topic, "k", "--to", 5), ("show", topic, "0A0B")):
        ended = orbitmq("message", *words)
        assert (ended.code, ended.out.strip()) == (1, "")
        assert "there is no such message" in ended.err


def test_a_message_is_sent_again_as_a_new_one(orbitmq, topic):
    (sent,) = orbitmq("send", topic, "once more", "--key", "k", "-o", "json").json_lines
    again = orbitmq("message", "resend", topic, sent["message_id"], "-o", "json").json
    assert again[0]["id"] != sent["message_id"]
    (got,) = orbitmq("message", "get", topic, again[0]["id"]).json_lines
    assert (got["body"], got["keys"]) == ("once more", ["k"])
    assert len(orbitmq("message", "find", topic, "k").rows) == 2
    assert orbitmq("message", "resend", topic, "0" * 32).code == 1


def test_as_many_messages_of_a_key_are_found_as_are_asked_for(orbitmq, topic, rocketmq_session):
    async def send_all():
        async with Producer("makers", rocketmq_session.name_servers) as producer:
            for number in range(150):
                await producer.send(Message(topic, b"%d" % number, keys=["k"]))

    asyncio.run(send_all())
    some = orbitmq("message", "find", topic, "k", "-o", "json")
    assert (some.code, len(some.json_lines)) == (0, 64)
    assert "these are the newest 64: there may be more" in some.err
    found = orbitmq("message", "find", topic, "k", "--count", 200, "-o", "json")
    assert [int(message["body"]) for message in found.json_lines] == list(range(150))
    assert "newest" not in found.err
    javas = orbitmq("mqadmin", "queryMsgByKey", "-t", topic, "-k", "k")
    assert (javas.code, "there may be more" in javas.err) == (0, True)


@pytest.mark.real
async def test_a_frozen_broker_hides_no_message_of_the_other_one(capfdbinary, monkeypatch, tmp_path):
    monkeypatch.setattr("orbitmq.cli.mqadmin.app.TIMEOUT_MS", 500)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # bodies are written there
    async with LocalCluster(brokers=2, processes=True, settings={"trace_topic_enable": True}) as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="orders"))
        async with Producer("makers", cluster.name_servers, trace=True) as producer:
            sent = [await producer.send(Message("orders", b"x", keys=["k"])) for _ in range(40)]
        async with PullConsumer("readers", cluster.name_servers) as consumer:
            await consumer.commit(dict.fromkeys(await consumer.queues("orders"), 1))
        kept = next(result for result in sent if result.queue.broker_name == "broker-a")
        pid = cluster._broker("broker-b")._service._process.pid

        async def call(*words):
            capfdbinary.readouterr()
            options = "-n", cluster.name_servers, "--timeout-ms", "500"
            code = await asyncio.to_thread(main, [*words, *(options if words[0] != "mqadmin" else options[:2])])
            out, err = capfdbinary.readouterr()
            return int(code), out.decode(), err.decode()

        freeze(pid)
        try:
            results = {
                words: await call(*words)
                for words in (
                    ("message", "find", "orders", "k"),
                    ("message", "show", "orders", kept.message_id),
                    ("message", "show", "orders", kept.offset_message_id),
                    ("message", "show", "orders", "0" * 32),
                    ("mqadmin", "queryMsgByKey", "-t", "orders", "-k", "k"),
                    ("mqadmin", "queryMsgByUniqueKey", "-t", "orders", "-i", kept.message_id),
                    ("mqadmin", "queryMsgById", "-t", "orders", "-i", kept.offset_message_id),
                    ("trace", kept.message_id),
                    ("group", "lag", "readers"),
                )
            }
        finally:
            os.kill(pid, signal.SIGCONT)
    by_key, shown, by_offset, missing, javas_key, javas_id, javas_offset, trace, lag = results.values()
    for code, out, err in (by_key, javas_key):
        assert (code, out.count("\n") > 10, "without broker-b" in err) == (1, True, True), (code, out, err)
    assert "broker-a" in by_key[1]
    for code, out, err in (shown, by_offset, javas_id, javas_offset):
        assert (code, kept.offset_message_id in out or kept.message_id in out) == (0, True), (code, out, err)
    assert (missing[0], "without broker-b" in missing[2]) == (1, True), missing
    assert (lag[0], "broker-a" in lag[1], "without broker-b" in lag[2]) == (1, True, True), lag
    assert (trace[0], "without broker-b" in trace[2]) == (1, True), trace


@pytest.mark.real
async def test_a_lost_broker_is_named_and_one_that_was_stopped_is_not(capfdbinary):
    async with LocalCluster(brokers=2, processes=True) as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="orders"))
        async with Producer("makers", cluster.name_servers) as producer:
            for _ in range(40):
                await producer.send(Message("orders", b"x", keys=["k"]))

        async def call(*words):
            capfdbinary.readouterr()
            code = await asyncio.to_thread(main, ["message", *words, "-n", cluster.name_servers])
            return int(code), capfdbinary.readouterr().err.decode()

        assert await call("find", "orders", "k") == (0, "")
        await cluster.kill_broker("broker-b")
        for _ in range(50):  # the NameServer sees the connection end
            found = await call("find", "orders", "k")
            if "it left the route" in found[1]:
                break
            await asyncio.sleep(0.1)
        assert found == (1, "without broker-b: it left the route: connection closed\n")
        shown = await call("show", "orders", "0" * 32)
        assert (shown[0], "without broker-b: it left the route" in shown[1]) == (1, True)
        await cluster.start_broker("broker-b")
        await cluster.stop_broker("broker-b")
        assert await call("find", "orders", "k") == (0, "")
