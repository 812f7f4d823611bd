"""The groups and topics that the system owns, and what users may do with them. Pure.

The one list that the dashboard, the tools for assistants and the commands ask before they change something.
`mqadmin` does not ask it, as Java's does not.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from orbitmq.errors import InvalidArgument
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.topic import GROUP_LENGTH_MAX, check_name, kind_of

_TOOL_GROUP_PREFIX = "orbitmq-"
"""Of the groups that orbitmq's own tools and jobs use where no other is named."""
_SYSTEM_GROUP_PREFIX = "cid_rmq_sys_"
"""Of groups under which brokers read their own topics, in any case (Java: MixAll.CID_RMQ_SYS_PREFIX)."""

MAY: Mapping[str, frozenset[str]] = {
    "user": frozenset(("create", "change", "delete", "send", "reset")),
    # Filled by brokers and deleted with their group. Older brokers make dead letters write-only: making them again opens them.
    "retry": frozenset(("change", "reset")),
    "dead letters": frozenset(("create", "change", "reset")),
    "system": frozenset(),
}
"""What may be done with topics, by `kind_of`; with a group of the system nothing may be done."""


def is_system_group(group: str) -> bool:
    """Return True if brokers keep a group for themselves."""
    return group in SYSTEM_GROUPS or group.lower().startswith(_SYSTEM_GROUP_PREFIX)


def group_kind(group: str) -> str:
    """Return "tool" for a group that tools and jobs of orbitmq use, else "user": lists have no groups of the system."""
    return "tool" if group.startswith(_TOOL_GROUP_PREFIX) else "user"


def check_topic(topic: str, what: str, own: Container[str] = (), *, name: str = "topic") -> None:
    """Refuse what may not be done with a topic.

    Args:
        what: create, change, delete, send or reset.
        own: the topics that are named after a cluster or a broker.
        name: of the argument.

    Raises:
        InvalidArgument: the system owns the topic, or it is not a name.
    """
    kind = kind_of(check_name(name, topic), own)
    if what in MAY[kind]:
        return
    if kind == "system":
        raise InvalidArgument(name, topic, f"a topic that RocketMQ does not keep for itself ({what})")
    raise InvalidArgument(
        name,
        topic,
        f"a topic of users, since brokers make and fill this one for its group, and delete it with the group ({what})",
    )


def check_group(group: str, *, name: str = "group") -> None:
    """Refuse to change a group of the system.

    Raises:
        InvalidArgument: brokers read under this name themselves, and would lose their place; or it is not a name.
    """
    if is_system_group(check_name(name, group, GROUP_LENGTH_MAX)):
        raise InvalidArgument(name, group, "a group that RocketMQ does not keep for itself")
