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


def test_a_group_that_a_full_disk_refuses_is_not_there_nor_is_its_topic() -> None:
    rig = Registries()
    rig.groups.update(GroupConfig(group="old"), 1)
    rig.log.clear()
    version = rig.groups.configs.version
    rig.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected) as caught:
        rig.groups.find("g", 1)
    assert (caught.value.code, caught.value.remark) == (
        14, "the groups' settings cannot be saved: No space left on device",
    )  # fmt: skip
    for change in (
        lambda: rig.groups.admit(["a"], 1),
        lambda: rig.groups.update(GroupConfig(group="old", retry_times_max=1), 1),
        lambda: rig.groups.delete("old", 1),
    ):
        with pytest.raises(Rejected):
            change()
    assert rig.groups.configs.get("g") is rig.groups.configs.get("a") is None
    assert rig.groups.configs.get("old") == GroupConfig(group="old")
    assert rig.groups.configs.version is version
    assert not rig.topics.table.all
    assert rig.log == []
    rig.disk_error = None
    rig.groups.admit(["a"], 2)
    rig.groups.delete("old", 2)
    rig.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected):
        rig.groups.delete("a", 3)
    assert rig.groups.configs.get("a") is not None
    assert rig.groups.configs.get("old") is None
