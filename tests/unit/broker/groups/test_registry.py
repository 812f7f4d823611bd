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
        lambda: rig.groups.update(GroupConfig(group="old", retry_times_max=1), 1),
        lambda: rig.groups.delete("old", 1),
    ):
        with pytest.raises(Rejected):
            change()
    assert rig.groups.configs.get("g") is None
    assert rig.groups.configs.get("old") == GroupConfig(group="old")
    assert rig.groups.configs.version is version
    assert rig.log == []
    rig.disk_error = None
    rig.groups.find("a", 2)
    rig.groups.delete("old", 2)
    rig.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected):
        rig.groups.delete("a", 3)
    assert rig.groups.configs.get("a") is not None
    assert rig.groups.configs.get("old") is None
