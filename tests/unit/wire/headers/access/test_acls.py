"""Fields of the headers about rules."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.wire.headers import CreateAcl, DeleteAcl, GetAcl, ListAcls, UpdateAcl

from ..support import travels_as


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (CreateAcl(subject="User:a"), {"subject": "User:a"}),
        (UpdateAcl(subject="User:a"), {"subject": "User:a"}),
        (GetAcl(subject="User:a"), {"subject": "User:a"}),
        (
            DeleteAcl(subject="User:a", policy_type="Custom", resource="*"),
            {"subject": "User:a", "policyType": "Custom", "resource": "*"},
        ),
        (ListAcls(subject_filter="a", resource_filter="b"), {"subjectFilter": "a", "resourceFilter": "b"}),
        (ListAcls(), {}),
    ],
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
