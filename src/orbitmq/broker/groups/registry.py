"""The groups' settings of a running broker: every change is kept in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.topics.registry import TopicRegistry, retry_topic
from orbitmq.broker.versioned_table import save_or_revert
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.wire.bodies.groups import GroupConfig


class GroupRegistry:
    """The settings of all groups with what has to happen when they change.

    Args:
        topics: where the groups' retry topics are made.
        save: writes the settings' file and syncs it.
    """

    def __init__(self, configs: GroupConfigs, topics: TopicRegistry, save: Callable[[GroupConfigs], None]) -> None:
        self.configs = configs
        self._get = configs.get
        self._topics = topics
        self._save = save

    def find(self, group: str, now_ms: int) -> GroupConfig | None:
        """Return a group's settings, made and kept when the group is new and that is allowed."""
        found = self._get(group)
        if found is None:
            found = self.configs.auto_create(group, now_ms)
            if found is not None:
                self._changed()
        return found

    def admit(self, groups: Iterable[str], now_ms: int) -> None:
        """Make what consumer groups need before they may join: settings, and the topic of their retries.

        All of it is kept in one go: a client may come with many groups.

        Raises:
            Rejected: 26, a group is unknown and may not be made; 14, the disk refused what is new.
        """
        configs, topics = self.configs.version, self._topics.table.version
        try:
            for group in groups:
                config = self._get(group) or self.configs.auto_create(group, now_ms)
                if config is None:
                    raise Rejected(
                        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist"
                    )
                if config.retry_queue_count > 0:
                    self._topics.table.create_retry_topic(retry_topic(group), config.retry_queue_count, now_ms)
        finally:
            try:
                if self.configs.version != configs:
                    self._changed()
            finally:
                # Also when the settings were refused: a topic must not stay that is in no file.
                if self._topics.table.version != topics:
                    self._topics.changed()

    def update(self, config: GroupConfig, now_ms: int) -> None:
        """Create a group's settings or replace them."""
        self.configs.update(config, now_ms)
        self._changed()

    def delete(self, group: str, now_ms: int) -> None:
        """Forget a group's settings, if there are any."""
        self.configs.delete(group, now_ms)
        self._changed()

    def _changed(self) -> None:
        """Keep the changed settings; when the disk refuses, they stay as they were."""
        save_or_revert(self.configs, self._save, "the groups' settings")
