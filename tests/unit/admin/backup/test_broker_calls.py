import pytest

from orbitmq.admin.backup.broker_calls import BrokerCalls, Master, is_silent, masters_of, own_topics, queue_count
from orbitmq.errors import ConnectionFailed, RemoteRefused, RequestTimeout, StoreError
from orbitmq.model.route import BrokerData, ClusterInfo
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.command import Command


def info():
    def broker(cluster, name, *ids):
        return BrokerData(
            cluster=cluster, broker_name=name, addresses={broker_id: f"{name}:{broker_id}" for broker_id in ids}
        )

    brokers = {"b": broker("one", "b", 0, 1), "a": broker("one", "a", 1), "c": broker("two", "c", 0)}
    return ClusterInfo(brokers=brokers, clusters={"one": ("a", "b", "gone"), "two": ("c",)})


def test_masters_are_found_and_brokers_without_one_are_named():
    assert masters_of(info()) == ([Master("b", "one", "b:0"), Master("c", "two", "c:0")], ["a"])
    assert masters_of(info(), "two") == ([Master("c", "two", "c:0")], [])


def test_topics_of_brokers_and_clusters_are_known():
    assert {"a", "one", "one_REPLY_TOPIC"} <= own_topics(info())


def test_a_topic_that_shrinks_has_the_queues_that_are_still_read():
    assert queue_count(TopicConfig(topic="orders", read_queue_count=8, write_queue_count=4)) == 8


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionFailed("x"), True),
        (RequestTimeout("x"), True),
        (RemoteRefused(1, None, "x"), False),
        (StoreError("x"), False),
    ],
)
def test_a_refusal_is_an_answer(error, expected):
    assert is_silent(error) is expected


async def test_what_changes_nothing_is_asked_again_while_a_broker_restarts(monkeypatch):
    asked = []

    async def send(_self, _address, header, _body=b""):
        asked.append(header)
        if len(asked) % 20:
            raise ConnectionFailed("refused")
        return Command(code=0, ext_fields={"offset": str(len(asked))})

    monkeypatch.setattr(BrokerCalls, "send", send)
    monkeypatch.setattr("orbitmq.admin.backup.broker_calls._PAUSE_S", 0)
    async with BrokerCalls("127.0.0.1:1") as calls:
        assert await calls.bounds("a", "orders", 0) == (20, 40)
        monkeypatch.setattr("orbitmq.admin.backup.broker_calls._RETRY_S", 0)
        with pytest.raises(ConnectionFailed):
            await calls.bounds("a", "orders", 0)
    assert len(asked) == 41
