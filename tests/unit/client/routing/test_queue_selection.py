import pytest

from orbitmq.client.routing.queue_selection import (
    RoundRobin,
    address_of,
    choose_by_key,
    readable_queues,
    same_route,
    writable_queues,
)
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute


def queue_data(name, *, read=2, write=2, perm=6):
    return QueueData(broker_name=name, read_queue_count=read, write_queue_count=write, perm=perm)


def broker(name, addresses=None):
    return BrokerData(cluster="c", broker_name=name, addresses=addresses or {0: f"{name}:10911"})


def route(*queues, brokers=None, **more):
    return TopicRoute(queues=queues, brokers=brokers or tuple(broker(q.broker_name) for q in queues), **more)


def queue(name, number):
    return MessageQueue("t", name, number)


def test_a_producer_sees_the_writable_queues_in_the_order_of_broker_names():
    found = writable_queues("t", route(queue_data("b", write=1), queue_data("a", write=2), queue_data("c", perm=4)))
    assert found == (queue("a", 0), queue("a", 1), queue("b", 0))


def test_a_group_without_master_takes_no_messages_but_is_read():
    one = route(queue_data("a"), brokers=(broker("a", {1: "a:10912"}),))
    assert writable_queues("t", one) == ()
    assert readable_queues("t", one) == (queue("a", 0), queue("a", 1))


def test_a_topic_to_be_created_gets_no_more_queues_than_the_producer_asks_for():
    assert len(writable_queues("t", route(queue_data("a", write=8)), queue_count_max=4)) == 4


def test_a_consumer_sees_the_readable_queues_sorted():
    found = readable_queues("t", route(queue_data("b", read=1), queue_data("a", read=1), queue_data("c", perm=2)))
    assert found == (queue("a", 0), queue("b", 0))


def test_an_order_configuration_fixes_the_queues_whatever_brokers_are_there():
    found = writable_queues("t", route(queue_data("a"), order_topic_conf="b:1;a:2"))
    assert found == (queue("b", 0), queue("a", 0), queue("a", 1))


@pytest.mark.parametrize("conf", ["b", "b:x", ":4"])
def test_an_order_configuration_that_does_not_parse_is_named(conf):
    with pytest.raises(InvalidArgument, match="order configuration of topic t"):
        writable_queues("t", route(queue_data("a"), order_topic_conf=conf))


def test_the_order_of_lists_makes_no_other_route():
    one = route(queue_data("a"), queue_data("b"))
    other = TopicRoute(queues=one.queues[::-1], brokers=one.brokers[::-1])
    assert same_route(one, one)
    assert same_route(one, other)


@pytest.mark.parametrize(
    "changed",
    [
        route(queue_data("a")),
        route(queue_data("a"), queue_data("b", perm=4)),
        route(queue_data("a"), queue_data("b"), order_topic_conf="a:1"),
        route(queue_data("a"), queue_data("b"), brokers=(broker("a"), broker("b", {0: "other:1"}))),
        route(queue_data("a"), queue_data("b"), filter_servers={"a:10911": ("f:1",)}),
        None,
    ],
)
def test_every_other_difference_makes_another_route(changed):
    one = route(queue_data("a"), queue_data("b"))
    assert not same_route(one, changed)
    assert not same_route(changed, one)


def test_the_master_answers_or_else_the_smallest_slave():
    members = broker("a", {2: "s2", 1: "s1"})
    assert address_of(members) == "s1"
    assert address_of(members, 2) == "s2"
    assert address_of(members, only_this=True) is None
    assert address_of(BrokerData(cluster="c", broker_name="a", addresses={})) is None


def test_round_robin_visits_every_queue_in_turn():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0)]
    turns = RoundRobin(4)
    assert [turns.choose(queues) for _ in range(4)] == [queues[1], queues[2], queues[0], queues[1]]


def test_round_robin_passes_avoided_brokers_and_goes_on_behind_them():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0), queue("c", 0)]
    turns = RoundRobin(0)
    assert [turns.choose(queues, {"a"}) for _ in range(3)] == [queues[2], queues[3], queues[2]]


def test_round_robin_takes_any_queue_when_all_brokers_are_avoided():
    queues = [queue("a", 0), queue("b", 0)]
    assert RoundRobin(1).choose(queues, {"a", "b"}) == queues[1]


@pytest.mark.parametrize(("key", "place"), [("order-1", 0), ("hello", 2), ("", 0), ("polygenelubricants", 3)])
def test_a_key_chooses_the_queue_that_java_chooses(key, place):
    # Java: Math.abs(key.hashCode() % 5); "polygenelubricants" hashes to Integer.MIN_VALUE.
    assert choose_by_key([queue("a", number) for number in range(5)], key).queue_id == place
