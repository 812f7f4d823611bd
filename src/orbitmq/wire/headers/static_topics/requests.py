"""Requests that make static topics, and those that the leader of a logical queue sends on to the brokers before it.

`lo=false` says that a request is about a queue of the broker itself; clients never send it.

Source: Java CreateTopicRequestHeader, TopicRequestHeader, RpcRequestHeader.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import header, request
from orbitmq.wire.headers.consuming.pull import PullMessage
from orbitmq.wire.headers.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.topics import CreateTopic

__all__ = [
    "CreateStaticTopic",
    "ForwardedGetEarliestStoreTime",
    "ForwardedGetMaxOffset",
    "ForwardedGetMinOffset",
    "ForwardedPullMessage",
    "ForwardedQueryConsumerOffset",
    "ForwardedSearchOffset",
    "ForwardedUpdateConsumerOffset",
]


@request(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStaticTopic(CreateTopic):
    """Create or change a static topic on one broker; the body holds the broker's part of the mapping."""


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedPullMessage(PullMessage):
    """A pull sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedGetMaxOffset(GetMaxOffset):
    """A question for a queue's end, sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedGetMinOffset(GetMinOffset):
    """A question for a queue's beginning, sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedGetEarliestStoreTime(GetEarliestStoreTime):
    """A question for the time of a queue's first message, sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedSearchOffset(SearchOffset):
    """A search by time, sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedQueryConsumerOffset(QueryConsumerOffset):
    """A question for a group's offset, sent on."""

    lo: bool = False


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedUpdateConsumerOffset(UpdateConsumerOffset):
    """A group's offset, sent on."""

    lo: bool = False
