"""Answers of a consumer to an administrator: its running info, and the result of a message it was told to consume.

Source: Java ConsumerRunningInfo, ProcessQueueInfo, ConsumeStatus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import orjson

from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import number, parse_body, text
from orbitmq.wire.bodies.heartbeat import parse_queue_key, parse_subscription, queue_document, subscription_document


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """One queue at its consumer (Java: ProcessQueueInfo); offsets of -1 become 0, as Java shows none.

    Args:
        cached_count: messages that were pulled and are not done; those that are worked on in order are counted besides.
        working_count: messages that are worked on in order (Java: transactionMsgCount).
    """

    commit_offset: int = 0
    cached_min_offset: int = 0
    cached_max_offset: int = 0
    cached_count: int = 0
    cached_size_mib: int = 0
    working_min_offset: int = 0
    working_max_offset: int = 0
    working_count: int = 0
    is_locked: bool = False
    unlock_tries: int = 0
    locked_at_ms: int = 0
    is_dropped: bool = False
    pulled_at_ms: int = 0
    consumed_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus:
    """How consumption of one topic goes (Java: ConsumeStatus): times in ms, rates in messages a second."""

    pull_ms: float = 0.0
    pull_rate: float = 0.0
    consume_ms: float = 0.0
    done_rate: float = 0.0
    failed_rate: float = 0.0
    failed_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInfo:
    """Everything that a consumer says of itself.

    Args:
        pop_queues: those that it pops from, each with Java's fields (PopProcessQueueInfo).
        user_info: what its program adds; None: it does not say.
    """

    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...] = ()
    queues: Mapping[MessageQueue, QueueInfo] = field(default_factory=dict)
    statistics: Mapping[str, ConsumeStatus] = field(default_factory=dict)
    stacks: str | None = None
    pop_queues: Mapping[MessageQueue, Mapping[str, Any]] = field(default_factory=dict)
    user_info: Mapping[str, str] | None = field(default_factory=dict)


_QUEUE_KEYS = {
    "commit_offset": "commitOffset",
    "cached_min_offset": "cachedMsgMinOffset",
    "cached_max_offset": "cachedMsgMaxOffset",
    "cached_count": "cachedMsgCount",
    "cached_size_mib": "cachedMsgSizeInMiB",
    "working_min_offset": "transactionMsgMinOffset",
    "working_max_offset": "transactionMsgMaxOffset",
    "working_count": "transactionMsgCount",
    "is_locked": "locked",
    "unlock_tries": "tryUnlockTimes",
    "locked_at_ms": "lastLockTimestamp",
    "is_dropped": "droped",
    "pulled_at_ms": "lastPullTimestamp",
    "consumed_at_ms": "lastConsumeTimestamp",
}
_FIGURE_KEYS = {
    "pull_ms": "pullRT",
    "pull_rate": "pullTPS",
    "consume_ms": "consumeRT",
    "done_rate": "consumeOKTPS",
    "failed_rate": "consumeFailedTPS",
    "failed_count": "consumeFailedMsgs",
}


def encode_running_info(info: RunningInfo) -> bytes:
    """Encode the answer to GET_CONSUMER_RUNNING_INFO."""
    document: dict[str, Any] = {} if info.stacks is None else {"jstack": info.stacks}
    return fastjson.dumps_loose(
        document
        | {
            "mqPopTable": {
                tuple(queue_document(queue).items()): dict(found) for queue, found in sorted(info.pop_queues.items())
            },
            "mqTable": {
                tuple(queue_document(queue).items()): queue_info_document(found)
                for queue, found in sorted(info.queues.items())
            },
            "properties": dict(info.properties),
            "statusTable": {topic: _document(found, _FIGURE_KEYS) for topic, found in sorted(info.statistics.items())},
            "subscriptionSet": [subscription_document(subscription) for subscription in info.subscriptions],
            "userConsumerInfo": None if info.user_info is None else dict(info.user_info),
        }
    )


def decode_running_info(body: bytes) -> RunningInfo:
    """Decode the answer to GET_CONSUMER_RUNNING_INFO; what a consumer leaves out counts as nothing.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body("running info", body, _parse)


def queue_info_document(info: QueueInfo) -> dict[str, Any]:
    """Return a queue's state under Java's names (ProcessQueueInfo)."""
    return _document(info, _QUEUE_KEYS)


def _document(found: object, keys: Mapping[str, str]) -> dict[str, Any]:
    return {key: getattr(found, name) for name, key in keys.items()}


def _parse(document: dict[str, Any]) -> RunningInfo:
    get = document.get
    return RunningInfo(
        # Java's clients write some of them as other values than text.
        properties={text(key): str(value) for key, value in (get("properties") or {}).items()},
        subscriptions=tuple(map(parse_subscription, get("subscriptionSet") or ())),
        queues={parse_queue_key(key): _parse_queue_info(found) for key, found in (get("mqTable") or {}).items()},
        statistics={text(topic): _parse_stats(found) for topic, found in (get("statusTable") or {}).items()},
        stacks=get("jstack"),
        pop_queues={parse_queue_key(key): found for key, found in (get("mqPopTable") or {}).items()},
        user_info=get("userConsumerInfo"),
    )


def _parse_queue_info(document: dict[str, Any]) -> QueueInfo:
    found: dict[str, Any] = {}
    for declared in fields(QueueInfo):
        value = document.get(_QUEUE_KEYS[declared.name])
        if value is not None:
            found[declared.name] = bool(value) if declared.name.startswith("is_") else number(value)
    return QueueInfo(**found)


def _parse_stats(document: dict[str, Any]) -> ConsumeStatus:
    found: dict[str, Any] = {}
    for name, key in _FIGURE_KEYS.items():
        value = document.get(key)
        if value is not None:
            found[name] = number(value) if name == "failed_count" else float(value)
    return ConsumeStatus(**found)


class ConsumeResult(StrEnum):
    """How a handler ended (Java: CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectResult:
    """What a client has done with one message.

    Args:
        is_ordered: the client consumes in order.
        remark: the exception that the handler raised.
        spent_ms: how long the handler took.
    """

    outcome: ConsumeResult
    is_ordered: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_ms: int = 0


def encode_direct_result(result: DirectResult) -> bytes:
    """Encode the answer to CONSUME_MESSAGE_DIRECTLY."""
    document: dict[str, Any] = {
        "autoCommit": result.auto_commit,
        "consumeResult": result.outcome,
        "order": result.is_ordered,
    }
    if result.remark is not None:
        document["remark"] = result.remark
    return orjson.dumps({**document, "spentTimeMills": result.spent_ms})


def decode_direct_result(body: bytes) -> DirectResult:
    """Decode the answer to CONSUME_MESSAGE_DIRECTLY.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body(
        "consume result",
        body,
        lambda document: DirectResult(
            outcome=ConsumeResult(document["consumeResult"]),
            is_ordered=bool(document.get("order")),
            auto_commit=bool(document.get("autoCommit", True)),
            remark=document.get("remark"),
            spent_ms=number(document.get("spentTimeMills") or 0),
        ),
    )
