from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.wire.bodies.kv import decode_kv_table
from orbitmq.wire.headers import GetBrokerConfig, GetBrokerRuntimeInfo, UpdateBrokerConfig

Serve = Callable[..., None]


def test_run_time_values_are_those_that_cluster_list_reads(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        await rig.send("t", body=b"x" * 10)
        values = decode_kv_table((await rig.ask(GetBrokerRuntimeInfo())).body)
        assert values["brokerVersionDesc"] == "V5_3_3"
        assert len(values["putTps"].split(" ")) == 3
        assert values["msgPutTotalTodayNow"] == "1"
        assert int(values["earliestMessageTimeStamp"]) > 0
        assert 0 <= float(values["commitLogDiskRatio"]) <= 1
        assert values["sendThreadPoolQueueSize"] == "0"

    serve(scene)


def test_the_settings_in_use_can_be_read(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        answer = await rig.ask(GetBrokerConfig())
        assert b"brokerName=a\n" in answer.body
        assert "counter" in answer.ext_fields["version"]

    serve(scene)


def test_a_code_that_is_not_there_answers_3(serve: Serve) -> None:
    async def scene(rig: Any) -> None:
        answer = await rig.ask(UpdateBrokerConfig())
        assert answer.code == 3
        assert "25 not supported" in answer.remark

    serve(scene)
