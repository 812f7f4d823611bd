import pytest

from cases import each_case
from orbitmq.client.routing.route_queues import NO_LEADER, is_logical, leaders, readable_queues, writable_queues
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from unit.client.routing.support import broker, queue_data, route


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


@each_case("b", "b:x", ":4")
def test_an_order_configuration_that_does_not_parse_is_named(conf):
    with pytest.raises(InvalidArgument, match="order configuration of topic t"):
        writable_queues("t", route(queue_data("a"), order_topic_conf=conf))


def mapping(name, led, *, epoch=1, count=3, scope="__global__"):
    return {
        "bname": name,
        "currIdMap": {str(number): number + 5 for number in led},
        "epoch": epoch,
        "scope": scope,
        "totalQueues": count,
    }


def static(*mappings, **more):
    return route(queue_data("a"), queue_data("b"), queue_mappings={one["bname"]: one for one in mappings}, **more)


def test_a_static_topics_queues_are_logical_for_producers_and_consumers():
    found = static(mapping("b", [0]), mapping("a", [1]))
    logical = tuple(queue("__syslo__global__", number) for number in range(3))
    assert writable_queues("t", found) == readable_queues("t", found) == logical
    assert leaders("t", found) == dict(zip(logical, ["b", "a", NO_LEADER], strict=True))
    assert all(map(is_logical, logical))
    assert not is_logical(queue("a", 0))


def test_a_plain_topics_queues_have_no_leaders():
    assert leaders("t", route(queue_data("a"))) == {}
    assert leaders("t", route(queue_data("a"), queue_mappings={})) == {}


def test_a_mapping_without_an_epoch_is_older_than_the_first_one():
    unnumbered = mapping("z", [0], count=1) | {"epoch": None}
    first = mapping("a", [0], epoch=1, count=1)
    for mappings in ((unnumbered, first), (first, unnumbered)):
        assert list(leaders("t", static(*mappings)).values()) == ["a"]
    assert leaders("t", static({"bname": "a", "scope": "__global__"})) == {}


def test_the_newer_of_two_mappings_says_who_leads_a_queue():
    found = static(mapping("a", [0], epoch=2, count=1), mapping("b", [0], epoch=1, count=1))
    assert leaders("t", found) == {queue("__syslo__global__", 0): "a"}


def test_scopes_are_apart_and_what_says_none_is_left_out():
    nameless = mapping("c", [0]) | {"scope": None}
    found = static(mapping("a", [0], count=1), mapping("b", [0], scope="__other", count=1), nameless)
    assert leaders("t", found) == {queue("__syslo____other", 0): "b", queue("__syslo__global__", 0): "a"}


def test_a_topic_has_no_more_logical_queues_than_there_can_be():
    assert len(leaders("t", static(mapping("a", [], count=2**31 - 1)))) == 65_536


def test_an_order_configuration_goes_before_the_mapping():
    assert writable_queues("t", static(mapping("a", [0]), order_topic_conf="b:1")) == (queue("b", 0),)
