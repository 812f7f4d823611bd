"""Queue locks of ordered consumers (41, 42)."""

from __future__ import annotations

from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.heartbeat import decode_queue_lock, encode_locked_queues
from orbitmq.wire.headers import LockQueues, UnlockQueues

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(LockQueues)
def lock_queues(service: BrokerService, call: Call[LockQueues]) -> Reply:
    """Give a client the queues that nobody else of its group works on."""
    wanted = decode_queue_lock(call.command.body)
    granted = service.locks.lock(wanted.group, wanted.client_id, wanted.queues, call.now_ms)
    return Reply(body=encode_locked_queues(granted))


@handlers.on(UnlockQueues)
def unlock_queues(service: BrokerService, call: Call[UnlockQueues]) -> Reply:
    """Take a client's locks back."""
    given = decode_queue_lock(call.command.body)
    service.locks.unlock(given.group, given.client_id, given.queues)
    return Reply()
