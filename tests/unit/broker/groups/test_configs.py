from __future__ import annotations

import pytest

from orbitmq.broker.groups.configs import GROUP_LENGTH_MAX, GroupConfigs
from orbitmq.errors import Rejected
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.wire.bodies.groups import GroupConfig


def test_a_group_is_made_with_defaults_and_makes_a_new_version() -> None:
    table = GroupConfigs()
    version = table.version
    made = table.auto_create("g", now_ms=1)
    assert made == GroupConfig(group="g")
    assert table.get("g") is made
    assert table.version != version


def test_no_group_is_made_where_that_is_off_or_the_name_is_no_name() -> None:
    assert GroupConfigs(auto_create_enable=False).auto_create("g", now_ms=1) is None
    assert GroupConfigs().auto_create("a b", now_ms=1) is None
    assert GroupConfigs().auto_create("x" * GROUP_LENGTH_MAX, now_ms=1) is not None
    assert GroupConfigs().auto_create("x" * (GROUP_LENGTH_MAX + 1), now_ms=1) is None
    assert GroupConfigs(auto_create_enable=False).get("TOOLS_CONSUMER") is not None


def test_no_more_groups_are_made_than_the_memory_takes() -> None:
    table = GroupConfigs(count_max=len(SYSTEM_GROUPS) + 1)
    assert table.auto_create("first", now_ms=1) is not None
    assert table.auto_create("second", now_ms=1) is None
    with pytest.raises(Rejected, match="groupsMax") as caught:
        table.update(GroupConfig(group="second"), now_ms=1)
    assert (caught.value.code, table.refused_count) == (1, 2)
    assert not table.update(GroupConfig(group="first", consume_enable=False), now_ms=2).consume_enable


def test_settings_are_replaced_and_forgotten() -> None:
    table = GroupConfigs()
    table.update(GroupConfig(group="g", consume_enable=False), now_ms=1)
    found = table.get("g")
    assert found is not None
    assert not found.consume_enable
    assert table.delete("g", now_ms=2)
    assert not table.delete("g", now_ms=2)


def test_groups_named_as_lmqs_are_there_without_having_been_made() -> None:
    table = GroupConfigs(has_lmq=True)
    table.update(GroupConfig(group="%LMQ%made", consume_enable=False), now_ms=1)
    assert table.get("%LMQ%g") == GroupConfig(group="%LMQ%g")
    found = table.get("%LMQ%made")
    assert found is not None
    assert not found.consume_enable
    assert (table.get("g"), GroupConfigs().get("%LMQ%g")) == (None, None)
