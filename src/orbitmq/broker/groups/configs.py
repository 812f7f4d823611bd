"""The settings of consumer groups: whether a group may consume, how often a message is retried.

State: every GroupConfig and the table's DataVersion. Pure.

Source: Java SubscriptionGroupManager, SubscriptionGroupConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orbitmq.broker.versioned_table import VersionedTable
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.topic import DataVersion, check_name
from orbitmq.wire.bodies.groups import GroupConfig, GroupTable

GROUPS_MAX = 200_000

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
    ) -> None:
        super().__init__({config.group: config for config in groups}, version, count_max=count_max)
        self._auto_create_enable = auto_create_enable
        self.forbidden = dict(forbidden or {})
        """Kept for the file; 353 that changes it is not there yet."""
        for name in SYSTEM_GROUPS:
            self._values.setdefault(name, GroupConfig(group=name))

    @property
    def table(self) -> GroupTable:
        """The table as it is encoded."""
        return GroupTable(self.version, self._values, self.forbidden)

    def auto_create(self, group: str, now_ms: int) -> GroupConfig | None:
        """Create the settings of a group that is not there, with defaults; None where that is not allowed."""
        if not self._auto_create_enable:
            return None
        try:
            check_name("group", group, GROUP_LENGTH_MAX)
        except InvalidArgument:
            return None
        return self._put(group, GroupConfig(group=group), now_ms) if self.has_room(group) else None

    def update(self, config: GroupConfig, now_ms: int) -> GroupConfig:
        """Create a group's settings or replace them.

        Raises:
            Rejected: 1, one group too many.
        """
        if not self.has_room(config.group):
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"there are {self.count_max} groups, groupsMax allows no more")
        return self._put(config.group, config, now_ms)
