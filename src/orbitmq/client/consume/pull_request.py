"""The request of a pull, and the outcome that its answer tells. Pure.

Source: Java PullAPIWrapper.pullKernelImpl.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX
from orbitmq.codes import ResponseCode
from orbitmq.model.group import SUBSCRIBE_ALL, TAG, TOOLS_GROUP, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PullMessage, PullResponse, PullSysFlag

SUSPEND_MS = 15_000
"""How long a broker may hold a pull that finds nothing (Java: brokerSuspendMaxTimeMillis)."""
PULL_TIMEOUT_MS = 30_000
PULL_COUNT_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """How a queue is pulled.

    Args:
        pull_count_max: messages per pull; a broker may give fewer.
        window_count_max: messages of one queue that may wait to be consumed.
        window_size_max: bytes of one queue that may wait to be consumed.
        window_span_max: offsets of one queue between the first and the last message that are not settled; None where
            none overtakes another.
        body_size_max: bytes of each body that are kept, for tables; None: all.
    """

    pull_count_max: int = PULL_COUNT_MAX
    window_count_max: int = COUNT_MAX
    window_size_max: int = SIZE_MAX
    window_span_max: int | None = None
    body_size_max: int | None = None
    suspend_ms: int = SUSPEND_MS
    timeout_ms: int = PULL_TIMEOUT_MS


DEFAULT_SETTINGS: Final = PullSettings()


def pull_header(
    group: str,
    queue: MessageQueue,
    subscription: Subscription,
    settings: PullSettings,
    *,
    queue_offset: int,
    commit_offset: int,
) -> PullMessage:
    """Return the header of a pull at `queue_offset`.

    Args:
        commit_offset: the broker keeps it for the group; 0 to leave the group's offset alone.
    """
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=queue_offset,
        count_max=settings.pull_count_max,
        sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | (PullSysFlag.COMMIT_OFFSET if commit_offset else 0),
        commit_offset=commit_offset,
        suspend_timeout_ms=settings.suspend_ms,
        subscription=subscription.expression,
        sub_version=subscription.version,
        expression_type=subscription.expression_type,
        broker_name=queue.broker_name,
    )


def plain_pull(
    topic: str,
    queue_id: int,
    queue_offset: int,
    count_max: int,
    *,
    group: str = TOOLS_GROUP,
    expression: str = SUBSCRIBE_ALL,
    expression_type: str = TAG,
    size_max: int | None = None,
    broker_name: str | None = None,
) -> PullMessage:
    """Return the header of a pull that is answered immediately and commits nothing.

    Args:
        size_max: bytes of the answer's records; None: the broker's limit.
    """
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        count_max=count_max,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_ms=0,
        subscription=expression,
        sub_version=0,
        expression_type=expression_type,
        size_max=size_max,
        broker_name=broker_name,
    )


class PullStatus(Enum):
    """The outcomes of a pull that a broker has carried out (Java: PullStatus)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MESSAGE = ResponseCode.PULL_RETRY_IMMEDIATELY
    """There are messages, none of those looked at passed the filter: go on behind them."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """The offset lies before the queue's first message or behind its end."""


class PullResult(NamedTuple):
    """What a pull brought: `records` holds whole records back to back, empty unless the status is FOUND."""

    status: PullStatus
    header: PullResponse
    records: bytes


_BY_CODE: Final = {status.value.value: status for status in PullStatus}


def parse_pull_answer(answer: Command) -> PullResult | None:
    """Return the result that an answer tells; None when the broker refused, its code and remark say why.

    Raises:
        HeaderError: the answer does not say where to go on.
    """
    status = _BY_CODE.get(answer.code)
    if status is None:
        return None
    header = decode_header(PullResponse, answer.ext_fields)
    return PullResult(status, header, answer.body if status is PullStatus.FOUND else b"")
