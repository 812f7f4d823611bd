from __future__ import annotations

from golden import golden
from orbitmq.broker.delivery.delay import parse_delay_offsets
from orbitmq.wire.bodies.kv import decode_kv_table
from orbitmq.wire.headers import GetAllDelayOffsets, GetBrokerRuntimeInfo

from ..parts import Serve


async def test_run_time_values_are_those_that_cluster_list_reads(serve: Serve) -> None:
    async with serve() as rig:
        await rig.send("t", body=b"x" * 10)
        values = decode_kv_table((await rig.ask(GetBrokerRuntimeInfo())).body)
        assert values["brokerVersionDesc"] == "V5_3_3"
        assert len(values["putTps"].split(" ")) == 3
        assert values["msgPutTotalTodayNow"] == "1"
        assert int(values["earliestMessageTimeStamp"]) > 0
        assert 0 <= float(values["commitLogDiskRatio"]) <= 1
        assert values["sendThreadPoolQueueSize"] == "0"


async def test_a_code_that_is_not_there_answers_3(serve: Serve) -> None:
    async with serve() as rig:
        answer = await rig.pool.request(rig.broker.address, GetBrokerRuntimeInfo(), code=902)
        assert answer.code == 3
        assert "902 not supported" in answer.remark


async def test_delay_levels_that_were_used_are_told(serve: Serve) -> None:
    async with serve() as rig:
        assert b'"offsetTable":{}' in (await rig.ask(GetAllDelayOffsets())).body
        await rig.send("t", properties="DELAY\x013\x02")
        body = (await rig.ask(GetAllDelayOffsets())).body
        assert b'"offsetTable":{3:0}' in body
        assert parse_delay_offsets(body)[0] == {3: 0}


async def test_every_run_time_value_that_java_has_is_there(serve: Serve) -> None:
    def named(values: dict[str, str]) -> set[str]:
        return {name.partition("/")[0] for name in values}  # one key ends with a path

    async with serve() as rig:
        for level in (1, 3):
            await rig.send("t", properties=f"DELAY\x01{level}\x02")
        values = decode_kv_table((await rig.ask(GetBrokerRuntimeInfo())).body)
        assert named(decode_kv_table(golden("28-get-broker-runtime-info-answer").body)) - named(values) == set()
        assert values["scheduleMessageOffset_3"] == "0,1"
        assert all(float(values[name].split(":")[-1]) == 0 for name in values["notMeasured"].split(","))
