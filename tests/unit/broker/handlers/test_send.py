from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.handlers.send import send_batch, send_message, send_message_v2
from orbitmq.errors import Rejected
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.heartbeat import QueueLock, encode_queue_lock
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import LockQueues, SendBatch, SendMessage, SendMessageV2, SendResponse, UnlockQueues
from orbitmq.wire.messages.batch import encode_batch
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import iter_records

from ..conftest import send_header
from ..parts import FakePeer, Serve, call

ADDED = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


async def test_a_message_is_stored_as_sent_and_the_answer_says_where(harness: Any) -> None:
    answer = await harness.send(body=b"one", properties="TAGS\x01a\x02UNIQ_KEY\x01K1\x02", queue_id=2, flag=7)
    assert (answer.code, answer.ext_fields["MSG_REGION"]) == (0, "DefaultRegion")
    assert answer.ext_fields["TRACE_ON"] == "true"
    response = decode_header(SendResponse, answer.ext_fields)
    assert (response.queue_id, response.queue_offset, response.transaction_id) == (2, 0, "K1")
    host, physical_offset = parse_offset_message_id(response.message_id)
    assert str(host) == harness.broker.address

    _, (record,) = await harness.pull(queue_id=2)
    assert bytes(record.body) == b"one"
    assert (record.topic, record.flag, record.queue_offset) == ("t", 7, 0)
    assert (record.reconsume_times, record.prepared_transaction_offset) == (0, 0)
    assert (record.physical_offset, record.born_at_ms) == (physical_offset, 1_700_000_000_000)
    assert parse_properties(record.properties) == {"TAGS": "a", "UNIQ_KEY": "K1", **parse_properties(ADDED)}


@each_case(SendMessage, SendMessageV2, SendBatch)
async def test_a_send_that_waited_too_long_for_its_turn_is_refused_and_not_stored(
    header_type: Any, harness: Any
) -> None:
    assert await harness.code(send_header()) == 0
    tables, peer = harness.broker.service.sends.sending, FakePeer()
    header = header_type(**{field.name: getattr(send_header(), field.name) for field in fields(header_type)})
    handlers: dict[Any, Any] = {SendMessage: send_message, SendMessageV2: send_message_v2, SendBatch: send_batch}
    store, before = handlers[header_type], tables.stats.fast_failure_count
    body = encode_batch([(0, b"x", b"")]) if header_type is SendBatch else b"x"
    end = tables.store.max_physical_offset
    peer.waited_ms = 201
    with pytest.raises(Rejected, match=r"\[TIMEOUT_CLEAN_QUEUE\]broker busy.*201ms") as caught:
        store(tables, call(header, body, peer=peer))
    assert (caught.value.code, tables.stats.fast_failure_count) == (2, before + 1)
    assert tables.store.max_physical_offset == end
    peer.waited_ms = 200
    assert store(tables, call(header, body, peer=peer)).code == 0
    peer.waited_ms = 1 << 30
    assert store(replace(tables, wait_ms_max=None), call(header, body, peer=peer)).code == 0


@each_case(
    ("", ""),
    ("A\x01b", "A\x01b\x02"),
    ("WAIT\x01true\x02", "WAIT\x01true\x02"),
    ("CLUSTER\x01other\x02A\x01b\x02", "A\x01b\x02"),
    ("TRACE_ON\x01false\x02A\x01b\x02", "A\x01b\x02"),
    ("__CRC32#\x010123456789\x02A\x01b\x02", "A\x01b\x02"),
    ("CLUSTER\x01x\x02__CRC32#\x010123456789\x02", ""),
    ("DELAY\x010\x02", "DELAY\x010\x02"),
    ("K\x01ä€😀\x02", "K\x01ä€😀\x02"),
    ("CLUSTER\x01x\x02A\x01b\x01c\x02", "A\x01b\x01c\x02"),
)
async def test_stored_properties_are_the_senders_and_the_brokers(sent: str, kept: str, harness: Any) -> None:
    sent_to = await harness.answer(send_header(properties=sent), SendResponse, b"hello")
    _, (record,) = await harness.pull(queue_offset=sent_to.queue_offset)
    assert record.properties == kept.encode() + ADDED


async def test_the_old_form_with_long_names_is_the_same_send(harness: Any) -> None:
    header = SendMessage(
        producer_group="p", topic="old", default_topic="TBW102", default_topic_queue_nums=4, queue_id=1, sys_flag=0,
        born_at_ms=1, flag=0, properties="TAGS\x01x\x02",
    )  # fmt: skip
    assert (await harness.answer(header, SendResponse, b"body")).queue_id == 1
    _, records = await harness.pull("old", queue_id=1)
    assert [bytes(record.body) for record in records] == [b"body"]


