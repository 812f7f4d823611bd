from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from waiting import until

Serve = Callable[..., None]


def test_a_delayed_send_is_hidden_then_delivered_to_its_own_queue(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        answer = await rig.send(properties="DELAY\x011\x02TAGS\x01a\x02", queue_id=3, body=b"later")
        assert decode_header(SendResponse, answer.ext_fields).queue_id == 3
        store = rig.broker.service.store
        assert store.max_offset("t", 3) == 0
        assert store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 1
        await until(lambda: store.max_offset("t", 3), pause_s=0.01)
        _, (record,) = await rig.pull(queue_id=3)
        assert bytes(record.body) == b"later"
        assert record.stored_at_ms - record.born_at_ms > 0

    async def again(rig: Any) -> None:
        await asyncio.sleep(0.3)
        assert rig.broker.service.store.max_offset("t", 3) == 1

    serve(scene)
    serve(again)
