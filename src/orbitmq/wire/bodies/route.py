"""Routes and cluster information.

Source: docs/formats/wire_frame.md, "JSON bodies"; Java TopicRouteData, ClusterInfo, BrokerMemberGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import orjson

from orbitmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import int32, number, parse_body, text

FRAGMENTS_MAX = 20_000
"""Encoded brokers, and queues of brokers, that an encoder keeps."""
FRAGMENTS_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of each kind of them: a name may have hundreds of slaves, and names come and go."""

V = TypeVar("V")
K = TypeVar("K")


class RouteEncoder:
    """Encodes routes, each broker and each of its queue settings once, however many topics they serve."""

    def __init__(self, fragments_max: int = FRAGMENTS_MAX, fragments_size_max: int = FRAGMENTS_SIZE_MAX) -> None:
        limits = fragments_max, fragments_size_max
        # Queues are shared by topics, and a broker has several; of a broker name, only the present state is wanted.
        self._queues = _Fragments[QueueData, int](id, lambda queue: orjson.dumps(_queue_document(queue)), *limits)
        self._brokers = _Fragments[BrokerData, str](_name_of, lambda it: _dump(_broker_document(it), True), *limits)
        self._loose_brokers = _Fragments[BrokerData, str](
            _name_of, lambda it: _dump(_broker_document(it), False), *limits
        )

    def encode(self, route: TopicRoute, *, standard: bool = True) -> bytes:
        """Encode a route answer.

        Args:
            standard: quote the broker ids, as peers from version 4.9.4 on want it; otherwise they stand bare.
        """
        brokers = self._brokers if standard else self._loose_brokers
        filter_servers = {address: list(servers) for address, servers in route.filter_servers.items()}
        parts = [b'{"brokerDatas":[', brokers.join(route.brokers)]
        parts += b'],"filterServerTable":', _dump(filter_servers, standard)
        if route.order_topic_conf is not None:
            parts += b',"orderTopicConf":', orjson.dumps(route.order_topic_conf)
        parts += b',"queueDatas":[', self._queues.join(route.queues), b"]"
        if route.queue_mappings is not None:
            parts += b',"topicQueueMappingByBroker":', _dump(route.queue_mappings, standard)
        return b"".join((*parts, b"}"))


def encode_route(route: TopicRoute, *, standard: bool = True) -> bytes:
    """Encode one route answer, see `RouteEncoder.encode`."""
    return RouteEncoder().encode(route, standard=standard)


def decode_route(body: bytes, *, size_max: int = 0) -> TopicRoute:
    """Decode a route, of either dialect.

    Args:
        size_max: bytes of a route that was sent unasked; 0 for an answer.

    Raises:
        HeaderError: the body is not a route.
    """
    return parse_body("route", body, _parse_route, size_max=size_max)


def encode_cluster_info(info: ClusterInfo, *, standard: bool = False) -> bytes:
    """Encode the answer to GET_BROKER_CLUSTER_INFO; Java writes bare broker ids here."""
    document = {
        "brokerAddrTable": {name: _broker_document(broker) for name, broker in info.brokers.items()},
        "clusterAddrTable": {cluster: list(names) for cluster, names in info.clusters.items()},
    }
    return _dump(document, standard)


def decode_cluster_info(body: bytes) -> ClusterInfo:
    """Decode the answer to GET_BROKER_CLUSTER_INFO."""
    return parse_body("cluster info", body, _parse_cluster_info)


def encode_member_group(
    cluster: str, broker_name: str, addresses: Mapping[int, str], *, standard: bool = False
) -> bytes:
    """Encode the answer to GET_BROKER_MEMBER_GROUP."""
    group = {"brokerAddrs": dict(addresses), "brokerName": broker_name, "cluster": cluster}
    return _dump({"brokerMemberGroup": group}, standard)


def decode_member_group(body: bytes) -> BrokerData:
    """Decode the answer to GET_BROKER_MEMBER_GROUP."""
    return parse_body("broker member group", body, lambda document: _parse_broker(document["brokerMemberGroup"]))


