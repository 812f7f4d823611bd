"""Client groups and their subscriptions, as heartbeats carry them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SUBSCRIBE_ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"

TOOLS_GROUP = "TOOLS_CONSUMER"
"""Java's tools read under this name, which every broker knows: reading leaves no other group behind."""

SYSTEM_GROUPS = frozenset(
    (
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    )
)
"""Groups that brokers make for themselves."""


def is_tag_type(expression_type: str | None) -> bool:
    """Return True if expressions of this type name tags (Java: ExpressionType.isTagType)."""
    return not expression_type or expression_type == TAG


def unread_count(committed: int, begin: int, end: int) -> int:
    """Return how many messages of a queue are still to come for a group: its lag; deleted ones do not come.

    Args:
        committed: the group's offset.
        begin: the queue's first offset.
        end: the offset behind its last message.
    """
    return max(0, end - max(committed, begin))


def gone_count(committed: int, begin: int) -> int:
    """Return how many messages of a queue were deleted before a group read them; a group without an offset lost none."""
    return begin - committed if 0 < committed < begin else 0


class MessageModel(StrEnum):
    """CLUSTERING shares a group's queues, BROADCASTING gives all of them to every consumer."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeType(StrEnum):
    """How a consumer takes messages (Java: ConsumeType)."""

    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class ConsumeFrom(StrEnum):
    """Where a group without a committed offset starts (Java: ConsumeFromWhere)."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A group's filter on one topic (Java: SubscriptionData)."""

    topic: str
    expression: str = SUBSCRIBE_ALL
    expression_type: str = TAG
    tags: frozenset[str] = frozenset()
    tag_codes: frozenset[int] = frozenset()
    version: int = 0
    class_filter_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerInfo:
    """One consumer group inside a heartbeat (Java: ConsumerData)."""

    group: str
    consume_type: ConsumeType = ConsumeType.PUSH
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    subscriptions: tuple[Subscription, ...] = ()
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A client's report to every broker: the groups it belongs to, with their subscriptions (Java: HeartbeatData)."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerInfo, ...] = ()
    fingerprint: int = 0
    without_subscriptions: bool = False
