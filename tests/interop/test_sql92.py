"""SQL92 filters: Java's consumers at our broker, our consumers at Java's."""

import pytest

from interop.drain import bodies
from interop.peers import JavaBroker, PeerError, message
from orbitmq import Message
from orbitmq.blocking import Producer, PullConsumer, PushConsumer
from orbitmq.model.group import ConsumeFrom
from orbitmq.testing import LocalCluster

EXPRESSION = "price > 10 AND (region IN ('eu', 'us') OR region IS NULL) AND NOT (notes CONTAINS 'secret')"
SENT = (
    (b"dear eu", {"price": "11", "region": "eu"}),
    (b"cheap eu", {"price": "10", "region": "eu"}),
    (b"dear asia", {"price": "50", "region": "asia"}),
    (b"dear", {"price": "2147483647"}),
    (b"huge", {"price": "2147483648"}),
    (b"secret", {"price": "20", "notes": "a secret"}),
    (b"told", {"price": "20", "notes": "no news"}),
    (b"much", {"price": "much"}),
    (b"nothing", {}),
)
WANTED = sorted((b"dear eu", b"dear", b"told"))


@pytest.fixture(scope="module")
def filtering():
    """A broker of ours with property filter."""
    with LocalCluster.running(settings={"enable_property_filter": True}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_filtering(java_name_server, our_name_server, tmp_path_factory):
    """A Java broker with property filter, known to a NameServer of ours."""
    broker = JavaBroker(
        tmp_path_factory.mktemp("java-filtering"),
        f"{java_name_server.address};{our_name_server}",
        name="java-filtering",
        cluster="FilteringCluster",
        properties={"enablePropertyFilter": "true"},
    )
    broker.start()
    yield our_name_server
    broker.kill()


def send(name_servers, topic, sent=SENT):
    with Producer("sql-producers", name_servers) as producer:
        for body, properties in sent:
            producer.send(Message(topic, body, properties=properties))


def test_a_java_consumer_by_sql_gets_what_its_expression_wants(java, filtering, name):
    send(filtering.name_servers, name)
    consumer = java.consumer(f"{name}-group", filtering.name_servers, name, sql=EXPRESSION)
    consumer.wait_for_messages(len(WANTED))
    late = [(b"late cheap", {"price": "1"}), (b"late dear", {"price": "99"})] * 4
    send(filtering.name_servers, name, late)  # its pulls are held at all queues now
    received = consumer.wait_for_messages(len(WANTED) + 4)
    consumer.stop()
    assert bodies(received) == sorted([*WANTED, *[b"late dear"] * 4])


def test_a_java_consumers_wrong_expression_is_refused_with_the_place(java, filtering, name):
    send(filtering.name_servers, name, SENT[:1])
    with pytest.raises(PeerError, match="line 1, column 8"):
        java.consumer(f"{name}-group", filtering.name_servers, name, sql="price >")


def test_a_java_consumer_by_sql_is_refused_where_only_tags_count(java, name):
    with LocalCluster.running(settings={"enable_property_filter": False}) as cluster:
        send(cluster.name_servers, name, SENT[:1])
        with pytest.raises(PeerError, match="does not support consumer to filter message by SQL92"):
            java.consumer(f"{name}-group", cluster.name_servers, name, sql=EXPRESSION)


def take(consumer, count):
    found = []
    while len(found) < count:
        batch = consumer.next_batch()
        found += [message.body for message in batch]
        batch.commit()
    return found


def test_our_push_consumer_filters_a_java_producers_messages_by_sql(java, filtering, name):
    producer = java.producer(f"{name}-producers", filtering.name_servers)
    producer.send(*(message(name, body, properties=properties) for body, properties in SENT))
    producer.stop()
    with PushConsumer(f"{name}-group", filtering.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe(name, sql=EXPRESSION)
        found = take(consumer, len(WANTED))
        send(filtering.name_servers, name, [(b"late cheap", {"price": "1"}), (b"late dear", {"price": "99"})] * 4)
        found += take(consumer, 4)
    assert sorted(found) == sorted([*WANTED, *[b"late dear"] * 4])


def test_our_consumers_are_filtered_by_javas_broker(java_filtering, create_topic, name):
    create_topic(java_filtering, name, 2, "FilteringCluster")
    send(java_filtering, name)
    with PushConsumer(f"{name}-group", java_filtering, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe(name, sql=EXPRESSION)
        found = take(consumer, len(WANTED))
        send(java_filtering, name, [(b"late cheap", {"price": "1"}), (b"late dear", {"price": "99"})] * 2)
        found += take(consumer, 2)
    assert sorted(found) == sorted([*WANTED, *[b"late dear"] * 2])
    with PullConsumer(f"{name}-audit", java_filtering, sql="price = 11") as puller:
        puller.assign(puller.queues(name))
        read = []
        while not read:
            read = puller.poll()
        assert [message.body for message in read] == [b"dear eu"]
