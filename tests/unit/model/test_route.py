"""Routes: defaults of their parts, and the order of queues."""

from __future__ import annotations

from orbitmq.model.route import MASTER_ID, BrokerData, MessageQueue, QueueData, TopicRoute


def test_queues_sort_as_javas_do() -> None:
    queues = [
        MessageQueue("t", "b", 0),
        MessageQueue("t", "a", 10),
        MessageQueue("s", "z", 5),
        MessageQueue("t", "a", 9),
    ]
    assert sorted(queues) == [queues[2], queues[3], queues[1], queues[0]]


def test_parts_that_are_left_out_are_empty() -> None:
    route = TopicRoute()
    assert (route.queues, route.brokers, route.order_topic_conf) == ((), (), None)
    assert (route.filter_servers, route.queue_mappings) == ({}, None)
    assert QueueData(broker_name="a", read_queue_count=1, write_queue_count=1, perm=6).topic_sys_flag == 0
    broker = BrokerData(cluster="c", broker_name="a", addresses={MASTER_ID: "h:1"})
    assert (broker.zone_name, broker.enable_acting_master, broker.addresses[0]) == (None, False, "h:1")