class _Fragments(Generic[V, K]):
    """Encoded values, one for each key. They are frozen and kept: comparing identities is enough, and costs nothing.

    Args:
        key_of: a value takes the place of the one that had its key before.
    """

    def __init__(self, key_of: Callable[[V], K], encode: Callable[[V], bytes], count_max: int, size_max: int) -> None:
        self._key_of = key_of
        self._encode = encode
        self._count_max = count_max
        self._size_max = size_max
        self._size = 0
        self._known: dict[K, tuple[V, bytes]] = {}

    def join(self, values: Iterable[V]) -> bytes:
        return b",".join(map(self._encoded, values))

    def _encoded(self, value: V) -> bytes:
        key = self._key_of(value)
        found = self._known.get(key)
        if found is not None:
            if found[0] is value:
                return found[1]
            self._size -= len(found[1])
            del self._known[key]
        # A copy: what orjson returns keeps the 4 KiB that it was written into, whatever its length.
        encoded = bytes(memoryview(self._encode(value)))
        self._size += len(encoded)
        if len(self._known) >= self._count_max or self._size > self._size_max:
            self._known.clear()
            self._size = len(encoded)
        self._known[key] = value, encoded
        return encoded


def _name_of(broker: BrokerData) -> str:
    return broker.broker_name


def _dump(document: Mapping[str, Any], standard: bool) -> bytes:
    if standard:
        return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
    return fastjson.dumps_loose(document)


def _broker_document(broker: BrokerData) -> dict[str, Any]:
    document: dict[str, Any] = {
        "brokerAddrs": dict(broker.addresses),
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    if broker.zone_name is not None:
        document["zoneName"] = broker.zone_name
    return document


def _queue_document(queue: QueueData) -> dict[str, Any]:
    return {
        "brokerName": queue.broker_name,
        "perm": queue.perm,
        "readQueueNums": queue.read_queue_count,
        "topicSysFlag": queue.topic_sys_flag,
        "writeQueueNums": queue.write_queue_count,
    }


def _parse_route(document: dict[str, Any]) -> TopicRoute:
    filter_servers = document.get("filterServerTable") or {}
    return TopicRoute(
        queues=tuple(_parse_queue(queue) for queue in document.get("queueDatas") or ()),
        brokers=tuple(_parse_broker(broker) for broker in document.get("brokerDatas") or ()),
        order_topic_conf=document.get("orderTopicConf"),
        filter_servers={address: tuple(servers or ()) for address, servers in filter_servers.items()},
        queue_mappings=document.get("topicQueueMappingByBroker"),
    )


def _parse_queue(document: dict[str, Any]) -> QueueData:
    # Peers up to 4.8 misspelt the flag's name.
    flag = document.get("topicSysFlag", document.get("topicSynFlag", 0))
    return QueueData(
        broker_name=text(document["brokerName"]),
        read_queue_count=int32(document["readQueueNums"]),
        write_queue_count=int32(document["writeQueueNums"]),
        perm=int32(document["perm"]),
        topic_sys_flag=int32(flag),
    )


def _parse_broker(document: dict[str, Any]) -> BrokerData:
    return BrokerData(
        cluster=document.get("cluster") or "",
        broker_name=text(document["brokerName"]),
        addresses={
            number(broker_id): text(address) for broker_id, address in (document.get("brokerAddrs") or {}).items()
        },
        zone_name=document.get("zoneName"),
        enable_acting_master=bool(document.get("enableActingMaster")),
    )


def _parse_cluster_info(document: dict[str, Any]) -> ClusterInfo:
    brokers = document.get("brokerAddrTable") or {}
    clusters = document.get("clusterAddrTable") or {}
    return ClusterInfo(
        brokers={name: _parse_broker(broker) for name, broker in brokers.items()},
        clusters={cluster: tuple(map(text, names)) for cluster, names in clusters.items()},
    )
