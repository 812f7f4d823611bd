from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.heartbeat import QueueLock, decode_locked_queues, encode_queue_lock
from orbitmq.wire.headers import LockQueues, UnlockQueues

Serve = Callable[..., None]


def test_queues_are_locked_for_one_client_at_a_time(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        queues = (MessageQueue("t", "a", 0), MessageQueue("t", "a", 1))

        def lock(client: str) -> bytes:
            return encode_queue_lock(QueueLock(group="g", client_id=client, queues=queues))

        assert set(decode_locked_queues((await rig.ask(LockQueues(), lock("c1"))).body)) == set(queues)
        assert decode_locked_queues((await rig.ask(LockQueues(), lock("c2"))).body) == ()
        assert await rig.code(UnlockQueues(), lock("c1")) == 0
        assert set(decode_locked_queues((await rig.ask(LockQueues(), lock("c2"))).body)) == set(queues)

    serve(scene)


def test_a_queue_that_is_named_twice_is_locked_once(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        queue = MessageQueue("t", "a", 0)
        body = encode_queue_lock(QueueLock(group="g", client_id="c", queues=(queue, queue)))
        assert decode_locked_queues((await rig.ask(LockQueues(), body)).body) == (queue,)

    serve(scene)
