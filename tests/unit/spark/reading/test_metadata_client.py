"""Queues, their brokers and their offsets, as a cluster tells them over a blocking connection."""

from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError, ConnectionFailed, NoNameServer, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute
from orbitmq.spark.offsets import Committed, Earliest, Latest, QueueTimes, Timestamp
from orbitmq.spark.reading import metadata_client
from orbitmq.spark.reading.metadata_client import MetadataClient, QueuesNotTold, queue_addresses
from orbitmq.wire.headers import GetMaxOffset, GetRouteInfo, GetTopicStats, UpdateConsumerOffset
from unit.spark.fake_broker import FakeBroker

DEAD = "127.0.0.1:1"


@pytest.fixture
def client(fake):
    with MetadataClient([fake.address]) as opened:
        yield opened


def queue(queue_id: int, topic: str = "orders", broker_name: str = "fake") -> MessageQueue:
    return MessageQueue(topic, broker_name, queue_id)


def test_queues_of_named_topics_and_of_a_pattern_come_with_their_address(fake, client):
    fake.fill("orders", 1, 1)
    fake.fill("bills", 0, 1)
    fake.fill("other", 0, 1)

    found = client.queues(["orders"], "b.*")

    assert found == dict.fromkeys((queue(0), queue(1), queue(0, "bills")), fake.address)


def test_a_pattern_means_whole_names_of_topics_that_users_made(fake, client):
    for topic in ("orders", "orders-eu", "BenchmarkTest"):
        fake.fill(topic, 0, 1)

    assert client.matching_topics("orders") == ["orders"]
    assert client.matching_topics(".*") == ["orders", "orders-eu"]
    assert client.matching_topics("%RETRY%.*") == ["%RETRY%g"]


def test_a_topic_of_a_pattern_may_be_deleted_meanwhile(fake, client):
    fake.fill("orders", 0, 1)

    assert client.queues([], "%RETRY%g|orders") == {queue(0): fake.address}
    assert client.queues([], "%RETRY%g") == {}


def test_a_topic_that_was_named_must_exist(fake, client):
    with pytest.raises(RouteNotFound, match=f"topic orders has no route at {fake.address}"):
        client.queues(["orders"])


def test_bounds_become_offsets(fake, client):
    fake.fill("orders", 0, 10, first=5)
    queues = client.queues(["orders"])

    assert client.resolve(queues, Earliest(), "startingOffsets") == {queue(0): 5}
    assert client.resolve(queues, Latest(), "startingOffsets") == {queue(0): 15}
    assert client.resolve(queues, Timestamp(9), "startingOffsets") == {queue(0): 9}
    assert client.resolve(queues, {queue(0): -1}, "startingOffsets") == {queue(0): 15}
    assert client.resolve(queues, {queue(0): -2}, "startingOffsets") == {queue(0): 5}
    with pytest.raises(ConfigError, match="endingOffsets"):
        client.resolve(queues, {queue(7): 0}, "endingOffsets")


def test_a_group_that_has_not_consumed_a_queue_begins_at_its_first_message(fake, client):
    fake.fill("orders", 0, 10, first=5)
    fake.fill("orders", 1, 10, first=3)
    fake.committed["billing", "orders", 0] = 9
    queues = client.queues(["orders"])

    assert client.resolve(queues, Committed("billing"), "startingOffsets") == {queue(0): 9, queue(1): 3}


def test_each_queue_may_have_its_time(fake, client):
    fake.fill("orders", 0, 10)
    fake.fill("orders", 1, 10)
    queues = client.queues(["orders"])

    assert client.resolve(queues, QueueTimes({queue(0): 4, queue(1): 7}), "s") == {queue(0): 4, queue(1): 7}
    with pytest.raises(ConfigError, match="missing orders/fake/1"):
        client.resolve(queues, QueueTimes({queue(0): 4}), "s")


def test_the_first_offset_of_a_group_in_a_topic_goes_before_the_others(fake, client, monkeypatch):
    """Java's broker loses one of two first offsets that come at the same time."""
    ask_each, together = client._ask_each, []

    def ask(asked, *others):
        together.append(sum(map(len, asked.values())))
        return ask_each(asked, *others)

    monkeypatch.setattr(client, "_ask_each", ask)
    queues = {queue(number): fake.address for number in range(3)}
    for offset in (4, 5):
        client.commit(queues, "billing", dict.fromkeys(queues, offset))
        assert fake.committed == {("billing", "orders", number): offset for number in range(3)}
    assert [count for count in together if count] == [1, 2, 3]


