"""The settings of consumer groups: whether a group may consume, how often a message is retried.

State: every GroupConfig and the table's DataVersion. Pure.

Source: Java SubscriptionGroupManager, SubscriptionGroupConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import DataVersion, check_name
from orbitmq.wire.bodies.groups import GroupConfig, GroupTable

GROUPS_MAX = 200_000
"""Ours: automatic creation must not fill the memory."""

GROUP_LENGTH_MAX = 248
"""Characters: the group's retry topic becomes a directory's name, `%RETRY%` and the group, 255 at most."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class GroupConfigs:
    """The settings of every group this broker knows."""

    def __init__(
        self,
        groups: Iterable[GroupConfig] = (),
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
        *,
        forbidden: Mapping[str, Mapping[str, int]] | None = None,
        auto_create_enable: bool = True,
    ) -> None:
        self._groups = {config.group: config for config in groups}
        self._auto_create_enable = auto_create_enable
        self.forbidden = dict(forbidden or {})
        """Kept for the file; 353 that changes it is not there yet."""
        self._replaced: dict[str, GroupConfig | None] = {}
        self.version = self._kept_version = version
        self.get = self._groups.get
        """Return a group's settings or None; bound once, since every pull asks."""
        for name in SYSTEM_GROUPS:
            self._groups.setdefault(name, GroupConfig(group=name))

    @property
    def all(self) -> Mapping[str, GroupConfig]:
        """A read-only view of the whole table."""
        return MappingProxyType(self._groups)

    @property
    def table(self) -> GroupTable:
        """The table as it is encoded."""
        return GroupTable(self.version, self._groups, self.forbidden)

    def auto_create(self, group: str, now_ms: int) -> GroupConfig | None:
        """Create the settings of a group that is not there, with defaults; None where that is not allowed."""
        if not self._auto_create_enable or len(self._groups) >= GROUPS_MAX:
            return None
        try:
            check_name("group", group, GROUP_LENGTH_MAX)
        except InvalidArgument:
            return None
        return self.update(GroupConfig(group=group), now_ms)

    def update(self, config: GroupConfig, now_ms: int) -> GroupConfig:
        """Create a group's settings or replace them."""
        self._replaced.setdefault(config.group, self._groups.get(config.group))
        self._groups[config.group] = config
        self.version = self.version.next(now_ms)
        return config

    def delete(self, group: str, now_ms: int) -> bool:
        """Forget a group's settings; False when there were none."""
        old = self._groups.pop(group, None)
        if old is None:
            return False
        self._replaced.setdefault(group, old)
        self.version = self.version.next(now_ms)
        return True

    def keep(self) -> None:
        """Let all changes count for good: they are on the disk."""
        self._replaced.clear()
        self._kept_version = self.version

    def revert(self) -> None:
        """Take back what was changed since the last `keep`: the disk refused it."""
        for group, old in self._replaced.items():
            if old is None:
                self._groups.pop(group, None)
            else:
                self._groups[group] = old
        self._replaced.clear()
        self.version = self._kept_version
