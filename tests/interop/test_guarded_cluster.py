"""Java's clients and mqadmin over TLS, and signed, against a NameServer and a broker of ours that take nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from guarded import SECRETS, GuardedCluster, guarded_cluster
from interop.drain import bodies, read_all
from interop.peers import JavaClients, PeerError, message
from orbitmq import Message
from orbitmq.blocking import Producer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_over_tls(
    jars: None, guarded: GuardedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClients]:
    """Java clients that check our certificate, and an mqadmin that signs as the operator."""
    home = tmp_path_factory.mktemp("java-over-tls")
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text(f"accessKey: admin-key\nsecretKey: {SECRETS['admin']}\n")
    tls = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": guarded.folder / "trust.pem",
    }
    clients = JavaClients(home, jvm=[f"-D{name}={value}" for name, value in tls.items()])
    yield clients
    clients.close()


@pytest.fixture
def topic(java_over_tls: JavaClients, guarded: GuardedCluster, name: str) -> str:
    """A topic that mqadmin made."""
    said = java_over_tls.mqadmin("updateTopic", "-n", guarded.name_servers, "-c", "DefaultCluster", "-t", name)
    assert "success" in said
    return name


@pytest.fixture
def clients(java_over_tls: JavaClients, guarded: GuardedCluster) -> Iterator[Callable[..., object]]:
    """Return a function that starts a Java producer or consumer with an account's keys; all are stopped at the end."""
    started: list[Any] = []

    def start(kind: str, role: str, *arguments: str, secret: str = "", **settings: object):
        keys = {"access_key": f"{role}-key", "secret_key": secret or SECRETS[role]}
        make: Any = {"producer": java_over_tls.producer, "consumer": java_over_tls.consumer}[kind]
        started.append(make(f"{role}-group", guarded.name_servers, *arguments, **keys, **settings))
        return started[-1]

    yield start
    for client in started:
        client.stop()


def test_a_java_producer_sends_over_tls_with_its_signature(guarded, clients, topic):
    before = guarded.encrypted_count()
    producer = clients("producer", "writer")
    sent = producer.send(*(message(topic, b"%d" % n, tag="t") for n in range(8)))
    batch = producer.send_batch(message(topic, b"8"), message(topic, b"9"))
    large = b"x" * 1_000_000
    producer.send(message(topic, large))

    assert {item["status"] for item in [*sent, batch]} == {"SEND_OK"}
    read = read_all(guarded.name_servers, topic, 11, **guarded.security("reader")._asdict())
    assert bodies(read) == sorted([large, *(b"%d" % n for n in range(10))])
    assert all(now > then for now, then in zip(guarded.encrypted_count(), before, strict=True))


@pytest.mark.proof
def test_a_java_consumer_gets_messages_and_sends_one_back_as_a_reader(guarded, clients, topic):
    consumer = clients("consumer", "reader", topic, fail_first=1)
    with Producer("ours", guarded.name_servers, **guarded.security("writer")._asdict()) as producer:
        producer.send(Message(topic, b"again"))
    received = consumer.wait_for_messages(2)

    assert [item["reconsume_times"] for item in received] == [0, 1]
    assert {item["body"] for item in received} == {b"again"}


@pytest.mark.parametrize(("role", "secret"), [("reader", ""), ("writer", "somebody-elses-secret")])
def test_a_java_producer_that_may_not_send_is_refused(guarded, clients, topic, role, secret):
    refusals = guarded.broker.running.server.counters.refusals
    before = refusals[310, 16]
    with pytest.raises(PeerError, match="still failed"):  # it tries again on 16, and keeps the remark to itself
        clients("producer", role, secret=secret).send(message(topic, b"no"))
    assert refusals[310, 16] > before


def test_mqadmin_looks_into_the_broker(guarded, java_over_tls, topic):
    at = ("-n", guarded.name_servers)
    assert "putTps" in java_over_tls.mqadmin("brokerStatus", *at, "-b", guarded.broker.address)
    assert guarded.broker.config.broker_name in java_over_tls.mqadmin("clusterList", *at)
    assert guarded.broker.config.broker_name in java_over_tls.mqadmin("topicStatus", *at, "-t", topic)
