"""POP's parts in a running broker."""

from __future__ import annotations

import asyncio
from typing import Any

from orbitmq.wire.headers import PopMessage, PopNotification
from waiting import until

from ..parts import Serve


async def test_a_stop_answers_all_waiters(serve: Serve) -> None:
    async with serve() as harness:
        await harness.send()
        place: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 1}
        pop = PopMessage(**place, count_max=1, invisible_ms=1, poll_ms=60_000, init_mode=0)
        notice = PopNotification(**place, poll_ms=60_000)
        asked = [asyncio.ensure_future(harness.ask(header)) for header in (pop, notice)]
        service = harness.broker.service.delivery.pop
        await until(lambda: service.waiting.held.count and service.notices.held.count)
        service.wake_overtaken()
        service.close()
        popped, notified = await asyncio.gather(*asked)
        assert popped.code == 210
        assert notified.ext_fields == {"hasMsg": "false", "pollingFull": "false"}
