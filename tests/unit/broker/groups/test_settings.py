from __future__ import annotations

from orbitmq.broker.groups.settings import GroupConfigTable
from orbitmq.wire.bodies.groups import GroupConfig


def test_a_group_is_made_when_it_first_asks_and_only_then() -> None:
    table = GroupConfigTable()
    made = table.find("g", now_ms=1)
    assert made == GroupConfig(group="g")
    version = table.version
    assert table.find("g", now_ms=2) is made
    assert table.version == version


def test_no_group_is_made_where_that_is_off_or_the_name_is_no_name() -> None:
    assert GroupConfigTable(auto_create_enable=False).find("g", now_ms=1) is None
    assert GroupConfigTable().find("a b", now_ms=1) is None
    assert GroupConfigTable(auto_create_enable=False).find("TOOLS_CONSUMER", now_ms=1) is not None


def test_settings_are_replaced_and_forgotten() -> None:
    table = GroupConfigTable()
    table.update(GroupConfig(group="g", consume_enable=False), now_ms=1)
    found = table.find("g", now_ms=1)
    assert found is not None
    assert not found.consume_enable
    assert table.delete("g", now_ms=2)
    assert not table.delete("g", now_ms=2)