async def test_a_batch_becomes_single_messages_with_their_own_keys(harness: Any) -> None:
    body = encode_batch([(1, b"a", b"UNIQ_KEY\x01A\x02"), (2, b"b", b"UNIQ_KEY\x01B\x02TAGS\x01x")])
    fields: dict[str, Any] = {"properties": "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02OWN\x01shared\x02", "batch": True}
    header = SendBatch(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_at_ms=1, flag=0, **fields,
    )  # fmt: skip
    response = await harness.answer(header, SendResponse, body)
    _, records = await harness.pull()
    offsets = [parse_offset_message_id(one)[1] for one in response.message_id.split(",")]
    assert offsets == [record.physical_offset for record in records]
    assert [(bytes(record.body), record.flag) for record in records] == [(b"a", 1), (b"b", 2)]
    assert [parse_properties(record.properties) for record in records] == [
        {"UNIQ_KEY": "A", "OWN": "shared", **parse_properties(ADDED)},
        {"UNIQ_KEY": "B", "TAGS": "x", "OWN": "shared", **parse_properties(ADDED)},
    ]
    stats = harness.broker.service.monitoring.stats
    assert (stats.put_count, stats.put_size) == (2, sum(record.size for record in records))
    assert await harness.code(header, b"") == 13
    assert await harness.code(header, body[:-1]) == 1
    for topic in ("%RETRY%g", "%DLQ%g"):
        assert await harness.code(replace(header, topic=topic), body) == 13
    assert (stats.put_count, stats.put_size) == (2, sum(record.size for record in records))
    assert harness.broker.service.store.max_offset("t", 0) == 2


async def test_an_automatic_topic_gets_the_lesser_number_of_queues_and_is_kept(serve: Serve) -> None:
    async with serve() as harness:
        await harness.send("new")
        config = harness.broker.service.tables.topics.get("new")
        assert (config.read_queue_count, config.write_queue_count, config.perm) == (4, 4, 6)
    async with serve() as harness:
        assert harness.broker.service.tables.topics.get("new") is not None
        assert (await harness.pull("new"))[1]


async def _is_refused(harness: Any, fields: dict[str, Any], code: int) -> None:
    answer = await harness.send(**fields)
    assert answer.code == code
    assert answer.remark
    assert harness.broker.service.monitoring.stats.put_count == 0


@each_case(
    ({"topic": "a/../../b"}, 29),
    ({"topic": "x" * 128}, 29),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16),
    ({"topic": "rmq_sys_REVIVE_LOG_DefaultCluster"}, 16),
    ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16),
    ({"topic": "rmq_sys_SYNC_BROKER_MEMBER_a"}, 16),
    ({"default_topic": "BenchmarkTest"}, 17),
    ({"topic": "BenchmarkTest", "queue_id": 1024}, 29),
    ({"properties": "A\x01b\x02TIMER_DELAY_SEC\x01three\x02"}, 13),
    ({"properties": "A\x01b\x02TIMER_DELIVER_MS\x019999999999999\x02"}, 13),
    ({"properties": "TRAN_MSG\x01true\x02"}, 13),
    ({"properties": "A\x01" + "x" * 32_767 + "\x02"}, 13),
    ({"properties": "DELAY\x013\x02A\x01" + "x" * 32_740 + "\x02"}, 13),
    ({"sys_flag": 4}, 13),
    ({"sys_flag": 8}, 13),
    ({"sys_flag": 0x80}, 13),
)
async def test_a_send_that_is_not_allowed_is_refused_with_its_code(
    fields: dict[str, Any], code: int, harness: Any
) -> None:
    await _is_refused(harness, fields, code)


async def test_a_send_that_the_settings_do_not_allow_is_refused_with_its_code(serve: Serve) -> None:
    async with serve(auto_create_topic_enable=False) as harness:
        await _is_refused(harness, {"topic": "new"}, 17)
    async with serve(broker_permission=4) as harness:
        await _is_refused(harness, {}, 16)
    async with serve(max_message_size=100) as harness:
        await _is_refused(harness, {"body": b"x" * 101}, 13)
        assert (await harness.send(body=b"x" * 100)).code == 0


async def test_a_negative_queue_id_leaves_the_choice_to_the_broker(harness: Any) -> None:
    harness.broker.service.context.random.seed(7)
    answers = [decode_header(SendResponse, (await harness.send(queue_id=-1)).ext_fields) for _ in range(60)]
    assert {answer.queue_id for answer in answers} == {0, 1, 2, 3}


async def test_a_message_retried_too_often_goes_to_the_dead_letters(harness: Any) -> None:
    assert (await harness.send("%RETRY%g", reconsume_times=16)).code == 0
    assert (await harness.send("%RETRY%g", reconsume_times=17, body=b"dead")).code == 0
    assert (await harness.send("%RETRY%g", reconsume_times=3, max_reconsume_times=2, body=b"dead too")).code == 0
    _, records = await harness.pull("%DLQ%g")
    assert [bytes(record.body) for record in records] == [b"dead", b"dead too"]
    assert len((await harness.pull("%RETRY%g"))[1]) == 1


