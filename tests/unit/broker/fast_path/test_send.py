from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.broker.fast_path import send as fast_send
from orbitmq.codes import RequestCode
from orbitmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.store.index.hashes import topic_hash
from orbitmq.store.index.keys import NOTED_SIZE_MAX, KeyReader, NotedKeys
from orbitmq.wire.command import Command, SerializeType, encode_command
from orbitmq.wire.messages.recall_handle import parse_recall_handle
from orbitmq.wire.messages.record import iter_records

from ..parts import Serve
from .support import exchange, exchange_together

FIELDS = {
    "a": "pg", "b": "TOPIC", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01K\x02WAIT\x01true\x02TAGS\x01a\x02", "j": "0", "k": "false", "m": "false", "n": "a",
}  # fmt: skip

HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x017F00\x02WAIT\x01true\x02TAGS\x01a\x02"

UNTIL = f"TIMER_DELIVER_MS\x01{int(time.time() + 7_200) * 1000}\x02"
"""Asks for a time that no test sees."""
WAITING = {HALF_TOPIC: 0, SCHEDULE_TOPIC: 17, TIMER_TOPIC: 0}
"""Where messages wait, by topic: the queue."""

VARIANTS: list[dict[str, Any]] = [
    {},
    {"e": "-1000"},
    {"e": "3", "h": "7", "f": "1"},
    {"e": "4"},
    {"e": "x"},
    {"e": None},
    {"a": None},
    {"c": None},
    {"d": None},
    {"d": "-1"},
    {"f": "4"},
    {"f": "128"},
    {"f": "16"},
    {"f": "99999999999"},
    {"g": None},
    {"g": "-5"},
    {"g": "99999999999999999999"},
    {"h": "-2147483648"},
    {"h": "2147483648"},
    {"i": None},
    {"i": ""},
    {"i": "A\x01b"},
    {"i": 'Q\x01"quo\\ted","j":"5"\x02'},
    {"i": "U\x01ä€😀\x02"},
    {"i": "C\x01\x07\x1f\x02"},
    {"i": "CLUSTER\x01x\x02"},
    {"i": "UNIQ_KEY\x01K1\x02"},
    {"i": "TAGS\x01a\x02UNIQ_KEY\x01K1"},
    {"i": "XUNIQ_KEY\x01K1\x02"},
    {"i": "UNIQ_KEY\x01K1\x02UNIQ_KEY\x01K2\x02"},
    {"i": 'UNIQ_KEY\x01K"1\x02'},
    {"i": "UNIQ_KEY\x01ä\x02"},
    {"i": "UNIQ_KEY\x01\x02"},
    {"i": "UNIQ_KEY\x01K1\x02KEYS\x01a b\x02"},
    {"i": "KEYS\x01a\x02"},
    {"i": "TRACE_ON\x01false\x02"},
    {"i": "DELAY\x010\x02"},
    {"i": f"{UNTIL}UNIQ_KEY\x01K\x02"},
    {"i": f"UNIQ_KEY\x01K\x02{UNTIL}", "e": "3", "f": "5"},
    {"i": UNTIL},
    {"i": f"{UNTIL}UNIQ_KEY\x01K\x02CLUSTER\x01x\x02KEYS\x01a b\x02"},
    {"i": UNTIL + "TIMER_OUT_MS\x015\x02UNIQ_KEY\x01K\x02"},
    {"i": UNTIL, "f": "4"},
    {"i": UNTIL, "l": "16"},
    {"i": "TIMER_DELIVER_MS\x011700000000000\x02UNIQ_KEY\x01K\x02"},
    {"i": "TIMER_DELIVER_MS\x0199999999999999\x02UNIQ_KEY\x01K\x02"},
    {"i": "TIMER_DELAY_MS\x01soon\x02UNIQ_KEY\x01K\x02"},
    {"i": UNTIL + "DELAY\x0118\x02"},
    {"i": "DELAY\x0118\x02UNIQ_KEY\x01K\x02"},
    {"i": "DELAY\x0199\x02", "e": "2"},
    {"i": "DELAY\x0118\x02", "b": "SCHEDULE_TOPIC_XXXX"},
    {"i": "DELAY\x01-1\x02"},
    {"i": "DELAY\x01x\x02"},
    {"i": "TRAN_MSG\x01true\x02"},
    {"i": HALF, "f": "4"},
    {"i": HALF, "e": "3", "f": "5"},
    {"i": HALF},
    {"i": HALF, "f": "8"},
    {"i": HALF, "f": "12"},
    {"i": HALF, "e": "4", "f": "4"},
    {"i": HALF, "f": "4", "b": "RMQ_SYS_TRANS_HALF_TOPIC"},
    {"i": HALF, "f": "4", "h": "9", "l": "16"},
    {"i": HALF.replace("true", "TRUE"), "f": "4"},
    {"i": HALF.replace("true", "false"), "f": "4"},
    {"i": HALF.replace("PGROUP", "GROUP"), "f": "4"},
    {"i": HALF + "TRAN_MSG\x01false\x02", "f": "4"},
    {"i": HALF + "DELAY\x013\x02", "f": "4"},
    {"i": HALF + "TIMER_DELAY_MS\x013000\x02", "f": "4"},
    {"i": HALF + "CLUSTER\x01x\x02A\x01\x02A\x01b\x02A\x01c", "f": "4"},
    {"i": HALF + "REAL_TOPIC\x01other\x02REAL_QID\x019\x02TRAN_RENEWED_FROM\x017\x02", "f": "4"},
    {"i": HALF.replace("UNIQ_KEY", "KEYS"), "f": "4"},
    {"i": HALF.replace("7F00", "7F 1"), "f": "4"},
    {"i": "XTRAN_MSG\x01true\x02PGROUP\x01p\x02", "f": "4"},
    {"i": HALF + "B\x01" + "x" * 32_600 + "\x02", "f": "4"},
    {"f": "4"},
    {"i": "A\x01" + "x" * 40_000},
    {"i": "A\x01" + "x" * 32_730 + "\x02"},
    {"j": None},
    {"j": "3"},
    {"k": None, "m": None, "n": None},
    {"l": "16"},
    {"l": "many"},
    {"m": "true"},
    {"b": "RMQ_SYS_TRANS_HALF_TOPIC"},
    {"b": "a b"},
    {"extra": "1"},
]


