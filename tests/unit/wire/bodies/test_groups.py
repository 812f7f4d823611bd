"""Settings of consumer groups, and who is connected."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.group import ConsumerInfo, Subscription
from orbitmq.model.topic import DataVersion
from orbitmq.wire.bodies import groups
from orbitmq.wire.bodies.groups import ClientConnection, GroupConfig, GroupTable

FULL = GroupConfig(
    group="g", consume_enable=False, consume_from_min_enable=False, consume_broadcast_enable=False,
    consume_message_orderly=True, retry_queue_count=2, retry_times_max=3, broker_id=4,
    which_broker_when_consume_slowly=5, notify_consumer_ids_changed_enable=False, group_sys_flag=6,
    consume_timeout_minutes=7, extra={"groupRetryPolicy": {"type": "CUSTOMIZED"}},
)  # fmt: skip


def test_settings_round_trip_with_what_newer_brokers_add() -> None:
    document = orjson.loads(groups.encode_group_config(FULL))
    assert document.pop("attributes") == {}
    assert groups.decode_group_config(orjson.dumps(document)) == FULL


def test_no_setting_of_the_full_example_is_the_default() -> None:
    default = GroupConfig(group="h")
    for field in fields(GroupConfig):
        assert getattr(FULL, field.name) != getattr(default, field.name), field.name


def test_settings_that_are_left_out_are_javas() -> None:
    found = groups.decode_group_config(b'{"groupName":"g"}')
    assert (found.consume_enable, found.consume_from_min_enable, found.consume_broadcast_enable) == (True, True, True)
    assert (found.consume_message_orderly, found.notify_consumer_ids_changed_enable) == (False, True)
    assert (found.retry_queue_count, found.retry_times_max) == (1, 16)
    assert (found.broker_id, found.which_broker_when_consume_slowly) == (0, 1)
    assert (found.group_sys_flag, found.consume_timeout_minutes, found.extra) == (0, 15, {})


def test_a_table_round_trips() -> None:
    table = GroupTable(DataVersion(1, 2, 3), {"g": FULL}, {"g": {"t": 4}})
    body = groups.encode_group_table(table)
    assert b"\n" not in body
    found = groups.decode_group_table(body)
    assert (found.data_version, found.forbidden) == (table.data_version, table.forbidden)
    assert found.groups["g"].retry_times_max == 3
    for_file = b"".join(groups.group_table_parts(table, pretty=True))
    assert b"\n" in for_file
    assert groups.decode_group_table(for_file) == found


def test_a_table_without_anything_is_empty_and_a_group_is_named_by_its_key() -> None:
    assert groups.decode_group_table(b"{}") == (DataVersion(0, 0, 0), {}, {})
    found = groups.decode_group_table(b'{"subscriptionGroupTable":{"g":{}}}')
    assert found.groups == {"g": GroupConfig(group="g")}


def test_connections_of_consumers_name_the_groups_manner_and_subscriptions() -> None:
    client = ClientConnection("c", "h:1", "JAVA", 479)
    body = groups.encode_consumer_connections(
        [client], ConsumerInfo(group="g", subscriptions=(Subscription(topic="t"),))
    )
    document = orjson.loads(body)
    connection = {"clientAddr": "h:1", "clientId": "c", "language": "JAVA", "version": 479}
    assert document["connectionSet"] == [connection]
    assert (document["consumeType"], document["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert document["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert document["subscriptionTable"]["t"]["subString"] == "*"
    assert orjson.loads(groups.encode_producer_connections([client])) == {"connectionSet": [connection]}
    assert groups.decode_producer_connections(groups.encode_producer_connections([client])) == (client,)
    assert groups.decode_producer_connections(b"{}") == ()


def test_a_list_of_groups_round_trips_and_may_be_left_out() -> None:
    assert groups.decode_group_list(groups.encode_group_list(["g", "h"])) == ("g", "h")
    assert groups.decode_group_list(b"{}") == ()


def test_a_body_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(HeaderError, match="group configuration"):
        groups.decode_group_config(b"{}")
    with pytest.raises(HeaderError, match="group table"):
        groups.decode_group_table(b"[]")
    with pytest.raises(HeaderError, match="group list"):
        groups.decode_group_list(b'{"groupList":[1]}')


@each_case(
    ({"brokerId": 2**63 - 1, "retryMaxTimes": 2**31 - 1}, {}),
    ({"attributes": None}, {}),
    ({"attributes": {}}, {"attributes": {}}),
    ({"attributes": {"a": "1"}}, {"attributes": {"a": "1"}}),
    ({"groupRetryPolicy": {}}, {"groupRetryPolicy": {"type": "CUSTOMIZED"}}),
    ({"groupRetryPolicy": {"type": "EXPONENTIAL", "a": 1}}, {"groupRetryPolicy": {"type": "EXPONENTIAL"}}),
    ({"groupRetryPolicy": None}, {"groupRetryPolicy": None}),
    ({"subscriptionDataSet": [{"topic": "t"}]}, {"subscriptionDataSet": [{"topic": "t"}]}),
    ({"subscriptionDataSet": None}, {"subscriptionDataSet": None}),
)
def test_what_is_asked_for_a_group_is_kept_as_java_reads_it(asked: dict[str, Any], kept: dict[str, Any]) -> None:
    body = orjson.dumps({"groupName": "g", **asked})
    assert groups.decode_group_config(body).extra == kept
    assert groups.decode_group_configs(b'{"groupConfigList":[%b]}' % body)[0].extra == kept


@each_case(
    {"groupSysFlag": 2**31},
    {"retryMaxTimes": -(2**31) - 1},
    {"brokerId": 2**63},
    {"attributes": 0},
    {"attributes": []},
    {"groupRetryPolicy": 0},
    {"groupRetryPolicy": {"type": "x"}},
    {"subscriptionDataSet": {}},
    {"subscriptionDataSet": [1]},
)
def test_what_java_cannot_read_of_a_groups_settings_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(HeaderError, match="group configuration: "):
        groups.decode_group_config(orjson.dumps({"groupName": "g", **asked}))
