"""`orbitmq broker retire`."""

import threading

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.testing import LocalCluster
from waiting import wait_for

pytestmark = pytest.mark.real


@pytest.fixture
def two(orbitmq, monkeypatch):
    with LocalCluster.running(brokers=2) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.name_servers)
        assert orbitmq("topic", "create", "orders").code == 0
        yield cluster


def test_no_send_fails_and_nothing_stays_unread_while_a_broker_is_retired(orbitmq, two):
    read, sent, ended = set(), [], threading.Event()

    def produce():
        with Producer("makers", two.name_servers) as producer:
            while not ended.wait(0.005):
                sent.append(producer.send(Message("orders", b"%d" % len(sent))).queue.broker_name)

    with PushConsumer(
        "billing", two.name_servers, handler=lambda batch: read.update(one.body for one in batch)
    ) as eater:
        eater.subscribe("orders")
        producing = threading.Thread(target=produce)
        producing.start()
        wait_for(lambda: "broker-b" in sent, "a message on broker-b")
        retired = orbitmq("broker", "retire", "broker-b", "--yes")
        count = len(sent)
        two.stop_broker("broker-b")
        wait_for(lambda: len(sent) >= count + 20 or not producing.is_alive(), "sends without broker-b")
        assert producing.is_alive(), "a send has failed"
        ended.set()
        producing.join()
        assert retired.code == 0
        said = retired.err.splitlines()
        assert said[0].startswith("1 of 3: broker-b takes no more messages")
        assert "2 of 3: no group has a message to read on it" in said
        assert f"3 of 3: stop {two.brokers['broker-b']} (SIGTERM): it un-registers by itself" in said
        assert set(sent[count:]) == {"broker-a"}
        wait_for(lambda: len(read) >= len(sent), "all messages")
    assert read == {b"%d" % number for number in range(len(sent))}


def test_a_broker_that_alone_has_a_topic_is_not_retired_and_one_that_is_not_read_is_waited_for(orbitmq, two):
    with Producer("makers", two.name_servers) as producer:
        for _ in range(16):
            producer.send(Message("orders", b"x"))
    assert orbitmq("consume", "orders", "--group", "billing").code == 0
    orbitmq("group", "reset", "billing", "orders", "--to", "earliest", "--yes")
    asked = orbitmq("broker", "retire", "broker-b")
    assert (asked.code, "this would let broker-b refuse sends; 8 messages are unread there" in asked.err) == (2, True)
    over = orbitmq("broker", "retire", "broker-b", "--yes", "--timeout", 0.5)
    assert (over.code, "2 of 3: 8 messages are still unread, by billing" in over.err) == (1, True)
    alone = orbitmq("broker", "retire", "broker-a", "--yes")
    assert (alone.code, "only there: orders" in alone.err) == (2, True)


def test_what_no_group_reads_and_what_waits_on_a_broker_is_named_before_and_after(orbitmq, two):
    orbitmq("topic", "create", "unread", "--broker", "broker-b")
    with Producer("makers", two.name_servers) as producer:
        producer.send(Message("unread", b"x"))
        producer.send(Message("unread", b"x", delay_ms=3_600_000))
    staying = ("1 message of topics in which no group has an offset there: unread", "1 delayed message")
    asked = orbitmq("broker", "retire", "broker-b", "--force", "--dry-run")
    assert "; ".join(staying) in asked.err
    said = orbitmq("broker", "retire", "broker-b", "--force", "--yes").err.splitlines()
    assert said[2:4] == [f"stays on it: {text}" for text in staying]
    assert "keep that" in said[-1]
