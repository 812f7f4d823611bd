"""The steps of a restore as values: topics, groups, users, rules, messages and offsets of each broker. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from orbitmq.admin.backup.manifest import QueueFile
from orbitmq.admin.backup.tables import AccessTables, BrokerTables
from orbitmq.model.access import Acl, User
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig


class Action(StrEnum):
    """What is done about a topic or a group."""

    CREATE = "create"
    SAME = "is there"
    LEAVE = "leave"
    """It is there with other settings."""
    OVERWRITE = "overwrite"

    @property
    def is_change(self) -> bool:
        """True where the broker is told."""
        return self in (Action.CREATE, Action.OVERWRITE)


NO_ACCESS = AccessTables((), ())


class RestoreOptions(NamedTuple):
    """What is restored, and how.

    Args:
        patterns: only topics that fit one of these; empty: all.
        tables_only: send no messages.
        overwrite: change topics and groups that have other settings.
        append: send messages behind those that a queue has.
        brokers: from the backup's broker names to others.
        users: restore users and their rules as well.
        skip_refused: leave out messages that the target takes never, as too large ones.
    """

    patterns: tuple[str, ...] = ()
    tables_only: bool = False
    overwrite: bool = False
    append: bool = False
    brokers: Mapping[str, str] = {}
    users: bool = False
    skip_refused: bool = False


class QueueState(NamedTuple):
    """A queue of the target before the restore: its end, and whether it has messages."""

    end: int
    is_empty: bool


class Target(NamedTuple):
    """A broker that is restored to."""

    tables: BrokerTables
    queues: Mapping[tuple[str, int], QueueState]
    online: frozenset[str] = frozenset()
    """Groups with clients."""
    access: AccessTables = NO_ACCESS


class TopicStep(NamedTuple):
    """A topic of one broker."""

    broker: str
    config: TopicConfig
    action: Action
    detail: str = ""


class GroupStep(NamedTuple):
    """A group of one broker."""

    broker: str
    config: GroupConfig
    action: Action
    detail: str = ""


class UserStep(NamedTuple):
    """A user of one broker."""

    broker: str
    user: User
    action: Action


class RulesStep(NamedTuple):
    """The rules of one user at one broker; those about other resources stay."""

    broker: str
    rules: Acl
    action: Action


class QueueStep(NamedTuple):
    """Messages that go to a queue, behind what it holds."""

    broker: str
    file: QueueFile
    base: int
    was_empty: bool


class OffsetStep(NamedTuple):
    """An offset that a group gets in a queue: the one that `committed` has become.

    Args:
        base: the queue's end before the restore: where a group goes on that got no messages.
    """

    broker: str
    group: str
    topic: str
    queue_id: int
    committed: int
    base: int


class RestorePlan(NamedTuple):
    """Everything that a restore does, in this order.

    Args:
        refusals: why nothing may be done.
        remarks: what is left out, and why.
    """

    topics: tuple[TopicStep, ...]
    groups: tuple[GroupStep, ...]
    users: tuple[UserStep, ...]
    rules: tuple[RulesStep, ...]
    queues: tuple[QueueStep, ...]
    offsets: tuple[OffsetStep, ...]
    refusals: tuple[str, ...]
    remarks: tuple[str, ...]
