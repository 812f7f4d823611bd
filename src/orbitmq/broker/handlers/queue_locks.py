"""Queue locks of ordered consumers (41, 42)."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.clock import Clock
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import SMALL_BODY_SIZE, Work, in_turns
from orbitmq.wire.bodies.heartbeat import decode_queue_lock, encode_locked_queues
from orbitmq.wire.headers import LockQueues, UnlockQueues


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTables:
    """The locks, and the monotonic clock that says when they run out: setting the wall clock ends none of them."""

    locks: QueueLocks
    clock: Clock


handlers: Handlers[LockTables] = Handlers()


@handlers.on(LockQueues)
def lock_queues(tables: LockTables, call: Call[LockQueues]) -> Reply | Later:
    """Give a client the queues that no other client of its group has locked."""
    return in_turns(call, _lock(tables, call))


def _lock(tables: LockTables, call: Call[LockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield  # then all in one slice: 20,000 queues take 20 ms, and half done they would take memory for each such request
    wanted = decode_queue_lock(call.command.body)
    queues = list(dict.fromkeys(wanted.queues))  # one that is named twice is locked once
    granted = tables.locks.lock(wanted.group, wanted.client_id, queues, tables.clock())
    return Reply(body=encode_locked_queues(granted))


@handlers.on(UnlockQueues)
def unlock_queues(tables: LockTables, call: Call[UnlockQueues]) -> Reply | Later:
    """Release what a client holds."""
    return in_turns(call, _unlock(tables, call))


def _unlock(tables: LockTables, call: Call[UnlockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield
    held = decode_queue_lock(call.command.body)
    tables.locks.unlock(held.group, held.client_id, held.queues)
    return Reply()
