"""Queue locks of ordered consumers (41, 42)."""

from __future__ import annotations

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.heartbeat import decode_queue_lock, encode_locked_queues
from orbitmq.wire.headers import LockQueues, UnlockQueues

handlers: Handlers[QueueLocks] = Handlers()


@handlers.on(LockQueues)
def lock_queues(locks: QueueLocks, call: Call[LockQueues]) -> Reply:
    """Give a client the queues that nobody else of its group works on."""
    wanted = decode_queue_lock(call.command.body)
    granted = locks.lock(wanted.group, wanted.client_id, wanted.queues, call.now_ms)
    return Reply(body=encode_locked_queues(granted))


@handlers.on(UnlockQueues)
def unlock_queues(locks: QueueLocks, call: Call[UnlockQueues]) -> Reply:
    """Release what a client holds."""
    held = decode_queue_lock(call.command.body)
    locks.unlock(held.group, held.client_id, held.queues)
    return Reply()
