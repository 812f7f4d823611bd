"""Requests and answers of etcd's gateway, those that are none included."""

import pytest

from cases import each_case
from orbitmq.controller.etcd.messages import (
    Found,
    KeyValue,
    get,
    is_created_at,
    is_modified_at,
    put,
    range_end,
    read_cluster,
    read_lease,
    read_range,
    read_transaction,
    read_watch,
    transaction,
    watch,
)
from orbitmq.errors import EtcdError

HEADER = {"cluster_id": "18446744073709551615", "revision": "7"}
PAIR = {"key": "YQ==", "value": "eA==", "create_revision": "2", "mod_revision": "3", "lease": "-5"}


def test_requests_are_in_the_gateways_form():
    assert get(b"a", end=b"b", limit=2, count_only=True) == {
        "key": "YQ==", "range_end": "Yg==", "limit": "2", "count_only": True,
    }  # fmt: skip
    request = transaction(
        [is_created_at(b"a", 0), is_modified_at(b"b", 4)], then=[put(b"a", b"x", 5)], otherwise=[get(b"a")]
    )
    assert request == {
        "compare": [
            {"key": "YQ==", "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
            {"key": "Yg==", "target": "MOD", "result": "EQUAL", "mod_revision": "4"},
        ],
        "success": [{"request_put": {"key": "YQ==", "value": "eA==", "lease": "5"}}],
        "failure": [{"request_range": {"key": "YQ=="}}],
    }
    assert watch(b"a", b"b", 9)["create_request"]["start_revision"] == "9"
    assert range_end(b"/a/") == b"/a0"


def test_answers_are_read():
    pair = KeyValue(b"a", b"x", 2, 3, -5)
    assert read_range({"header": HEADER, "kvs": [PAIR], "more": True, "count": "2"}) == Found(7, (pair,), True, 2)
    held = read_transaction({"header": HEADER, "succeeded": True, "responses": [{"response_put": {}}]})
    assert (held.has_held, held.found) == (True, ())
    lost = read_transaction({"header": HEADER, "responses": [{"response_range": {"header": HEADER, "kvs": [PAIR]}}]})
    assert (lost.has_held, lost.found[0].pairs) == (False, (pair,))
    told = read_watch({"events": [{"kv": PAIR}, {"type": "DELETE", "kv": {"key": "YQ==", "mod_revision": "4"}}]})
    assert [change.is_deletion for change in told.changes] == [False, True]
    assert not told.is_over
    assert read_watch({"canceled": True, "compact_revision": "2"}).is_over
    assert read_lease({"ID": "-7"}) == (-7, 0)
    assert read_cluster({"header": HEADER}) == 2**64 - 1
    assert read_cluster({}) == 0


@each_case(
    {},
    {"header": {"revision": "x"}},
    {"header": {"revision": "9" * 5_000}},
    {"header": {"revision": True}},
    {"header": {"revision": "36893488147419103232"}},
    {"header": HEADER, "kvs": 5},
    {"header": HEADER, "kvs": [{"key": "YQ=="}]},
    {"header": HEADER, "kvs": [PAIR | {"value": "%"}]},
    {"header": HEADER, "kvs": [PAIR | {"key": 5}]},
    {"header": [], "kvs": []},
)
def test_answers_that_are_none_are_refused(answer):
    with pytest.raises(EtcdError, match="does not parse"):
        read_range(answer)
    with pytest.raises(EtcdError):
        read_transaction({"header": HEADER, "responses": [{"response_range": answer}]})
    with pytest.raises(EtcdError):
        read_watch({"events": [answer]})
