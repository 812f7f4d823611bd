"""Key-value tables."""

from __future__ import annotations

import pytest

from orbitmq.errors import HeaderError
from orbitmq.wire.bodies import kv


def test_a_table_round_trips() -> None:
    assert kv.encode_kv_table({"a": "b"}) == b'{"table":{"a":"b"}}'
    assert kv.decode_kv_table(b'{"table":{"a":"b"}}') == {"a": "b"}


@pytest.mark.parametrize("body", [b"{}", b'{"table":null}'])
def test_a_table_that_is_left_out_is_empty(body: bytes) -> None:
    assert kv.decode_kv_table(body) == {}


@pytest.mark.parametrize("body", [b"", b'{"table":[1]}', b'{"table":{"a":1}}'])
def test_a_body_that_is_no_table_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(HeaderError, match="key-value table"):
        kv.decode_kv_table(body)