def test_offsets_are_committed_where_their_queues_are(fake, client):
    fake.fill("orders", 0, 10)
    client.commit({queue(0): fake.address}, "billing", {queue(0): 4, queue(1): 7})

    assert fake.committed == {("billing", "orders", 0): 4}
    fake.refuses.add(UpdateConsumerOffset)
    with pytest.raises(RemoteRefused, match="not you"):
        client.commit({queue(0): fake.address}, "billing", {queue(0): 5})


def test_the_next_messages_say_how_large_messages_are(fake, client):
    fake.fill("orders", 0, 10, size=100)
    fake.fill("orders", 0, 90, size=1000)
    fake.fill("orders", 1, 5)
    queues = client.queues(["orders"])
    begins = {queue(0): 10, queue(1): 5, queue(7): 0}

    assert client.record_sizes(queues, begins, "g") == {queue(0): len(fake.queues["orders", 0].records[10])}
    assert client.record_sizes(queues, {queue(0): 0}, "g") == {queue(0): len(fake.queues["orders", 0].records[0])}


def test_a_name_server_that_is_dead_is_passed_over_and_not_asked_again(fake):
    fake.fill("orders", 0, 1)
    with MetadataClient([DEAD, fake.address]) as client:
        client.route("orders")
        with pytest.raises(RouteNotFound, match=f"at {fake.address}, {DEAD}:"):
            client.route("nothing")


def test_a_name_server_that_does_not_know_the_topic_is_passed_over(fake):
    fake.fill("orders", 0, 1)
    with FakeBroker() as other, MetadataClient([other.address, fake.address]) as client:
        assert client.route("orders").queues
        with pytest.raises(RouteNotFound):
            client.route("nothing")


def test_a_name_server_without_a_broker_does_not_say_that_a_topic_is_missing(fake, client):
    fake.is_registered = False
    with pytest.raises(NoNameServer, match=f"no broker is registered at {fake.address}"):
        client.route("orders")


@pytest.mark.real
def test_when_no_server_answers_the_error_names_all():
    with (
        MetadataClient([DEAD, "127.0.0.1:2"]) as client,
        pytest.raises(NoNameServer, match=r"127.0.0.1:1.*127.0.0.1:2"),
    ):
        client.route("orders")


def test_a_broker_that_does_not_answer_is_reported_or_raised(fake, client):
    fake.fill("orders", 0, 3)
    queues = {queue(0): fake.address, queue(1): DEAD}
    silent = []

    assert client.latest(queues, unreachable=lambda address, _: silent.append(address)) == {queue(0): 3}
    assert silent == [DEAD]
    with pytest.raises(QueuesNotTold, match=f"fake/1.*{DEAD}") as raised:
        client.latest(queues)
    assert isinstance(raised.value.error, ConnectionFailed)


def test_a_broker_answers_for_many_queues_in_one_request(fake, client):
    for queue_id in range(metadata_client.MANY_QUEUES):
        fake.fill("orders", queue_id, 3 + queue_id)
    queues = {queue(queue_id): fake.address for queue_id in range(metadata_client.MANY_QUEUES)}
    few = dict(list(queues.items())[1:])

    assert client.latest(queues) == {queue(queue_id): 3 + queue_id for queue_id in range(metadata_client.MANY_QUEUES)}
    assert [type(asked) for asked in fake.asked] == [GetTopicStats]
    assert client.latest(few) == {queue(queue_id): 3 + queue_id for queue_id in range(1, metadata_client.MANY_QUEUES)}
    assert [type(asked) for asked in fake.asked[1:]] == [GetMaxOffset] * len(few)


def test_a_broker_that_does_not_tell_of_all_queues_is_asked_for_each(fake, client):
    fake.refuses.add(GetTopicStats)
    for queue_id in range(metadata_client.MANY_QUEUES):
        fake.fill("orders", queue_id, 3)
    queues = {queue(queue_id): fake.address for queue_id in range(metadata_client.MANY_QUEUES)}

    for _ in range(2):
        assert client.latest(queues) == dict.fromkeys(queues, 3)
    assert sum(isinstance(asked, GetTopicStats) for asked in fake.asked) == 1


def test_a_queue_that_is_left_out_of_the_answer_is_asked_for(fake, client):
    for queue_id in range(metadata_client.MANY_QUEUES):
        fake.fill("orders", queue_id, 3)
    queues = {queue(queue_id): fake.address for queue_id in range(metadata_client.MANY_QUEUES + 1)}
    assert client.latest(queues)[queue(metadata_client.MANY_QUEUES)] == 0


def test_a_broker_that_hangs_does_not_delay_the_others(fake, client, hung):
    fake.fill("orders", 0, 3)
    queues = {queue(1): hung, queue(0): fake.address}
    silent = []
    for _ in range(2):
        assert client.latest(queues, unreachable=lambda address, _: silent.append(address)) == {queue(0): 3}
        assert client.origins(queues).keys() == {queue(0)}
    assert silent == [hung] * 2