def header(topic: str, variant: dict[str, Any]) -> dict[str, str]:
    fields = FIELDS | {"b": topic} | variant
    return {name: value for name, value in fields.items() if value is not None}


def odd_frames(topic: str) -> list[bytes]:
    """Frames that `encode_command` does not write."""
    fields = header(topic, {})
    documents: list[dict[str, Any]] = [
        {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, "version": 479},
        {"code": 310, "opaque": 7, "flag": 0, "extFields": fields, "version": 479, "language": "GO"},
        {"code": 310, "extFields": fields | {"e": 2}, "flag": 0, "opaque": 7, "version": 479},
        {"code": 310, "extFields": fields, "flag": 0, "opaque": "7", "version": 479},
        {"code": 310, "extFields": fields, "opaque": 7},
        {"code": 310, "flag": 0, "opaque": 7, "version": 479},
        {"code": 310, "extFields": fields, "flag": 0, "opaque": -7, "version": 479},
    ]
    texts = [orjson.dumps(document) for document in documents]
    good = texts[0]
    texts += [
        good.replace(b'"b":"' + topic.encode(), b'"b":"nowhere","b":"' + topic.encode()),
        good.replace(b'"opaque":7', b'"b":"inside","opaque":7'),
        good.replace(b'"n":"a"', b'"n":"a","e":"2"'),
        good.replace(b'"flag":0', b'"flag" : 0'),
    ]
    return [frame(text) for text in texts]


def frame(text: bytes, body: bytes = b"body") -> bytes:
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def all_frames(topic: str) -> list[bytes]:
    frames = [
        encode_command(Command(RequestCode.SEND_MESSAGE_V2, 7, 0, None, header(topic, variant), b"body", "JAVA"))
        for variant in VARIANTS
    ]
    fields = header(topic, {})
    frames += odd_frames(topic)
    frames.append(encode_command(Command(310, 7, 0, None, fields, b"binary", serialize_type=SerializeType.ROCKETMQ)))
    frames.append(encode_command(Command(310, 7, 0, None, fields, b"")))
    return frames


def outcome(answer: Command, topic: str, waiting: dict[int, int]) -> tuple[Any, ...]:
    """Return what is the same on both ways.

    Args:
        waiting: how many of its kind came before, by the place of a message that waits: both ways share the topics for those.
    """
    fields = dict(answer.ext_fields or {})
    place = int(fields.pop("msgId", "0")[-16:], 16)
    if fields.get("queueId"):
        fields["queueId"] = "any"
    if place in waiting:
        fields["queueOffset"] = str(int(fields["queueOffset"]) - waiting[place])
    if "recallHandle" in fields:
        fields["recallHandle"] = str(parse_recall_handle(fields["recallHandle"])).replace(topic, "TOPIC")
    return answer.code, (answer.remark or "").replace(topic, "TOPIC"), fields, answer.opaque, answer.serialize_type


