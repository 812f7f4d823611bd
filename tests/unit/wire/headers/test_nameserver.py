"""Fields of the headers that a NameServer understands, those of its key-value store among them."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from orbitmq.wire.header import decode_header
from unit.wire.headers.support import travels_as

BROKER = {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"}


@each_case(
    (headers.RegisterBrokerResponse(), {}),
    (headers.RegisterBrokerResponse(ha_server_addr="h:2", master_addr="h:1"), {"haServerAddr": "h:2", "masterAddr": "h:1"}),
    (headers.GetRouteInfo(topic="t"), {"topic": "t"}),
    (
        headers.GetRouteInfo(topic="t", accept_standard_json_only=True, zone_mode=False, zone_name="z"),
        {"topic": "t", "acceptStandardJsonOnly": "true", "__ZONE_MODE": "false", "__ZONE_NAME": "z"},
    ),
    (headers.WipeWritePermResponse(wipe_topic_count=3), {"wipeTopicCount": "3"}),
    (headers.AddWritePermResponse(add_topic_count=3), {"addTopicCount": "3"}),
    (headers.DeleteTopicInNameServer(topic="t"), {"topic": "t"}),
    (headers.DeleteTopicInNameServer(topic="t", cluster_name="c"), {"topic": "t", "clusterName": "c"}),
    (headers.QueryDataVersionResponse(changed=False), {"changed": "false"}),
    (
        headers.BrokerHeartbeat(cluster_name="c", broker_addr="h:1", broker_name="a"),
        {"clusterName": "c", "brokerAddr": "h:1", "brokerName": "a"},
    ),
    (
        headers.BrokerHeartbeat(
            cluster_name="c", broker_addr="h:1", broker_name="a", broker_id=1, epoch=2, max_offset=3,
            confirm_offset=4, heartbeat_timeout_mills=5, election_priority=6,
        ),
        {
            "clusterName": "c", "brokerAddr": "h:1", "brokerName": "a", "brokerId": "1", "epoch": "2", "maxOffset": "3",
            "confirmOffset": "4", "heartbeatTimeoutMills": "5", "electionPriority": "6",
        },
    ),
    (headers.NotifyMinBrokerIdChange(min_broker_id=0), {"minBrokerId": "0"}),
    (
        headers.NotifyMinBrokerIdChange(
            min_broker_id=1, broker_name="a", min_broker_addr="h:1", offline_broker_addr="h:0", ha_broker_addr="h:2"
        ),
        {
            "minBrokerId": "1", "brokerName": "a", "minBrokerAddr": "h:1", "offlineBrokerAddr": "h:0",
            "haBrokerAddr": "h:2",
        },
    ),
    (headers.GetRouteDifference(at_ms=7), {"at": "7"}),
    (
        headers.GetRouteHistory(topic="t", broker_name="a", since_ms=5, count_max=6),
        {"topic": "t", "brokerName": "a", "since": "5", "maxNum": "6"},
    ),
    (headers.PutKvConfig(), {}),
    (headers.PutKvConfig(namespace="n", key="k", value="v"), {"namespace": "n", "key": "k", "value": "v"}),
    (headers.GetKvConfig(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
    (headers.GetKvConfigResponse(), {}),
    (headers.GetKvConfigResponse(value="v"), {"value": "v"}),
    (headers.DeleteKvConfig(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
    (headers.GetKvListByNamespace(namespace="n"), {"namespace": "n"}),
)  # fmt: skip
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_a_registration_without_the_newer_fields_is_plain_and_unchecked() -> None:
    found = decode_header(headers.RegisterBroker, BROKER)
    assert (found.compressed, found.body_crc32) == (False, 0)
    assert (found.heartbeat_timeout_millis, found.enable_acting_master, found.zone_name) == (None, None, None)


def test_a_registration_with_all_fields_is_read() -> None:
    newer = {"heartbeatTimeoutMillis": "9000", "enableActingMaster": "true", "compressed": "true", "bodyCrc32": "7"}
    found = decode_header(headers.RegisterBroker, {**BROKER, **newer, "__ZONE_NAME": "z"})
    assert (found.heartbeat_timeout_millis, found.enable_acting_master) == (9000, True)
    assert (found.compressed, found.body_crc32, found.zone_name) == (True, 7, "z")


def test_history_without_bounds_is_the_latest_two_hundred_changes_of_all_time() -> None:
    assert decode_header(headers.GetRouteHistory, {}) == headers.GetRouteHistory(
        topic=None, broker_name=None, since_ms=0, count_max=200
    )
