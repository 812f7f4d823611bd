import orjson
import pytest

from cases import each_case
from orbitmq.admin.backup.tables import (
    AccessTables,
    BrokerTables,
    GroupTopic,
    decode_access,
    decode_tables,
    encode_access,
    encode_tables,
    is_saved,
    is_selected,
    parse_offset_key,
)
from orbitmq.errors import HeaderError, OrbitError
from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Acl,
    Action,
    Pattern,
    Policy,
    PolicyType,
    Resource,
    ResourceType,
    User,
)
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig, group_document, parse_group

TABLES = BrokerTables(
    {"orders": TopicConfig(topic="orders", attributes={"message.type": "FIFO"})},
    {"billing": parse_group(group_document(GroupConfig(group="billing", retry_times_max=3)))},
    {GroupTopic("orders", "billing"): {0: 5, 11: 7}},
)


def test_tables_come_back_as_they_were():
    assert decode_tables(encode_tables(TABLES)) == TABLES


def test_users_and_rules_come_back_as_they_were():
    rule = AccessRule(
        Resource(ResourceType.TOPIC, "orders", Pattern.PREFIXED), (Action.PUB,), ("10.0.0.1",), AccessDecision.ALLOW
    )
    access = AccessTables((User("shop", "secret"),), (Acl("User:shop", (Policy(PolicyType.CUSTOM, (rule,)),)),))
    assert decode_access(encode_access(access)) == access


@each_case(
    ("topics", {"../x": {"topicName": "../x"}}),
    ("topics", {"x": {"topicName": "y"}}),
    ("groups", {"..": {"groupName": ".."}}),
    ("groups", {"x": {"groupName": "y"}}),
    ("offsets", [{"topic": "../x", "group": "g", "queues": {}}]),
    ("offsets", [{"topic": "x", "group": "g", "queues": {"0": "much"}}]),
    ("offsets", [{"topic": "x", "group": "g", "queues": {"-1": 1}}]),
    ("offsets", [{"topic": "x", "group": "g", "queues": {"2147483648": 1}}]),
)
def test_names_and_numbers_that_none_may_have_are_refused(part, value):
    document = orjson.loads(encode_tables(TABLES)) | {part: value}
    with pytest.raises(OrbitError):
        decode_tables(orjson.dumps(document))


@each_case({}, [1], "u", [{"username": 5}])
def test_users_that_are_none_are_refused(users):
    with pytest.raises(HeaderError):
        decode_access(orjson.dumps({"users": users, "rules": []}))


def test_a_document_without_tables_is_refused():
    with pytest.raises(HeaderError, match="topics"):
        decode_tables(b"{}")


@each_case("orders", "orders@", "@billing", "or ders@billing", "orders@../billing")
def test_offsets_of_what_has_no_legal_name_are_left_out(key):
    assert parse_offset_key(key) is None


def test_an_offset_key_names_topic_and_group():
    assert parse_offset_key("orders@billing") == GroupTopic("orders", "billing")


@each_case(
    ("orders", (), True),
    ("orders-eu", ("orders*", "steps"), True),
    ("Orders", ("orders",), False),
    ("%RETRY%billing", ("orders*",), False),
)
def test_a_topic_is_selected_by_a_pattern(topic, patterns, expected):
    assert is_selected(topic, patterns) is expected


def test_topics_of_users_and_groups_are_saved():
    topics = ["orders", "%RETRY%billing", "%DLQ%billing", "TBW102", "rmq_sys_wheel_timer", "broker-a", "../orders"]
    assert [topic for topic in topics if is_saved(topic, {"broker-a"}, ())] == topics[:3]
