"""Fields of the headers about users and rules."""

from __future__ import annotations

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from unit.wire.headers.support import travels_as


@each_case(headers.CreateUser, headers.UpdateUser, headers.DeleteUser, headers.GetUser)
def test_a_user_travels_by_name(kind: Any) -> None:
    assert travels_as(kind(username="anna"), {"username": "anna"})
    assert travels_as(kind(), {})


def test_a_list_may_be_filtered() -> None:
    assert travels_as(headers.ListUsers(filter="an"), {"filter": "an"})
    assert travels_as(headers.ListUsers(), {})


@each_case(
    (headers.CreateAcl(subject="User:a"), {"subject": "User:a"}),
    (headers.UpdateAcl(subject="User:a"), {"subject": "User:a"}),
    (headers.GetAcl(subject="User:a"), {"subject": "User:a"}),
    (
        headers.DeleteAcl(subject="User:a", policy_type="Custom", resource="*"),
        {"subject": "User:a", "policyType": "Custom", "resource": "*"},
    ),
    (headers.ListAcls(subject_filter="a", resource_filter="b"), {"subjectFilter": "a", "resourceFilter": "b"}),
    (headers.ListAcls(), {}),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
