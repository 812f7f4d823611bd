"""The progress of timers: how far they are (60), how many wait (61).

Source: Java AdminBrokerProcessor.
"""

from __future__ import annotations

from orbitmq.broker.timers.service import TimerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store.timers.checkpoint import format_timer_checkpoint
from orbitmq.wire.headers import GetTimerCheckpoint, GetTimerMetrics

handlers: Handlers[TimerService] = Handlers()


@handlers.on(GetTimerCheckpoint)
def get_timer_checkpoint(timers: TimerService, call: Call[GetTimerCheckpoint]) -> Reply:
    """Answer with the checkpoint that is on the disk, or would be if all of the log were."""
    return Reply(body=format_timer_checkpoint(timers.live_checkpoint() if call.header.is_live else timers.checkpoint))


@handlers.on(GetTimerMetrics)
def get_timer_metrics(timers: TimerService, call: Call[GetTimerMetrics]) -> Reply:
    """Answer with the number of messages that wait, by topic."""
    return Reply(body=timers.metrics.format())
