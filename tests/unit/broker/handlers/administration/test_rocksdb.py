from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from golden import golden
from orbitmq.wire.headers import CheckRocksdbQueues, ExportRocksdbTables

Serve = Callable[..., None]


def test_there_is_nothing_to_compare(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        for topic in ("", "orders"):
            found = orjson.loads((await rig.ask(CheckRocksdbQueues(topic=topic, check_store_time=0))).body)
            assert found["checkStatus"] == 1
            assert "rocksdbCQWriteEnable is false" in found["checkResult"]
            # Java has not looked yet when it answers.
            java = orjson.loads(golden("354-check-rocksdb-cq-write-progress-answer").body)
            assert found.keys() == java.keys() | {"checkResult"}

    serve(scene)


@pytest.mark.parametrize(("named", "code"), [("topics", 0), ("topics;SubscriptionGroups;", 0), ("", 0), ("users", 1)])
def test_tables_are_json_files_already(serve: Serve, named: str, code: int) -> None:
    async def scene(rig: Any) -> None:
        answer = await rig.ask(ExportRocksdbTables(config_type=named))
        assert (answer.code, ("users" if code else "JSON files") in answer.remark) == (code, True)

    serve(scene)
