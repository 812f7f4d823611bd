"""The request of a pull: its settings and its header. Pure.

Source: Java PullAPIWrapper.pullKernelImpl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orbitmq.client.consume.pull.window import COUNT_MAX, SIZE_MAX
from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import PullMessage, PullSysFlag

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
    """

    pull_count_max: int = PULL_COUNT_MAX
    window_count_max: int = COUNT_MAX
    window_size_max: int = SIZE_MAX
    window_span_max: int | None = None
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