async def test_the_fast_path_stores_and_answers_what_the_slow_path_does(harness: Any) -> None:
    """Every variant goes both ways; answers and records must agree, whatever the verdict."""

    service, fast_path = harness.broker.service, harness.broker.running.fast_path
    seen: dict[str, tuple[list[Any], list[Any], list[Any], int]] = {}
    for topic in ("fast", "long"):
        await harness.send(topic, queue_id=0)
        service.context.random.seed(1)
        fast_path.is_open = topic == "fast"
        counts = {name: service.store.max_offset(name, queue_id) for name, queue_id in WAITING.items()}
        frames = all_frames(topic) * 3  # a form is known from the third time on
        answers = await asyncio.to_thread(exchange, harness.broker.address, frames)
        fast_path.is_open = True
        records = []
        for queue_id in range(4):
            result = service.store.read(topic, queue_id, 0, 1000, 1 << 20)
            records += [
                (one.queue_id, one.flag, one.sys_flag, one.born_at_ms, bytes(one.body), one.properties)
                for one in iter_records(result.body)
            ]
        waiting, places = [], {}
        for name, queue_id in WAITING.items():
            found = list(iter_records(service.store.read(name, queue_id, counts[name], 1000, 1 << 20).body))
            places |= {one.physical_offset: counts[name] for one in found}
            waiting += [
                (name, one.flag, one.sys_flag, one.born_at_ms, one.born_host.ip, bytes(one.body), one.properties)
                for one in (one._replace(properties=one.properties.replace(topic.encode(), b"TOPIC")) for one in found)
            ]
        outcomes = [outcome(answer, topic, places) for answer in answers]
        seen[topic] = outcomes, records, waiting, service.sends.transactions.counts.open[topic]
    assert seen["fast"] == seen["long"]
    assert len(seen["fast"][1]) > 15
    kinds = Counter(name for name, *_ in seen["fast"][2])
    assert kinds[HALF_TOPIC] == seen["fast"][3] > 8
    assert min(kinds[SCHEDULE_TOPIC], kinds[TIMER_TOPIC]) > 2


async def test_a_noted_key_is_what_would_be_read_from_the_log(harness: Any) -> None:
    await harness.send("t")
    store = harness.broker.service.store
    noted: list[NotedKeys] = []
    store.note_key = noted.append
    await asyncio.to_thread(exchange, harness.broker.address, all_frames("t") * 3)  # forms are known from the third on
    assert len(noted) > 45
    assert any(words for *_, words in noted)
    for one in noted:
        place, size, _stored_at_ms, topic, key, _words = one
        read, taken = KeyReader(), KeyReader()
        assert read.read(store.record_at(place), place, 10) == size
        assert taken.take_noted([one], place, place + size) == (1, size)
        assert (read.keys[0], read.starts[0]) == (key, topic_hash(topic))
        assert vars(taken) | {"_topics": {}} == vars(read) | {"_topics": {}}


async def test_a_key_that_takes_long_to_hash_is_not_noted(harness: Any) -> None:
    await harness.send("t")
    noted: list[NotedKeys] = []
    harness.broker.service.store.note_key = noted.append
    keys = ["K" * NOTED_SIZE_MAX, "K" * (NOTED_SIZE_MAX + 1), "K" * 30_000]
    frames = [
        encode_command(Command(310, number, 0, None, header("t", {"i": f"UNIQ_KEY\x01{key}\x02"}), b"x", "JAVA"))
        for number, key in enumerate(keys)
    ]
    connection = next(iter(harness.broker.running.server.connections))
    answers: list[bytes] = []
    data = b"".join(frames)
    assert harness.broker.running.fast_path.answer(data, answers, connection) == len(data)
    assert [key.decode() for *_, key, _words in noted] == keys[:1]


async def test_plain_sends_go_the_fast_path(harness: Any) -> None:
    await harness.send("t")
    fast_path, connection = harness.broker.running.fast_path, next(iter(harness.broker.running.server.connections))
    one = encode_command(Command(310, 9, 0, None, header("t", {}), b"body", "JAVA"))
    answers: list[bytes] = []
    assert fast_path.answer(one * 3, answers, connection) == 3 * len(one)
    assert len(answers) == 3
    assert fast_path.answer(one + one[:-1], answers, connection) == len(one)
    assert fast_path.answer(one[:-1], answers, connection) == 0
    service = harness.broker.service
    assert service.monitoring.stats.put_count == 5
    assert service.monitoring.stats.put_size == service.store.max_physical_offset
    assert harness.broker.running.server.counters.requests[310] == 5


async def test_half_messages_go_the_fast_path(harness: Any) -> None:
    await harness.send("t")
    fast_path, connection = harness.broker.running.fast_path, next(iter(harness.broker.running.server.connections))
    one = encode_command(Command(310, 9, 0, None, header("t", {"i": HALF, "f": "4"}), b"body", "JAVA"))
    assert fast_path.answer(one * 3, [], connection) == 3 * len(one)
    service = harness.broker.service
    assert service.sends.transactions.counts.open == {"t": 3}
    assert service.store.max_offset(HALF_TOPIC, 0) == 3


