from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from orbitmq.wire.headers import GetReplicationStatus, ResetMasterFlushOffset

Serve = Callable[..., None]


def test_a_master_says_where_its_log_ends_and_that_nobody_follows(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        await rig.send("t")
        document = orjson.loads((await rig.ask(GetReplicationStatus())).body)
        assert document["master"] is True
        assert document["haConnectionInfo"] == []
        assert document["masterCommitLogMaxOffset"] == rig.broker.service.store.max_physical_offset > 0

    serve(scene)


def test_a_master_knows_its_own_log(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        await rig.send("t")
        assert await rig.code(ResetMasterFlushOffset(master_flush_offset=0)) == 0
        assert rig.broker.service.store.max_physical_offset > 0

    serve(scene)
