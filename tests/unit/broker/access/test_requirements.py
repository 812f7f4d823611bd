"""Claims about requirements: what each request asks for. The whole table is held against Java's in the guard's matrix."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.access.requirements import RequestView, requirements_of
from orbitmq.broker.handlers import HANDLERS
from orbitmq.errors import OrbitError
from orbitmq.model.access import Need

from .samples import BODY, CLUSTER, FIELDS, JAVA, OURS, needs


def asking(body: bytes = BODY, **fields: str) -> RequestView:
    return RequestView(FIELDS | fields, body, CLUSTER, lambda _: None)


def merged(found: tuple[Need, ...] | None) -> set[Need]:
    assert found is not None
    return set(found)


@each_case(*sorted(JAVA | OURS))
def test_a_request_asks_for_what_the_table_says_and_nothing_else(code: int):
    assert merged(requirements_of(code, asking())) == set(needs(code))


def test_every_request_that_is_answered_is_in_the_table():
    assert set(HANDLERS.codes) <= JAVA.keys() | OURS.keys()


def test_an_unforeseen_code_has_no_requirements():
    assert requirements_of(4711, asking()) is None


def test_lists_in_a_field_count_each():
    found = requirements_of(208, asking(topicList="a;;b"))
    assert [str(need.resource) for need in found or ()] == ["Group:billing", "Topic:orders", "Topic:a", "Topic:b"]
    found = requirements_of(308, asking(filterGroups="x,y"))
    assert [str(need.resource) for need in found or ()] == ["Group:x", "Group:y", "Group:billing", "Topic:orders"]


@each_case(35, 37, 33, 323, 309)
def test_fields_that_may_be_missing_ask_for_nothing(code: int):
    found = requirements_of(
        code, RequestView({"consumerGroup": "g"} if code == 309 else {}, b"", CLUSTER, lambda _: None)
    )
    assert [str(need.resource) for need in found or ()] == (["Group:g"] if code == 309 else [])


def test_a_heartbeat_of_producers_asks_for_nothing():
    assert requirements_of(34, asking(b'{"clientID":"c","producerDataSet":[{"groupName":"p"}]}')) == ()


def test_a_body_that_cannot_be_read_is_an_error():
    with pytest.raises(OrbitError):
        requirements_of(34, asking(b"x"))


@each_case((18, "topicConfigList", "topicName"), (225, "groupConfigList", "groupName"))
def test_a_list_that_its_handler_would_not_parse_is_not_parsed_here(code: int, key: str, name: str):
    slow = b'{"%b":[{{"a":1}:1,"%b":"x"}]}' % (key.encode(), name.encode())  # objects as keys
    with pytest.raises(OrbitError):
        requirements_of(code, asking(slow))
    with pytest.raises(OrbitError, match="limit"):
        requirements_of(code, asking(b'{"%b":[]}' % key.encode() + b" " * 1024 * 1024))
