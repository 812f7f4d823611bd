"""The groups as etcd has them: the newest value of each key, and values that are none."""

import orjson
import pytest

from orbitmq.controller.etcd import groups as module
from orbitmq.controller.etcd.groups import Groups
from orbitmq.controller.etcd.messages import KeyValue
from orbitmq.controller.replicas import Replicas, encode_group
from orbitmq.errors import EtcdError
from unit.controller.groups import group


def pair(name="orders", modified=5, members=(1,), value=None):
    value = encode_group(group(members, name=name)) if value is None else value
    return KeyValue(b"/p/" + name.encode(), value, 2, modified, 0)


@pytest.fixture
def groups():
    return Groups(b"/p/", Replicas())


def known(groups):
    return {name: sorted(found.replicas) for name, found in groups._replicas.groups.items()}


def test_the_newest_value_counts_in_whatever_order_they_come(groups):
    groups.take(pair(modified=5, members=(1, 2)))
    groups.take(pair(modified=4, members=(1,)))
    assert (known(groups), groups.revision_of("orders"), groups.count) == ({"orders": [1, 2]}, 5, 1)
    groups.saved(group((1, 2, 3)), 7)
    groups.saved(group((1,)), 6)
    assert known(groups) == {"orders": [1, 2, 3]}
    groups.forget(b"/p/orders", 6)
    assert known(groups) == {"orders": [1, 2, 3]}
    groups.forget(b"/p/orders", 8)
    assert (known(groups), groups.revision_of("orders")) == ({}, 0)


def test_a_load_drops_what_is_gone_and_keeps_what_is_newer(groups):
    groups.take(pair("gone", 5))
    groups.take(pair("new", 9))
    groups.load([pair("kept", 3)], 7)
    assert known(groups) == {"new": [1], "kept": [1]}
    assert groups.revision == 7
    groups.restart()
    groups.load([pair("kept", 2, (1, 2))], 3)
    assert known(groups) == {"kept": [1, 2]}
    assert groups.revision == 3


@pytest.mark.parametrize(
    "value",
    [b"", b"nonsense", b"[]", b'{"v":2}', b'{"v":1,"group":{}}', encode_group(group(name="other")),
     orjson.dumps({"v": 1, "group": None})],
)  # fmt: skip
def test_a_value_that_is_no_group_stops_its_group_alone(groups, value, caplog):
    groups.take(pair(modified=4))
    groups.take(pair("b"))
    groups.take(pair(modified=5, value=value))
    assert "/p/orders" in groups.unreadable["orders"]
    assert "/p/orders" in caplog.text
    with pytest.raises(EtcdError, match="/p/orders"):
        groups.check("orders")
    groups.check("b")
    assert known(groups) == {"orders": [1], "b": [1]}
    groups.take(pair(modified=6, members=(1, 2)))
    groups.check("orders")
    assert known(groups)["orders"] == [1, 2]


def test_a_key_that_is_no_text_is_named_and_forgotten(groups):
    key = KeyValue(b"/p/\xff\n", b"", 2, 3, 0)
    groups.take(key)
    (said,) = groups.unreadable.values()
    assert said.isprintable()
    groups.load([key], 4)
    assert groups.count == 1
    groups.load([], 5)
    assert (groups.count, groups.unreadable) == (0, {})


def test_more_groups_than_there_may_be_are_refused(groups, monkeypatch):
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    groups.load([pair("a"), pair("b")], 5)
    groups.take(pair("a", 6))
    with pytest.raises(EtcdError, match="more than 2 keys"):
        groups.take(pair("c"))
