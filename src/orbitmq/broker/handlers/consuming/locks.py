"""Queue locks of ordered consumers (41, 42)."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.clock import Clock
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import SMALL_BODY_SIZE, Work, in_turns
from orbitmq.wire.bodies.heartbeat import decode_queue_lock, encode_locked_queues
from orbitmq.wire.headers import LockQueues, UnlockQueues


@dataclass(frozen=True, slots=True)
class LockTables:
    """The locks, and the monotonic clock that says when they run out: setting the wall clock ends nobody's."""

    locks: QueueLocks
    clock: Clock


handlers: Handlers[LockTables] = Handlers()

_STEP_COUNT = 1_000
"""Queues that are locked in one step: under a millisecond."""


@handlers.on(LockQueues)
def lock_queues(tables: LockTables, call: Call[LockQueues]) -> Reply | Later:
    """Give a client the queues that nobody else of its group works on."""
    return in_turns(call, _lock(tables, call))


def _lock(tables: LockTables, call: Call[LockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield
    wanted = decode_queue_lock(call.command.body)
    queues = list(dict.fromkeys(wanted.queues))  # one that is named twice is locked once
    granted: list[MessageQueue] = []
    for start in range(0, len(queues), _STEP_COUNT):
        if start:
            yield
        some = queues[start : start + _STEP_COUNT]
        granted += tables.locks.lock(wanted.group, wanted.client_id, some, tables.clock())
    return Reply(body=encode_locked_queues(granted))


@handlers.on(UnlockQueues)
def unlock_queues(tables: LockTables, call: Call[UnlockQueues]) -> Reply | Later:
    """Release what a client holds."""
    return in_turns(call, _unlock(tables, call))


def _unlock(tables: LockTables, call: Call[UnlockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield
    held = decode_queue_lock(call.command.body)
    for start in range(0, len(held.queues), _STEP_COUNT):
        if start:
            yield
        tables.locks.unlock(held.group, held.client_id, held.queues[start : start + _STEP_COUNT])
    return Reply()
