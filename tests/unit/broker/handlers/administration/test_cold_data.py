"""Requests about cold data and RocksDB, which the broker has not."""

from __future__ import annotations

import orjson
import pytest

from golden import golden
from orbitmq.wire.headers import (
    CheckRocksdbQueues,
    ExportRocksdbTables,
    GetColdDataControl,
    RemoveColdDataControl,
    SetCommitLogReadMode,
    UpdateColdDataControl,
)

from ...parts import Serve


async def test_no_group_is_held_back_and_who_asks_for_it_is_told(serve: Serve) -> None:
    async with serve() as rig:
        answer = await rig.ask(UpdateColdDataControl(), b"g=1000\n")
        assert answer.code == 1
        assert "coldDataFlowControlEnable" in answer.remark
        assert await rig.code(RemoveColdDataControl(), b"g") == 0
        found = orjson.loads((await rig.ask(GetColdDataControl())).body)
        java = orjson.loads(golden("2003-get-cold-data-flow-ctr-info-answer").body)
        assert found == java | {"configTable": {}}  # the golden one was taken while Java had a threshold


@pytest.mark.parametrize(("mode", "code"), [(0, 0), (1, 1), (2, 29), (-1, 29)])
async def test_the_system_reads_ahead_as_it_likes(serve: Serve, mode: int, code: int) -> None:
    async with serve() as rig:
        assert await rig.code(SetCommitLogReadMode(mode=mode)) == code


async def test_there_is_nothing_to_compare(serve: Serve) -> None:
    async with serve() as rig:
        for topic in ("", "orders"):
            found = orjson.loads((await rig.ask(CheckRocksdbQueues(topic=topic, check_store_time=0))).body)
            assert found["checkStatus"] == 1
            assert "rocksdbCQWriteEnable is false" in found["checkResult"]
            # Java has not looked yet when it answers.
            java = orjson.loads(golden("354-check-rocksdb-cq-write-progress-answer").body)
            assert found.keys() == java.keys() | {"checkResult"}


@pytest.mark.parametrize(("named", "code"), [("topics", 0), ("topics;SubscriptionGroups;", 0), ("", 0), ("users", 1)])
async def test_tables_are_json_files_already(serve: Serve, named: str, code: int) -> None:
    async with serve() as rig:
        answer = await rig.ask(ExportRocksdbTables(config_type=named))
        assert (answer.code, ("users" if code else "JSON files") in answer.remark) == (code, True)
