"""Queries of messages, and of run-time values."""

from __future__ import annotations

from typing import Any

import orjson

from cases import each_case
from golden import golden
from orbitmq.broker.delivery.delay import parse_delay_offsets
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetAllDelayOffsets,
    GetBrokerRuntimeInfo,
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageResponse,
    ViewMessage,
)
from orbitmq.wire.messages.record import Record, iter_records, parse_record

from ..parts import Serve


def query(key: str, **fields: Any) -> QueryMessage:
    settings: dict[str, Any] = {"topic": "t", "count_max": 64, "begin_ms": 0, "end_ms": 2**63 - 1}
    return QueryMessage(**{**settings, "key": key, **fields})


def keyed(number: int, keys: str) -> str:
    return f"UNIQ_KEY\x01U{number}\x02KEYS\x01{keys}\x02"


async def test_a_message_is_found_by_its_place(harness: Any) -> None:
    await harness.send(body=b"here")
    for topic in (None, "t", "another"):
        record = parse_record((await harness.ask(ViewMessage(physical_offset=0, topic=topic))).body)
        assert isinstance(record, Record)
        assert bytes(record.body) == b"here"
    assert await harness.code(ViewMessage(physical_offset=5)) == 1
    assert await harness.code(ViewMessage(physical_offset=-5)) == 1
    assert await harness.code(ViewMessage(physical_offset=2**62)) == 1


async def test_messages_are_found_by_key_and_by_unique_key_right_after_they_were_answered(harness: Any) -> None:
    for number in range(40):
        await harness.send(body=b"%d" % number, properties=keyed(number, f"all k{number % 2}"), queue_id=number % 4)
        answer = await harness.ask(query(f"U{number}", count_max=1, is_unique_key=True))
        assert [bytes(record.body) for record in iter_records(answer.body)] == [b"%d" % number]
    answer = await harness.ask(query("k1"))
    assert [int(bytes(record.body)) for record in iter_records(answer.body)] == list(range(1, 40, 2))
    header = decode_header(QueryMessageResponse, answer.ext_fields)
    *_, last = iter_records((await harness.ask(query("U39"))).body)
    assert (header.index_end_ms, header.index_end_offset) == (last.stored_at_ms, last.physical_offset)


async def test_an_answer_has_as_many_messages_as_asked_for_and_as_allowed(serve: Serve) -> None:
    async with serve(max_msgs_num_batch=7, default_query_max_num=5) as harness:
        for number in range(9):
            await harness.send(properties=keyed(number, "all"))

        async def count(**fields: Any) -> int:
            return len(list(iter_records((await harness.ask(query("all", **fields))).body)))

        assert await count(count_max=2) == 2
        assert await count(count_max=2**31 - 1) == 7
        assert await count(count_max=1, is_unique_key=True) == 5
        assert await count(count_max=1, is_unique_key=False) == 1


@each_case({"key": "none"}, {"topic": "other"}, {"end_ms": 1}, {"begin_ms": 2**62}, {"count_max": 0}, {"key": ""})
async def test_what_is_not_there_is_answered_with_22(fields: dict[str, Any], harness: Any) -> None:
    await harness.send(properties=keyed(1, "k"))
    answer = await harness.ask(query(**{"key": "k", **fields}))
    assert (answer.code, answer.remark) == (22, "can not find message, maybe time range not correct")
    assert decode_header(QueryMessageResponse, answer.ext_fields) == QueryMessageResponse(
        index_end_ms=0, index_end_offset=0
    )


async def test_hostile_questions_get_an_answer(harness: Any) -> None:
    await harness.send(properties=keyed(1, "k"))
    refused = await harness.ask(query("k", count_max=-1))
    assert (refused.code, refused.remark) == (1, "maxNum -1 is not allowed, expected 0 or more")
    assert await harness.code(query("x" * 30_000)) == 22
    assert await harness.code(query("k", begin_ms=-(2**63), end_ms=-(2**63))) == 22
    assert await harness.code(query("k", begin_ms=-(2**63))) == 0


