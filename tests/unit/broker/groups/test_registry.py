from __future__ import annotations

import pytest

from orbitmq.errors import Rejected
from orbitmq.wire.bodies.groups import GroupConfig

from ..parts import Registries


def test_a_new_group_is_kept_once() -> None:
    rig = Registries()
    made = rig.groups.find("g", 1)
    assert made == GroupConfig(group="g")
    assert rig.groups.find("g", 2) is made
    assert rig.log == ["groups saved"]


def test_a_group_that_may_not_be_made_is_not_kept() -> None:
    rig = Registries(auto_create_groups=False)
    assert rig.groups.find("g", 1) is None
    assert rig.log == []


def test_many_groups_are_admitted_with_their_topics_in_one_go() -> None:
    rig = Registries()
    rig.groups.update(GroupConfig(group="no retries", retry_queue_count=0), 1)
    rig.groups.update(GroupConfig(group="three", retry_queue_count=3), 1)
    rig.log.clear()
    rig.groups.admit(["a", "b", "no retries", "three"], 2)
    assert rig.log == ["groups saved", "topics saved", "announced"]
    counts = {name: config.read_queue_count for name, config in rig.topics.table.all.items()}
    assert counts == {"%RETRY%a": 1, "%RETRY%b": 1, "%RETRY%three": 3}
    rig.groups.admit(["a", "b"], 3)
    assert len(rig.log) == 3


def test_what_was_made_before_a_stranger_is_refused_is_kept() -> None:
    rig = Registries()
    with pytest.raises(Rejected) as caught:
        rig.groups.admit(["a", "no name"], 1)
    assert caught.value.code == 26
    assert rig.log == ["groups saved", "topics saved", "announced"]


def test_changes_and_removals_are_kept() -> None:
    rig = Registries()
    rig.groups.update(GroupConfig(group="g", retry_times_max=1), 1)
    assert rig.groups.find("g", 1) == GroupConfig(group="g", retry_times_max=1)
    rig.groups.delete("g", 2)
    assert rig.groups.configs.get("g") is None
    assert rig.log == ["groups saved"] * 2