async def test_a_dead_letter_does_not_wait_for_the_delay_that_its_consumer_asked_for(harness: Any) -> None:
    delayed = {"reconsume_times": 17, "properties": "DELAY\x0118\x02"}
    assert (await harness.send("%RETRY%g", **delayed, body=b"dead")).code == 0
    _, (record,) = await harness.pull("%DLQ%g")
    assert bytes(record.body) == b"dead"
    assert parse_properties(record.properties)["DELAY"] == "-1"
    assert (await harness.send("%DLQ%g", properties="DELAY\x0118\x02")).code == 0  # a client's own message
    assert len((await harness.pull("%DLQ%g"))[1]) == 1


async def test_what_a_group_sends_back_while_it_holds_locks_is_a_dead_letter(harness: Any) -> None:
    assert (await harness.send("%RETRY%g", reconsume_times=1)).code == 0
    lock = QueueLock(group="g", client_id="c1", queues=(MessageQueue("t", "broker-a", 0),))
    assert (await harness.ask(LockQueues(), encode_queue_lock(lock))).code == 0
    assert (await harness.send("%RETRY%g", reconsume_times=1, body=b"dead")).code == 0
    assert (await harness.send("%RETRY%g", body=b"never tried", properties="KEYS\x01k")).code == 0
    _, records = await harness.pull("%DLQ%g")
    assert [bytes(record.body) for record in records] == [b"dead", b"never tried"]
    assert [parse_properties(record.properties)["DELAY"] for record in records] == ["-1", "-1"]
    assert (await harness.ask(UnlockQueues(), encode_queue_lock(lock))).code == 0
    assert (await harness.send("%RETRY%g", reconsume_times=1)).code == 0
    assert len((await harness.pull("%RETRY%g"))[1]) == 2


async def test_sync_flush_answers_after_the_sync_and_in_order(serve: Serve) -> None:
    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        answers = await asyncio.gather(*[harness.send(body=b"%d" % number) for number in range(50)])
        store = harness.broker.service.store
        assert store.durable_offset == store.max_physical_offset
        assert [int(answer.ext_fields["queueOffset"]) for answer in answers] == list(range(50))
        _, records = await harness.pull(count_max=100)
        assert [bytes(record.body) for record in records] == [b"%d" % number for number in range(50)]


async def test_a_store_that_takes_nothing_answers_14(harness: Any) -> None:
    await harness.send()
    harness.broker.service.store._change(fault="the disk is gone")
    answer = await harness.send()
    assert answer.code == 14
    assert "disk" in answer.remark


async def test_pipelined_sends_of_one_connection_keep_their_order(harness: Any) -> None:

    def blast() -> list[int]:
        with BlockingConnection(harness.broker.address, timeout_ms=10_000) as connection:
            header = SendMessageV2(
                producer_group="p", topic="t", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
                sys_flag=0, born_at_ms=1, flag=0,
            )  # fmt: skip
            opaques = [connection.send(header, b"%d" % number) for number in range(200)]
            answers = [connection.receive(opaque) for opaque in opaques]
        return [int((answer.ext_fields or {})["queueOffset"]) for answer in answers]

    assert await asyncio.to_thread(blast) == list(range(200))
    answer, _ = await harness.pull(count_max=500)
    assert [bytes(record.body) for record in iter_records(answer.body)] == [b"%d" % number for number in range(200)]


async def test_sends_to_new_topics_share_writes_that_delay_no_other(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each topic was written by itself on the loop: some 45 in a second, and no other request was served."""
    threads: list[int] = []

    def note(path: Path, content: bytes) -> None:
        threads.append(get_ident())
        replace_file(path, content)

    async with serve() as harness:
        monkeypatch.setattr("orbitmq.broker.groups.table_file.replace_file", note)
        one, batch = harness.send, encode_batch([(0, b"x", b"")])
        sends = [one(f"new-{number}", body=b"%d" % number) for number in range(60)]
        sends += [one("new-7", body=b"second"), harness.ask(send_header("batched", batch=True), batch)]
        answers = await asyncio.gather(*sends)
        assert {answer.code for answer in answers} == {0}
        _, records = await harness.pull("new-7")
        assert [bytes(record.body) for record in records] == [b"7", b"second"], "in the order in which they were sent"
        assert (await one("a b")).code == 29
        assert (await one("other", default_topic="none")).code == 17
    assert len(threads) < 20
    assert get_ident() not in threads


async def test_a_send_to_a_new_topic_is_refused_while_the_disk_is_full(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    async with serve() as harness:
        with monkeypatch.context() as full:
            full.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
            answer = await harness.send("new")
            assert (answer.code, answer.remark) == (14, "the topic table cannot be saved: No space left on device")
            assert harness.broker.service.tables.topics.get("new") is None
        assert (await harness.send("new")).code == 0


@each_case((0, 0), (4, 13), (8, 13), (12, 13), (0x80, 13), (1, 0))
async def test_a_batch_with_bits_that_are_the_brokers_is_refused_and_never_acknowledged_without_a_reader(
    sys_flag: int, code: int, harness: Any
) -> None:

    store, batch = harness.broker.service.store, encode_batch([(0, b"x", b"")])
    before = store.max_offset("t", 0)
    assert await harness.code(send_header(batch=True, sys_flag=sys_flag), batch) == code
    assert store.max_offset("t", 0) - before == (code == 0)