async def test_without_an_index_the_refusal_says_so(serve: Serve) -> None:
    async with serve(message_index_enable=False) as harness:
        await harness.send(properties=keyed(1, "k"))
        refused = await harness.ask(query("k"))
        assert refused.code == 1
        assert "messageIndexEnable" in refused.remark


async def test_entries_of_a_queue_are_shown_as_they_are(harness: Any) -> None:
    for _ in range(5):
        await harness.send(properties="TAGS\x01red\x02", queue_id=1)
    answer = await harness.ask(QueryConsumeQueue(topic="t", queue_id=1, index=1, count=2))
    document = orjson.loads(answer.body)
    assert (document["minQueueIndex"], document["maxQueueIndex"]) == (0, 5)
    assert len(document["queueData"]) == 2
    for entry in document["queueData"]:
        record = parse_record((await harness.ask(ViewMessage(physical_offset=entry["physicOffset"]))).body)
        assert (record.size, entry["tagsCode"], entry["eval"]) == (entry["physicSize"], 112785, False)
    asked = QueryConsumeQueue(topic="t", queue_id=1, index=0, count=2**31 - 1, consumer_group="g")
    document = orjson.loads((await harness.ask(asked)).body)
    assert (len(document["queueData"]), document["filterData"]) == (5, "g@t is not online!")


@each_case(-1, 1, 2**62)
async def test_entries_that_are_not_there_are_told_without_an_error(index: int, harness: Any) -> None:
    if harness.broker.service.tables.topics.get("t") is None:
        await harness.send(queue_id=1)
    answer = await harness.ask(QueryConsumeQueue(topic="t", queue_id=1, index=index, count=2))
    assert (answer.code, answer.remark, answer.body) == (0, f"Index {index} of 1@t is not exist!", b"")
    answer = await harness.ask(QueryConsumeQueue(topic="t", queue_id=1, index=0, count=-5))
    assert orjson.loads(answer.body)["queueData"] == []
    refused = await harness.ask(QueryConsumeQueue(topic="t", queue_id=77, index=0, count=1))
    assert (refused.code, refused.remark) == (1, "77@t is not exist!")


async def test_run_time_values_are_those_that_cluster_list_reads(harness: Any) -> None:
    await harness.send("t", body=b"x" * 10)
    values = decode_kv_table((await harness.ask(GetBrokerRuntimeInfo())).body)
    assert values["brokerVersionDesc"] == "V5_3_3"
    assert len(values["putTps"].split(" ")) == 3
    assert values["msgPutTotalTodayNow"] == "1"
    assert int(values["earliestMessageTimeStamp"]) > 0
    assert 0 <= float(values["commitLogDiskRatio"]) <= 1
    assert values["sendThreadPoolQueueSize"] == "0"


async def test_a_code_that_is_not_there_answers_3(harness: Any) -> None:
    answer = await harness.pool.request(harness.broker.address, GetBrokerRuntimeInfo(), code=902)
    assert answer.code == 3
    assert "902 not supported" in answer.remark


async def test_delay_levels_that_were_used_are_told(harness: Any) -> None:
    assert b'"offsetTable":{}' in (await harness.ask(GetAllDelayOffsets())).body
    await harness.send("t", properties="DELAY\x013\x02")
    body = (await harness.ask(GetAllDelayOffsets())).body
    assert b'"offsetTable":{3:0}' in body
    assert parse_delay_offsets(body)[0] == {3: 0}


async def test_every_run_time_value_that_java_has_is_there(serve: Serve) -> None:
    def named(values: dict[str, str]) -> set[str]:
        return {name.partition("/")[0] for name in values}  # one key ends with a path

    async with serve() as harness:
        for level in (1, 3):
            await harness.send("t", properties=f"DELAY\x01{level}\x02")
        values = decode_kv_table((await harness.ask(GetBrokerRuntimeInfo())).body)
        assert named(decode_kv_table(golden("28-get-broker-runtime-info-answer").body)) - named(values) == set()
        assert values["scheduleMessageOffset_3"] == "0,1"
        assert all(float(values[name].split(":")[-1]) == 0 for name in values["notMeasured"].split(","))
