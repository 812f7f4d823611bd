"""Fields of the headers of the key-value store."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.wire.headers import DeleteKvConfig, GetKvConfig, GetKvConfigResponse, GetKvListByNamespace, PutKvConfig

from .support import travels_as


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (PutKvConfig(), {}),
        (PutKvConfig(namespace="n", key="k", value="v"), {"namespace": "n", "key": "k", "value": "v"}),
        (GetKvConfig(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
        (GetKvConfigResponse(), {}),
        (GetKvConfigResponse(value="v"), {"value": "v"}),
        (DeleteKvConfig(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
        (GetKvListByNamespace(namespace="n"), {"namespace": "n"}),
    ],
    ids=repr,
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)
