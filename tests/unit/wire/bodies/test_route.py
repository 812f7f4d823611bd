"""Routes and cluster information: both dialects, old spellings; routes from fragments are those encoded as a whole."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import route as codec
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


BROKER = BrokerData(cluster="c", broker_name="a", addresses={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
ROUTE = TopicRoute(
    queues=(QueueData(broker_name="a", read_queue_count=4, write_queue_count=4, perm=6),),
    brokers=(BROKER,),
    order_topic_conf="a:4",
    filter_servers={"10.0.0.1:10911": ("f:1",)},
)


@each_case(True, False)
def test_a_route_round_trips_in_both_dialects(standard):
    body = codec.encode_route(ROUTE, standard=standard)
    assert codec.decode_route(body) == ROUTE
    assert (b'{"0":' in body) is standard
    assert (b"{0:" in body) is not standard


def test_the_flag_name_of_old_brokers_is_understood():
    queue = {"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicSynFlag": 3}
    assert codec.decode_route(orjson.dumps({"queueDatas": [queue]})).queues[0].topic_sys_flag == 3


def test_cluster_info_and_member_group_round_trip():
    info = ClusterInfo(brokers={"a": BROKER}, clusters={"c": ("a",)})
    assert codec.decode_cluster_info(codec.encode_cluster_info(info)) == info
    assert codec.decode_member_group(codec.encode_member_group("c", "a", BROKER.addresses)) == BROKER


@each_case(b"", b"[]", b"{", b'{"brokerDatas":[1]}', b'{"queueDatas":[{"brokerName":1}]}')
def test_a_body_that_is_no_route_is_refused_by_name(body):
    with pytest.raises(HeaderError, match="route"):
        codec.decode_route(body)


def test_what_a_route_leaves_out_has_javas_defaults():
    queue = {"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 2}
    found = codec.decode_route(orjson.dumps({"queueDatas": [queue], "brokerDatas": [{"brokerName": "a"}]}))
    assert found.queues == (
        QueueData(broker_name="a", read_queue_count=1, write_queue_count=2, perm=6, topic_sys_flag=0),
    )
    (broker,) = found.brokers
    assert (broker.cluster, broker.addresses, broker.zone_name) == ("", {}, None)
    assert broker.enable_acting_master is False
    assert (found.order_topic_conf, found.filter_servers, found.queue_mappings) == (None, {}, None)


def test_a_route_that_came_unasked_is_bounded():
    with pytest.raises(HeaderError, match="limit 3"):
        codec.decode_route(b"{}  ", size_max=3)
    assert codec.decode_route(b"{} ", size_max=3) == TopicRoute()


def test_cluster_info_has_bare_broker_ids_unless_asked_otherwise():
    info = ClusterInfo(brokers={"a": BROKER}, clusters={"c": ("a",)})
    assert b"{0:" in codec.encode_cluster_info(info)
    assert b'{"0":' in codec.encode_cluster_info(info, standard=True)
    assert b"{0:" in codec.encode_member_group("c", "a", BROKER.addresses)
    assert b'{"0":' in codec.encode_member_group("c", "a", BROKER.addresses, standard=True)
    assert codec.decode_cluster_info(b"{}") == ClusterInfo(brokers={}, clusters={})


def test_an_encoder_forgets_all_fragments_when_it_has_too_many(monkeypatch):
    encoder = RouteEncoder(fragments_max=2)
    brokers = [BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name in "abc"]
    for broker in brokers[:2]:
        encoder.encode(TopicRoute(brokers=(broker,)))
    with monkeypatch.context() as patch:
        patch.setattr("orbitmq.wire.bodies.route._broker_document", None)
        for broker in brokers[:2]:  # both are known still
            encoder.encode(TopicRoute(brokers=(broker,)))
    encoder.encode(TopicRoute(brokers=(brokers[2],)))
    monkeypatch.setattr("orbitmq.wire.bodies.route._broker_document", None)
    with pytest.raises(TypeError):
        encoder.encode(TopicRoute(brokers=(brokers[0],)))


class Addresses(dict[int, str]):
    """A broker's addresses whose end can be noticed."""


@each_case(True, False)
def test_an_encoder_keeps_no_former_state_of_a_broker(standard: bool):
    encoder = RouteEncoder()
    states = []
    for count in range(1, 4):
        addresses = Addresses({number: f"h:{number}" for number in range(count)})
        states.append(weakref.ref(addresses))
        broker = BrokerData(cluster="c", broker_name="a", addresses=addresses)
        assert encoder.encode(TopicRoute(brokers=(broker,)), standard=standard).count(b"h:") == count
        del addresses, broker
    gc.collect()
    assert [state() is None for state in states] == [True, True, False]


def test_an_encoder_keeps_so_many_bytes_of_fragments_and_no_more():
    encoder = RouteEncoder(fragments_size_max=10_000)
    states = []
    for number in range(10):
        addresses = Addresses({0: "h" * 4_000})
        states.append(weakref.ref(addresses))
        broker = BrokerData(cluster="c", broker_name=f"n{number}", addresses=addresses)
        encoder.encode(TopicRoute(brokers=(broker,)))
        del addresses, broker
        gc.collect()
        assert sum(state() is not None for state in states) == 1 + number % 2
