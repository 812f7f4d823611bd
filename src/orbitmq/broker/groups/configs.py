"""The settings of consumer groups: whether a group may consume, how often a message is retried.

State: every GroupConfig and the table's DataVersion. Pure.

Source: Java SubscriptionGroupManager, SubscriptionGroupConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orbitmq.broker.versioned_table import VersionedTable
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.topic import DataVersion, Perm, check_name
from orbitmq.store.lmq import is_lmq
from orbitmq.wire.bodies.groups import GroupConfig, GroupTable

GROUPS_MAX = 200_000
_READ = int(Perm.READ)

GROUP_LENGTH_MAX = 248
"""Characters: the group's retry topic becomes a directory's name, `%RETRY%` and the group, 255 at most."""


class GroupConfigs(VersionedTable[GroupConfig]):
    """The settings of every group this broker knows."""

    def __init__(
        self,
        groups: Iterable[GroupConfig] = (),
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
        *,
        forbidden: Mapping[str, Mapping[str, int]] | None = None,
        auto_create_enable: bool = True,
        count_max: int = GROUPS_MAX,
        has_lmq: bool = False,
    ) -> None:
        super().__init__({config.group: config for config in groups}, version, count_max=count_max)
        self._auto_create_enable = auto_create_enable
        self.forbidden = {group: dict(topics) for group, topics in (forbidden or {}).items()}
        """By group and topic, the permissions that the group does not have there, as bits of Perm."""
        for name in sorted(SYSTEM_GROUPS):
            self._values.setdefault(name, GroupConfig(group=name))

        if has_lmq:
            self.get = self._find_or_lmq

    def _find_or_lmq(self, group: str) -> GroupConfig | None:
        """Return a group's settings: groups named as LMQs are there without having been made (Java: LMQ)."""
        found = self._values.get(group)
        return GroupConfig(group=group) if found is None and is_lmq(group) else found

    @property
    def table(self) -> GroupTable:
        """The table as it is encoded."""
        return GroupTable(self.version, self._values, self.forbidden)

    def allow(self, *, auto_create_enable: bool, count_max: int) -> None:
        """Change what may be made from now on."""
        self._auto_create_enable = auto_create_enable
        self.count_max = count_max

    def auto_create(self, group: str, now_ms: int) -> GroupConfig | None:
        """Create the settings of a group that is not there, with defaults; None where that is not allowed."""
        if not self._auto_create_enable:
            return None
        try:
            check_name("group", group, GROUP_LENGTH_MAX)
        except InvalidArgument:
            return None
        return self._put(group, GroupConfig(group=group), now_ms) if self.has_room(group) else None

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Return True if a group may not read a topic, which an administrator has said."""
        topics = self.forbidden.get(group)
        return topics is not None and topics.get(topic, 0) & _READ != 0

    def forbid(self, group: str, topic: str, is_forbidden: bool, now_ms: int) -> None:
        """Forbid a group to read a topic, or allow it again.

        Raises:
            Rejected: 1, there are too many such groups or topics already.
        """
        topics = dict(self.forbidden.get(group, {}))
        if is_forbidden:
            if max(len(self.forbidden), len(topics)) >= self.count_max:
                raise Rejected(ResponseCode.SYSTEM_ERROR, f"groupsMax allows no more than {self.count_max}")
            topics[topic] = topics.get(topic, 0) | _READ
        elif topic in topics:
            topics[topic] &= ~_READ
        # A new table each time: a caller that takes the change back has kept the old one.
        others = {name: kept for name, kept in self.forbidden.items() if name != group}
        left = {name: bits for name, bits in topics.items() if bits > 0}
        self.forbidden = others | ({group: left} if left else {})
        self.version = self.version.next(now_ms)

    def update(self, config: GroupConfig, now_ms: int) -> GroupConfig:
        """Create a group's settings or replace them.

        Raises:
            Rejected: 1, one group too many.
        """
        if not self.has_room(config.group):
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"there are {self.count_max} groups, groupsMax allows no more")
        return self._put(config.group, config, now_ms)