def test_a_name_server_that_hangs_is_passed_over_and_not_asked_again(fake, hung):
    fake.fill("orders", 0, 1)
    # A caller of the one that hangs would wait for ever here: the test ends because none does.
    with MetadataClient([hung, fake.address], timeout_ms=600_000) as client:
        client.route("orders")
        assert client._name_servers.addresses == [fake.address, hung]


def test_name_servers_that_are_all_slow_are_waited_for(fake, monkeypatch):
    monkeypatch.setattr(metadata_client, "ROUND_S", 0.0)
    fake.fill("orders", 0, 1)
    with MetadataClient([DEAD, fake.address]) as client:
        assert client.queues(["orders"]) == {queue(0): fake.address}


def test_a_broker_that_hangs_keeps_no_commit_and_no_size_of_the_others_waiting(fake, hung):
    fake.fill("orders", 0, 10)
    with MetadataClient([fake.address], timeout_ms=600_000) as client:
        queues = {queue(1): hung, queue(0): fake.address}
        with pytest.raises(RequestTimeout):
            client.commit(queues, "billing", {queue(0): 4, queue(1): 7})
        assert fake.committed == {("billing", "orders", 0): 4}
        assert client.record_sizes(queues, {queue(0): 0, queue(1): 0}, "g").keys() == {queue(0)}


def test_a_refusal_says_who_refused(fake, client):
    fake.refuses.add(GetMaxOffset)

    with pytest.raises(QueuesNotTold, match=f"fake/0.*{fake.address} answered code 16: not you"):
        client.latest({queue(0): fake.address})


def test_a_route_that_is_refused_says_who_refused(fake, client):
    fake.refuses.add(GetRouteInfo)

    with pytest.raises(RemoteRefused, match=f"{fake.address} answered code 16: not you"):
        client.route("orders")


def test_a_connection_that_died_between_two_questions_is_recreated(fake, client):
    fake.fill("orders", 0, 3)
    assert client.latest({queue(0): fake.address}) == {queue(0): 3}
    fake.drop_connections()

    assert client.latest({queue(0): fake.address}) == {queue(0): 3}


def test_a_connection_that_brought_no_answer_is_not_used_again(fake):
    fake.fill("orders", 0, 3)
    fake.is_silent = True
    with MetadataClient([fake.address], timeout_ms=100) as client:
        with pytest.raises(QueuesNotTold, match=fake.address):
            client.latest({queue(0): fake.address})
        fake.is_silent = False

        assert client.latest({queue(0): fake.address}) == {queue(0): 3}
        fake.wait_for_connections(1)


def test_an_answer_that_comes_after_the_end_leaves_no_connection(fake, client):
    fake.fill("orders", 0, 3)
    client.close()

    assert client.latest({queue(0): fake.address}) == {queue(0): 3}
    fake.wait_for_connections(0)


def test_one_connection_carries_all_questions(fake, client):
    fake.fill("orders", 3, 3)
    client.latest(client.queues(["orders"]))
    client.earliest(client.queues(["orders"]))

    assert fake.connection_count == 1


def test_queues_are_read_from_the_master_or_a_slave_while_there_is_none():
    queues = tuple(
        QueueData(broker_name=name, read_queue_count=1, write_queue_count=1, perm=perm)
        for name, perm in [("both", 6), ("slaves", 4), ("closed", 2), ("gone", 6), ("empty", 6)]
    )
    addresses = {"both": {0: "m:1", 1: "s:1"}, "slaves": {3: "s:3", 2: "s:2"}, "closed": {0: "c:1"}, "empty": {}}
    brokers = tuple(BrokerData(cluster="c", broker_name=name, addresses=found) for name, found in addresses.items())

    found = queue_addresses("orders", TopicRoute(queues=queues, brokers=brokers))

    assert found == {queue(0, broker_name="both"): "m:1", queue(0, broker_name="slaves"): "s:2"}


def test_a_logical_queue_is_read_at_its_leader():
    def mapping(name: str, **led: int) -> dict[str, object]:
        return {"bname": name, "currIdMap": led, "epoch": 1, "scope": "__global__", "totalQueues": 2}

    names = ("a", "b")
    route = TopicRoute(
        queues=tuple(QueueData(broker_name=name, read_queue_count=1, write_queue_count=1, perm=6) for name in names),
        brokers=tuple(BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name in names),
        queue_mappings={"a": mapping("a", **{"1": 0}), "b": mapping("b", **{"0": 0})},
    )
    logical = [MessageQueue("orders", "__syslo__global__", number) for number in range(2)]
    assert queue_addresses("orders", route) == dict(zip(logical, ["b:1", "a:1"], strict=True))
