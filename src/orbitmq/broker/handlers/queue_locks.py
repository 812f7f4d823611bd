"""Queue locks of ordered consumers (41, 42)."""

from __future__ import annotations

from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import SMALL_BODY_SIZE, Work, in_turns
from orbitmq.wire.bodies.heartbeat import decode_queue_lock, encode_locked_queues
from orbitmq.wire.headers import LockQueues, UnlockQueues

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(LockQueues)
def lock_queues(broker: BrokerService, call: Call[LockQueues]) -> Reply | Later:
    """Give a client the queues that no other client of its group has locked."""
    return in_turns(call, _lock(broker, call))


def _lock(broker: BrokerService, call: Call[LockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield  # then all in one slice: 20,000 queues take 20 ms, and half done they would take memory for each such request
    wanted = decode_queue_lock(call.command.body)
    queues = list(dict.fromkeys(wanted.queues))  # one that is named twice is locked once
    granted = broker.clients.locks.lock(wanted.group, wanted.client_id, queues, broker.context.monotonic())
    return Reply(body=encode_locked_queues(granted))


@handlers.on(UnlockQueues)
def unlock_queues(broker: BrokerService, call: Call[UnlockQueues]) -> Reply | Later:
    """Release what a client holds."""
    return in_turns(call, _unlock(broker, call))


def _unlock(broker: BrokerService, call: Call[UnlockQueues]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield
    held = decode_queue_lock(call.command.body)
    broker.clients.locks.unlock(held.group, held.client_id, held.queues)
    return Reply()
