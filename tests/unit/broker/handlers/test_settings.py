"""Settings over a connection, and requests about cold data and RocksDB, which the broker has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import javaproperties
import orjson
import pytest

from cases import each_case
from golden import golden
from orbitmq.admin.broker_settings import next_start_settings
from orbitmq.broker.handlers.settings import PROPERTIES_SIZE_MAX
from orbitmq.broker.settings.changes import BLACK_LIST
from orbitmq.broker.settings.file import WITHOUT_EFFECT
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.headers import (
    CheckRocksdbQueues,
    ExportRocksdbTables,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetColdDataControl,
    RemoveColdDataControl,
    SetCommitLogReadMode,
    UpdateBrokerConfig,
    UpdateColdDataControl,
)
from unit.broker.parts import Serve


async def change(harness: Any, text: str) -> Any:
    return await harness.ask(UpdateBrokerConfig(), text.encode())


async def shown(harness: Any) -> dict[str, str]:
    return dict(javaproperties.loads((await harness.ask(GetBrokerConfig())).body.decode()))


async def test_the_settings_in_use_can_be_read(harness: Any) -> None:
    answer = await harness.ask(GetBrokerConfig())
    assert b"brokerName=a\n" in answer.body
    assert '"counter":0' in answer.ext_fields["version"]


async def test_a_slave_makes_no_topics_after_a_change_of_its_settings_either(serve: Serve) -> None:
    async with serve(broker_role="SLAVE", broker_id=1) as slave:
        assert (await change(slave, "maxMessageSize=1000000")).code == 0
        await slave.send("made")
        assert b"made" not in (await slave.ask(GetAllTopicConfig())).body


async def test_a_change_counts_immediately_and_after_a_restart(serve: Serve, tmp_path: Path) -> None:
    async def holds(harness: Any) -> None:
        assert (await shown(harness))["maxMessageSize"] == "10"
        assert (await harness.send("made", body=b"x" * 11)).code in (13, 17)
        assert (await harness.send("TBW102", body=b"x" * 11)).code == 13
        assert (await harness.send("new", body=b"x")).code == 17
        assert harness.broker.service.config.file_reserved_time == 1
        assert harness.broker.service.sends.transactions.rules.reserved_ms == 3_600_000

    async with serve() as harness:
        assert (await change(harness, "maxMessageSize=10\nautoCreateTopicEnable=false\nfileReservedTime=1")).code == 0
        await holds(harness)
        assert '"counter":1' in (await harness.ask(GetBrokerConfig())).ext_fields["version"]
    kept = (tmp_path / "store" / "config" / "broker.properties").read_text()
    assert kept == "maxMessageSize=10\nautoCreateTopicEnable=false\nfileReservedTime=1\n"
    async with serve() as harness:
        await holds(harness)


async def test_a_broker_without_write_permission_answers_every_send_with_16(harness: Any) -> None:
    assert (await harness.send("t")).code == 0
    version = decode_topic_table((await harness.ask(GetAllTopicConfig())).body).data_version
    assert (await change(harness, "brokerPermission=4")).code == 0
    assert decode_topic_table((await harness.ask(GetAllTopicConfig())).body).data_version.counter == version.counter + 1
    assert (await harness.send("t")).code == 16
    assert (await harness.send("t", properties="KEYS\x01k\x02")).code == 16
    assert (await harness.send("new")).code == 16
    assert (await harness.pull("t"))[0].code in (0, 26)
    assert (await change(harness, "brokerPermission=2")).code == 0
    assert (await harness.send("t")).code == 0
    assert (await harness.pull("t"))[0].code == 16
    assert (await change(harness, "brokerPermission=6")).code == 0


@each_case(
    ("brokerPermission=7", 1, "brokerPermission"),
    ("fileReservedTime=x", 1, "fileReservedTime"),
    ("deleteWhen=25", 1, "deleteWhen"),
    ("deleteWhen=04\\nlistenPort=1", 1, "deleteWhen"),
    ("brokerConfigPath=/etc/passwd", 16, "Can not update config in black list."),
    ("rocketmqHome=/tmp", 16, "Can not update config in black list."),
    ("storePathRootDir=/tmp", 1, "storePathRootDir cannot be changed by a request"),
    ("aclEnable=false", 1, "aclEnable cannot be changed by a request"),
    ("listenPort=65536", 1, "listenPort: 65536 is not allowed"),
    ("sendMessageThreadPoolNums=many", 1, "sendMessageThreadPoolNums: 'many' is not allowed"),
    ("sendMessageThreadPoolNums=9223372036854775808", 1, "sendMessageThreadPoolNums: '9223372036854775808' is not"),
    ("asyncSendEnable=8", 1, "asyncSendEnable: '8' is not allowed"),
    ("logicalDiskSpaceCleanForciblyThreshold=much", 1, "logicalDiskSpaceCleanForciblyThreshold: 'much' is not"),
    ("logicalDiskSpaceCleanForciblyThreshold=nan", 1, "logicalDiskSpaceCleanForciblyThreshold: 'nan' is not"),
    ("messageDelayLevel=soon", 1, "messageDelayLevel: 'soon' is not allowed"),
    ("msgTraceTopicName=a b", 1, "msgTraceTopicName: 'a b' is not allowed"),
    ("regionId=$(x)", 1, "regionId: '$(x)' is not allowed"),
    ("namesrvAddr=h:99999", 1, "namesrvAddr: 'h:99999' is not allowed"),
    ("namesrvAddr=", 1, "namesrvAddr: '' is not allowed"),
    ("brokerName=b", 1, "brokerName cannot be changed by a request"),
    ("storeType=../x", 1, "storeType: '../x' is not allowed"),
    ("storeType=`x`", 1, "storeType: '`x`' is not allowed"),
    ("noSuchKey=8", 1, "noSuchKey is not a setting of a broker"),
    ("a\\u12", 1, "string2Properties error"),
)
async def test_what_cannot_be_changed_is_refused_by_name_and_nothing_changes(
    text: str, code: int, remark: str, harness: Any, tmp_path: Path
) -> None:

    before = await shown(harness)
    answer = await change(harness, f"maxMessageSize=10\n{text}\n")
    assert answer.code == code
    assert remark in answer.remark
    assert await shown(harness) == before
    assert not (tmp_path / "store" / "config" / "broker.properties").exists()


async def test_javas_keys_without_effect_are_kept_shown_and_said_to_have_none(serve: Serve, tmp_path: Path) -> None:
    async with serve() as harness:
        answer = await change(harness, "enablePopBufferMerge=true\nsendMessageThreadPoolNums=8\nmaxMessageSize=10")
        assert answer.code == 0
        assert answer.remark == "kept, without effect in this broker: enablePopBufferMerge, sendMessageThreadPoolNums"
        assert (await shown(harness))["enablePopBufferMerge"] == "true"
    async with serve() as harness:
        found = await shown(harness)
        assert (found["sendMessageThreadPoolNums"], found["maxMessageSize"]) == ("8", "10")
        assert (await change(harness, "enablePopBufferMerge=false")).code == 0
        assert (await shown(harness))["enablePopBufferMerge"] == "false"


async def test_every_value_that_java_shows_of_a_key_without_effect_can_be_set(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = WITHOUT_EFFECT | {
        "logicalDiskSpaceCleanForciblyThreshold": "0.75",
        "metricsGrpcExporterTarget": "http://collector:4317",
        "metricsLabel": "instance:a,zone:b",
        "socksProxyConfig": '{"0.0.0.0/0":{"addr":"proxy:1080"}}',
    }
    wanted = {key: value for key, value in wanted.items() if key not in BLACK_LIST}
    async with serve() as harness:
        assert (await change(harness, "\n".join(f"{key}={value}" for key, value in wanted.items()))).code == 0
        assert wanted.items() <= (await shown(harness)).items()
    assert "without effect in this broker: accessMessageInMemoryHotRatio, " in caplog.text
    async with serve() as harness:
        assert wanted.items() <= (await shown(harness)).items()


async def test_texts_that_count_from_the_next_start_on_are_kept_for_it(serve: Serve) -> None:
    wanted = {
        "defaultMessageRequestMode": "POP", "messageDelayLevel": "1s 5s 1m", "msgTraceTopicName": "traces",
        "regionId": "eu-1",
    }  # fmt: skip
    async with serve() as harness:
        before = await shown(harness)
        answer = await change(harness, "\n".join(f"{key}={value}" for key, value in wanted.items()))
        assert (answer.code, answer.remark) == (0, f"kept for the next start: {', '.join(wanted)}")
        found = await shown(harness)
        assert next_start_settings(found) == wanted
        assert {key: found[key] for key in wanted} == {key: before[key] for key in wanted}
    async with serve() as harness:
        assert wanted.items() <= (await shown(harness)).items()


async def test_what_counts_from_the_next_start_on_is_kept_for_it_and_said_to_be(serve: Serve) -> None:
    async with serve() as harness:
        answer = await change(harness, "popPollingSize=7\nflushDiskType=SYNC_FLUSH\nmaxMessageSize=10")
        assert (answer.code, answer.remark) == (0, "kept for the next start: flushDiskType, popPollingSize")
        found = await shown(harness)
        assert (found["popPollingSize"], found["maxMessageSize"]) == ("1024", "10")
        assert found["keysOfTheNextStart"] == "flushDiskType:SYNC_FLUSH,popPollingSize:7"
        assert (await change(harness, "flushDiskType=NO_FLUSH")).code == 1
    async with serve() as harness:
        found = await shown(harness)
        assert (found["popPollingSize"], found["flushDiskType"]) == ("7", "SYNC_FLUSH")
        assert found["keysOfTheNextStart"] == ""


async def test_a_request_without_changes_changes_nothing_and_a_huge_one_is_not_read(harness: Any) -> None:
    assert (await change(harness, "")).code == 0
    assert (await change(harness, "#" * (PROPERTIES_SIZE_MAX + 1))).code == 1
    assert '"counter":0' in (await harness.ask(GetBrokerConfig())).ext_fields["version"]


async def test_a_file_that_cannot_be_written_refuses_the_change(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").mkdir()
    async with serve(broker_config_path=str(tmp_path / "broker.conf")) as harness:
        answer = await change(harness, "maxMessageSize=10")
        assert answer.code == 14
        assert "cannot be written" in answer.remark
        assert str(tmp_path) not in answer.remark
        assert (await shown(harness))["maxMessageSize"] == "4194304"


async def test_the_file_that_a_broker_was_given_keeps_the_change(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("# ours\nmaxMessageSize = 100\n")

    async with serve(broker_config_path=str(path)) as harness:
        assert (await change(harness, "maxMessageSize=10")).code == 0
    assert path.read_text() == "# ours\nmaxMessageSize=10\n"


async def test_no_group_is_held_back_and_who_asks_for_it_is_told(harness: Any) -> None:
    answer = await harness.ask(UpdateColdDataControl(), b"g=1000\n")
    assert answer.code == 1
    assert "coldDataFlowControlEnable" in answer.remark
    assert await harness.code(RemoveColdDataControl(), b"g") == 0
    found = orjson.loads((await harness.ask(GetColdDataControl())).body)
    java = orjson.loads(golden("2003-get-cold-data-flow-ctr-info-answer").body)
    assert found == java | {"configTable": {}}  # the golden one was taken while Java had a threshold


@each_case((0, 0), (1, 1), (2, 29), (-1, 29))
async def test_the_system_reads_ahead_as_it_likes(mode: int, code: int, harness: Any) -> None:
    assert await harness.code(SetCommitLogReadMode(mode=mode)) == code


async def test_there_is_nothing_to_compare(harness: Any) -> None:
    for topic in ("", "orders"):
        found = orjson.loads((await harness.ask(CheckRocksdbQueues(topic=topic, check_store_time=0))).body)
        assert found["checkStatus"] == 1
        assert "rocksdbCQWriteEnable is false" in found["checkResult"]
        # Java has not looked yet when it answers.
        java = orjson.loads(golden("354-check-rocksdb-cq-write-progress-answer").body)
        assert found.keys() == java.keys() | {"checkResult"}


@each_case(("topics", 0), ("topics;SubscriptionGroups;", 0), ("", 0), ("users", 1))
async def test_tables_are_json_files_already(named: str, code: int, harness: Any) -> None:
    answer = await harness.ask(ExportRocksdbTables(config_type=named))
    assert (answer.code, ("users" if code else "JSON files") in answer.remark) == (code, True)
