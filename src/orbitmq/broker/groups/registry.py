"""The groups' settings of a running broker: every change is kept in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.versioned_table import save_or_revert
from orbitmq.errors import Rejected
from orbitmq.wire.bodies.groups import GroupConfig


class GroupRegistry:
    """The settings of all groups with what has to happen when they change.

    Args:
        save: writes the settings' file and syncs it.
    """

    def __init__(self, configs: GroupConfigs, save: Callable[[GroupConfigs], None]) -> None:
        self.configs = configs
        self._get = configs.get
        self._save = save

    def find(self, group: str, now_ms: int) -> GroupConfig | None:
        """Return a group's settings, made and kept when the group is new and that is allowed."""
        found = self._get(group)
        if found is None:
            found = self.configs.auto_create(group, now_ms)
            if found is not None:
                self._changed()
        return found

    def update(self, config: GroupConfig, now_ms: int) -> None:
        """Create a group's settings or replace them."""
        self.configs.update(config, now_ms)
        self._changed()

    def update_all(self, configs: Iterable[GroupConfig], now_ms: int) -> None:
        """Create groups' settings or replace them, all or none."""
        try:
            for config in configs:
                self.configs.update(config, now_ms)
        except Rejected:
            self.configs.revert()
            raise
        self._changed()

    def forbid(self, group: str, topic: str, is_forbidden: bool, now_ms: int) -> None:
        """Forbid a group to read a topic, or allow it again."""
        before = self.configs.forbidden
        self.configs.forbid(group, topic, is_forbidden, now_ms)
        try:
            self._changed()
        except Rejected:
            self.configs.forbidden = before
            raise

    def delete(self, group: str, now_ms: int) -> None:
        """Forget a group's settings, if there are any."""
        self.configs.delete(group, now_ms)
        self._changed()

    def _changed(self) -> None:
        """Keep the changed settings; when the disk refuses, they stay as they were."""
        save_or_revert(self.configs, self._save, "the groups' settings")
