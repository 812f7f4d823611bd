from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.wire.headers import ViewMessage
from orbitmq.wire.messages.record import Record, parse_record

Serve = Callable[..., None]


def test_a_message_is_found_by_its_place(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        await rig.send(body=b"here")
        record = parse_record((await rig.ask(ViewMessage(physical_offset=0))).body)
        assert isinstance(record, Record)
        assert bytes(record.body) == b"here"
        assert await rig.code(ViewMessage(physical_offset=5)) == 1
        assert await rig.code(ViewMessage(physical_offset=-5)) == 1
        assert await rig.code(ViewMessage(physical_offset=2**62)) == 1

    serve(scene)
