"""Requests of administrators to a broker, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import header, request

__all__ = [
    "CleanExpiredConsumeQueues",
    "CleanUnusedTopics",
    "DeleteExpiredCommitLog",
    "GetAllConsumerOffsets",
    "GetBrokerConfig",
    "GetBrokerConfigResponse",
    "GetBrokerRuntimeInfo",
    "GetConsumeStats",
    "GetTimerCheckpoint",
    "GetTimerMetrics",
    "UpdateBrokerConfig",
]


@request(RequestCode.UPDATE_BROKER_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBrokerConfig:
    """Change settings; the body is Java properties text."""


@request(RequestCode.GET_BROKER_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfig:
    """All settings as Java properties text."""


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfigResponse:
    """The settings' DataVersion, as JSON text."""

    version: str


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerRuntimeInfo:
    """Some dozens of run-time values, as a key-value table."""


@request(RequestCode.GET_CONSUME_STATS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStats:
    """Per queue of a group's topics: the broker's offset and the group's."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(RequestCode.GET_ALL_CONSUMER_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllConsumerOffsets:
    """The whole table of committed offsets."""


@request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanExpiredConsumeQueues:
    """Delete what consume queues keep of messages that are gone."""


@request(RequestCode.CLEAN_UNUSED_TOPIC)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUnusedTopics:
    """Delete the consume queues of topics that are not in the topic table."""


@request(RequestCode.DELETE_EXPIRED_COMMITLOG)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteExpiredCommitLog:
    """Delete expired files of the CommitLog now, whatever the hour."""


@request(RequestCode.GET_TIMER_CHECK_POINT)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimerCheckpoint:
    """How far timers are, as bytes."""


@request(RequestCode.GET_TIMER_METRICS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimerMetrics:
    """How many messages wait for their time, by topic."""
