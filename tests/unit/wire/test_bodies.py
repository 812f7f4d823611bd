import zlib
from struct import pack

import orjson
import pytest

from orbitmq.errors import HeaderError
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.wire.bodies import heartbeat, kv, registration, route, topics
from orbitmq.wire.bodies.topic_table import RegisteredTopic

BROKER = BrokerData(cluster="c", broker_name="a", addresses={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
ROUTE = TopicRoute(
    queues=(QueueData(broker_name="a", read_queue_count=4, write_queue_count=4, perm=6),),
    brokers=(BROKER,),
    order_topic_conf="a:4",
    filter_servers={"10.0.0.1:10911": ("f:1",)},
)


@pytest.mark.parametrize("standard", [True, False])
def test_a_route_round_trips_in_both_dialects(standard):
    body = route.encode_route(ROUTE, standard=standard)
    assert route.decode_route(body) == ROUTE
    assert (b'{"0":' in body) is standard
    assert (b"{0:" in body) is not standard


def test_the_flag_name_of_old_brokers_is_understood():
    queue = {"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicSynFlag": 3}
    assert route.decode_route(orjson.dumps({"queueDatas": [queue]})).queues[0].topic_sys_flag == 3


def test_cluster_info_and_member_group_round_trip():
    info = ClusterInfo(brokers={"a": BROKER}, clusters={"c": ("a",)})
    assert route.decode_cluster_info(route.encode_cluster_info(info)) == info
    assert route.decode_member_group(route.encode_member_group("c", "a", BROKER.addresses)) == BROKER


def test_a_registration_round_trips():
    version = DataVersion(1, 2, 3)
    body = registration.encode_registration(version, {"t": TopicConfig(topic="t", read_queue_count=8)}, ("f:1",))
    decoded = registration.decode_registration(body)
    assert decoded.data_version == version
    assert decoded.topics == {"t": RegisteredTopic(8, 16, 6, 0)}
    assert decoded.filter_servers == ("f:1",)


@pytest.mark.parametrize(("form", "expected"), [(b"{}", ()), (b'{"filterServerList":null}', None)])
def test_filter_servers_that_are_left_out_are_none_and_only_a_null_leaves_them_as_they_are(form, expected):
    assert registration.decode_registration(form).filter_servers == expected


def compressed_body(*, mappings: bool) -> bytes:
    def piece(data: bytes) -> bytes:
        return pack(">i", len(data)) + data

    parts = [piece(b'{"counter":3,"stateVersion":0,"timestamp":2}'), pack(">i", 2)]
    parts += [piece(b"t1 4 4 6 SINGLE_TAG"), piece(b't2 8 8 4 SINGLE_TAG {"a":"b"}'), piece(b"[]")]
    if mappings:
        parts += [pack(">i", 1), piece(b'{"topic":"t1","bname":"x"}')]
    return zlib.compress(b"".join(parts), 9)


@pytest.mark.parametrize("mappings", [True, False])
def test_the_compressed_registration_of_4x_brokers_is_understood(mappings):
    decoded = registration.decode_registration(
        compressed_body(mappings=mappings), compressed=True, version=413 if mappings else 401
    )
    assert decoded.data_version == DataVersion(0, 2, 3)
    assert decoded.topics == {"t1": RegisteredTopic(4, 4, 6, 0), "t2": RegisteredTopic(8, 8, 4, 0)}
    assert decoded.queue_mappings == ({"t1": {"topic": "t1", "bname": "x"}} if mappings else {})


def test_every_cut_of_a_compressed_registration_is_refused():
    plain = zlib.decompress(compressed_body(mappings=True))
    for cut in range(len(plain) - 1):
        try:
            registration.decode_registration(zlib.compress(plain[:cut]), compressed=True, version=413)
        except HeaderError:
            continue
        assert plain[:cut].endswith(b"[]"), "only the end of the filter list is an end too"


def test_a_compressed_registration_that_inflates_without_bound_is_refused():
    bomb = zlib.compress(bytes(registration.INFLATED_SIZE_MAX + 1), 9)
    with pytest.raises(HeaderError, match="over"):
        registration.decode_registration(bomb, compressed=True)


def test_a_topic_whose_queue_number_is_no_integer_is_refused():
    body = orjson.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {"t": {"readQueueNums": "x"}}}})
    with pytest.raises(HeaderError, match="integers"):
        registration.decode_registration(body)


def test_a_heartbeat_round_trips():
    subscription = Subscription(
        topic="t", expression="a||b", tags=frozenset("ab"), tag_codes=frozenset({97, 98}), version=5
    )
    beat = Heartbeat(
        client_id="1@2", producer_groups=("p",), consumers=(ConsumerInfo(group="g", subscriptions=(subscription,)),)
    )
    assert heartbeat.decode_heartbeat(heartbeat.encode_heartbeat(beat)) == beat


def test_a_heartbeat_with_a_deprecated_start_means_the_last_offset():
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeFromWhere":"CONSUME_FROM_MIN_OFFSET"}]}'
    assert heartbeat.decode_heartbeat(body).consumers[0].consume_from == "CONSUME_FROM_LAST_OFFSET"


def test_stats_keyed_by_queues_round_trip():
    queue = MessageQueue("t", "a", 3)
    assert topics.decode_topic_stats(topics.encode_topic_stats({queue: topics.QueueStats(1, 2, 3)})) == {
        queue: topics.QueueStats(1, 2, 3)
    }
    progress = {queue: topics.Progress(9, 4, 5, 6)}
    assert topics.decode_consume_stats(topics.encode_consume_stats(progress)) == progress


def test_tables_and_lists_round_trip():
    table = topics.TopicTable(DataVersion(0, 1, 2), {"t": TopicConfig(topic="t", attributes={"a": "b"})})
    assert topics.decode_topic_table(topics.encode_topic_table(table, pretty=True)) == table
    assert topics.decode_topic_list(topics.encode_topic_list(["x"], "h:1")) == (("x",), "h:1")
    assert kv.decode_kv_table(kv.encode_kv_table({"a": "b"})) == {"a": "b"}
    lock = heartbeat.QueueLock(group="g", client_id="c", queues=(MessageQueue("t", "b", 0),))
    assert heartbeat.decode_queue_lock(heartbeat.encode_queue_lock(lock)) == lock


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"brokerDatas":[1]}', b'{"queueDatas":[{"brokerName":1}]}'])
def test_a_body_that_is_no_route_is_refused_by_name(body):
    with pytest.raises(HeaderError, match="route"):
        route.decode_route(body)
