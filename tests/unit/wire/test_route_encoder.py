"""Routes from fragments are the routes that were encoded as a whole, byte by byte."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.model.route import BrokerData, QueueData, TopicRoute
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.route import RouteEncoder

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(0, 9)
queues = st.builds(
    QueueData,
    broker_name=texts,
    read_queue_count=numbers,
    write_queue_count=numbers,
    perm=numbers,
    topic_sys_flag=numbers,
)
brokers = st.builds(
    BrokerData,
    cluster=texts,
    broker_name=texts,
    addresses=st.dictionaries(numbers, texts, max_size=3),
    zone_name=st.none() | texts,
    enable_acting_master=st.booleans(),
)
routes = st.builds(
    TopicRoute,
    queues=st.lists(queues, max_size=4).map(tuple),
    brokers=st.lists(brokers, max_size=4).map(tuple),
    order_topic_conf=st.none() | texts,
    filter_servers=st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2),
    queue_mappings=st.none()
    | st.dictionaries(texts, st.fixed_dictionaries({"currIdMap": st.just({0: 1})}), max_size=2),
)


def whole(route: TopicRoute, standard: bool) -> bytes:
    """Encode a route as one document."""
    document: dict[str, Any] = {
        "brokerDatas": [
            {
                "brokerAddrs": broker.addresses,
                "brokerName": broker.broker_name,
                "cluster": broker.cluster,
                "enableActingMaster": broker.enable_acting_master,
                **({} if broker.zone_name is None else {"zoneName": broker.zone_name}),
            }
            for broker in route.brokers
        ],
        "filterServerTable": route.filter_servers,
        **({} if route.order_topic_conf is None else {"orderTopicConf": route.order_topic_conf}),
        "queueDatas": [
            {
                "brokerName": queue.broker_name,
                "perm": queue.perm,
                "readQueueNums": queue.read_queue_count,
                "topicSysFlag": queue.topic_sys_flag,
                "writeQueueNums": queue.write_queue_count,
            }
            for queue in route.queues
        ],
        **({} if route.queue_mappings is None else {"topicQueueMappingByBroker": route.queue_mappings}),
    }
    return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS) if standard else fastjson.dumps_loose(document)


@given(st.lists(st.tuples(routes, st.booleans()), max_size=6), st.integers(1, 5))
def test_a_route_from_fragments_is_the_whole_one(asked: list[tuple[TopicRoute, bool]], fragments_max: int):
    encoder = RouteEncoder(fragments_max)
    for route, standard in asked + asked:
        assert encoder.encode(route, standard=standard) == whole(route, standard)


@pytest.mark.parametrize("standard", [True, False])
def test_a_broker_is_encoded_once_for_all_its_topics(standard: bool, monkeypatch: pytest.MonkeyPatch):
    broker = BrokerData(cluster="c", broker_name="a", addresses={0: "a:10911"})
    queue = QueueData(broker_name="a", read_queue_count=8, write_queue_count=8, perm=6)
    encoder = RouteEncoder()
    first = encoder.encode(TopicRoute(queues=(queue,), brokers=(broker,)), standard=standard)
    monkeypatch.setattr("orbitmq.wire.bodies.route._broker_document", None)
    monkeypatch.setattr("orbitmq.wire.bodies.route._queue_document", None)
    assert encoder.encode(TopicRoute(queues=(queue,), brokers=(broker,)), standard=standard) == first