@each_case(f"{UNTIL}UNIQ_KEY\x01K\x02", "DELAY\x0118\x02")
async def test_messages_that_wait_for_a_time_go_the_fast_path(properties: str, harness: Any) -> None:
    await harness.send("t")
    store = harness.broker.service.store

    def waiting() -> int:
        return sum(store.max_offset(name, queue_id) for name, queue_id in WAITING.items())

    before = waiting()
    fast_path, connection = harness.broker.running.fast_path, next(iter(harness.broker.running.server.connections))
    one = encode_command(Command(310, 9, 0, None, header("t", {"i": properties}), b"body", "JAVA"))
    assert fast_path.answer(one * 3, [], connection) == 3 * len(one)
    assert waiting() == before + 3


@pytest.mark.parametrize(("properties", "flag", "count"), [("TAGS\x01a\x02", "0", 256), (HALF, "4", 253)])
async def test_a_read_has_room_for_so_many_sends_and_the_slow_path_serves_the_others(
    harness: Any, properties: str, flag: str, count: int
) -> None:

    await harness.send("t")
    fast_path, connection = harness.broker.running.fast_path, next(iter(harness.broker.running.server.connections))
    one = encode_command(Command(310, 9, 0, None, header("t", {"i": properties, "f": flag}), b"body", "JAVA"))
    answers: list[bytes] = []
    assert fast_path.answer(one * (count + 9), answers, connection) == count * len(one)
    assert len(answers) == count
    got = await asyncio.to_thread(exchange_together, harness.broker.address, [one] * (count + 9))
    assert [(answer.code, answer.opaque) for answer in got] == [(0, 9)] * (count + 9)


async def test_an_unforeseen_failure_is_answered_and_takes_no_answers_of_others_with_it(harness: Any) -> None:
    await harness.send("t")
    store = harness.broker.service.store
    append, left = store.append, [2]

    def fail(*arguments: Any) -> Any:
        if not left[0]:
            raise RuntimeError("odd")
        left[0] -= 1
        return append(*arguments)

    store.append = fail
    frames = [encode_command(Command(310, number, 0, None, header("t", {}), b"", "JAVA")) for number in range(4)]
    got = await asyncio.to_thread(exchange_together, harness.broker.address, frames)
    store.append = append
    assert [(answer.code, answer.opaque) for answer in got] == [(0, 0), (0, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize("properties", ["", "DELAY\x0118\x02"])
@pytest.mark.parametrize("where", ["note_key", "append"])
async def test_a_message_whose_answer_fails_after_it_was_stored_is_stored_once(
    harness: Any, monkeypatch: pytest.MonkeyPatch, properties: str, where: str
) -> None:
    await harness.send("t")
    store = harness.broker.service.store
    append = store.append

    def stores_and_fails(*arguments: Any) -> Any:
        append(*arguments)
        raise RuntimeError("odd")

    def fails(*_: Any) -> Any:
        raise RuntimeError("odd")

    if where == "append":
        monkeypatch.setattr(store, "append", stores_and_fails)
    else:
        monkeypatch.setattr(fast_send, "note_waiting", fails)
        monkeypatch.setattr(store, "note_key", fails)
    end = store.max_physical_offset
    frame = encode_command(
        Command(310, 1, 0, None, header("t", {"i": "UNIQ_KEY\x01k\x02" + properties}), b"once", "JAVA")
    )
    (answer,) = await asyncio.to_thread(exchange_together, harness.broker.address, [frame])
    assert (answer.code, answer.remark) == (1, "RuntimeError: odd")
    assert store.read_raw(end, store.max_physical_offset - end).count(b"once") == 1


async def test_the_fast_path_forgets_a_topic_when_it_changes(harness: Any) -> None:
    assert (await harness.send("t", queue_id=3)).code == 0
    service = harness.broker.service
    config = service.tables.topics.get("t")
    import dataclasses

    service.tables.topics.table.update(dataclasses.replace(config, read_queue_count=2, write_queue_count=2), now_ms=1)
    assert (await harness.send("t", queue_id=3)).code == 29
    service.tables.topics.table.update(dataclasses.replace(config, perm=4), now_ms=1)
    assert (await harness.send("t", queue_id=1)).code == 16
    service.tables.topics.table.delete("t", now_ms=2)
    assert (await harness.send("t", queue_id=1, default_topic="none")).code == 17


async def test_held_answers_of_a_failed_sync_say_so_and_never_ok(serve: Serve) -> None:
    """Upstream #2706: the sync failed, SEND_OK was answered."""

    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        assert (await harness.send("t")).code == 0
        store = harness.broker.service.store

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        store._commit_log.log.segments[-1].file.sync = fail
        answers = await asyncio.gather(harness.send("t"), harness.send("t"))
        assert [answer.code for answer in answers] == [14, 14]
        assert (await harness.send("t")).code == 14
