from __future__ import annotations

import pytest

from orbitmq.broker.groups import configs
from orbitmq.broker.groups.configs import GROUP_LENGTH_MAX, SYSTEM_GROUPS, GroupConfigs
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


def test_no_more_groups_are_made_than_the_memory_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "GROUPS_MAX", len(SYSTEM_GROUPS) + 1)
    table = GroupConfigs()
    assert table.auto_create("first", now_ms=1) is not None
    assert table.auto_create("second", now_ms=1) is None


def test_settings_are_replaced_and_forgotten() -> None:
    table = GroupConfigs()
    table.update(GroupConfig(group="g", consume_enable=False), now_ms=1)
    found = table.get("g")
    assert found is not None
    assert not found.consume_enable
    assert table.delete("g", now_ms=2)
    assert not table.delete("g", now_ms=2)
