"""The columnar decoder says of any records what the loop over `wire.messages.record` says of them."""

from __future__ import annotations

import re
import sys
import zlib
from contextlib import suppress
from dataclasses import replace
from struct import pack_into
from subprocess import run
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import BODY_SIZE_MAX, Host, SysFlag
from orbitmq.spark.reading import record_batches as record_columns
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.record_batches import decode_records, parse_records
from orbitmq.spark.schema import COLUMN_NAMES, arrow_schema
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import BODY_AT, format_record, iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message
from seeds import examples

COMPRESSED_ZLIB = 0x301
TIMES = ("bornTimestamp", "storeTimestamp")

hosts = st.builds(
    Host, st.sampled_from(["127.0.0.1", "10.0.0.255", "255.1.2.3", "::1", "fe80::1"]), st.integers(0, 65535)
)
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "b", "ключ", "", "\x01"])
values = st.one_of(st.sampled_from(["", "x", "a b", "\x01", "é中🦜"]), st.text(max_size=6))
properties = st.one_of(
    st.lists(st.tuples(names, values), max_size=6).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode(errors="replace")
    ),
    st.lists(st.sampled_from([b"a", b"\x01", b"\x02", b"TAGS", b"v", b"\xff"]), max_size=12).map(b"".join),
)
records = st.builds(
    lambda body, is_compressed, **fields: format_record(
        body=zlib.compress(body) if is_compressed else body, sys_flag=COMPRESSED_ZLIB if is_compressed else 0, **fields
    ),
    body=st.binary(max_size=40),
    is_compressed=st.booleans(),
    topic=st.sampled_from(["orders", "t" * 127, "%RETRY%" + "g" * 121, "t" * 300]),
    properties=properties,
    queue_id=st.integers(0, 2**31 - 1),
    queue_offset=st.integers(0, 2**63 - 1),
    physical_offset=st.integers(0, 2**63 - 1),
    flag=st.integers(-(2**31), 2**31 - 1),
    born_at_ms=st.integers(0, 4_000_000_000_000),
    born_host=hosts,
    stored_at_ms=st.integers(0, 4_000_000_000_000),
    store_host=hosts,
    reconsume_times=st.integers(0, 16),
)


def record(body: bytes = b"hello", properties: bytes = b"TAGS\x01new\x02", **fields: Any) -> bytes:
    return format_record(topic="orders", body=body, properties=properties, **fields)


def loop_decoded(raw: bytes, broker_name: str) -> list[dict[str, Any]]:
    """Return the rows that `raw` means, one record at a time; text that is no UTF-8 becomes replacement characters."""
    rows = []
    for found in iter_records(raw):
        readable = bytes(found.properties).decode(errors="replace")
        message = to_stored_message(found._replace(properties=b""), broker_name)
        message = replace(message, properties=parse_properties(readable))
        rows.append(
            {
                "topic": message.topic,
                "body": message.body,
                "properties": dict(message.properties),
                "brokerName": message.broker_name,
                "queueId": message.queue_id,
                "queueOffset": message.queue_offset,
                "bornTimestamp": message.born_at_ms,
                "storeTimestamp": message.stored_at_ms,
                "tags": message.tag,
                "keys": message.properties.get("KEYS"),
                "msgId": message.message_id or offset_message_id(message.store_host, message.physical_offset),
                "flag": message.flag,
                "reconsumeTimes": message.reconsume_times,
                "bornHost": str(message.born_host),
                "storeHost": str(message.store_host),
            }
        )
    return rows


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        batch.validate(full=True)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns |= {name: columns[name].cast(pa.int64()) for name in TIMES if name in columns}
        rows += pa.RecordBatch.from_pydict(columns).to_pylist()
    for row in rows:
        if "properties" in row:
            assert len(row["properties"]) == len(dict(row["properties"])), "a name twice in one map"
            row["properties"] = dict(row["properties"])
        row |= {name: row[name] // 1000 for name in TIMES if name in row}
    return rows


@settings(max_examples=examples(200))
@given(st.lists(records, max_size=12).map(b"".join))
def test_it_reads_any_records_as_the_loop_does(raw):
    batches = list(decode_records(raw, COLUMN_NAMES, broker_name="broker-a"))

    assert rows_of(batches) == loop_decoded(raw, "broker-a")
    assert all(batch.schema.equals(arrow_schema(COLUMN_NAMES)) for batch in batches)


@given(st.lists(records, min_size=1, max_size=6).map(b"".join), st.sets(st.sampled_from(COLUMN_NAMES), min_size=1))
def test_it_reads_only_the_columns_asked_for(raw, names):
    batches = list(decode_records(raw, sorted(names), broker_name="b"))

    assert rows_of(batches) == [{name: row[name] for name in sorted(names)} for row in loop_decoded(raw, "b")]


def test_a_column_that_messages_do_not_have_is_named():
    with pytest.raises(InvalidArgument, match="column: 'offset'"):
        parse_records(record()).column("offset", "")


def test_records_outside_the_range_are_left_out():
    raw = b"".join(record(queue_offset=offset) for offset in range(10))

    batches = list(decode_records(raw, ["queueOffset"], queue_offset_min=3, queue_offset_end=7))

    assert [row["queueOffset"] for row in rows_of(batches)] == [3, 4, 5, 6]


def test_a_tag_that_only_shares_its_hash_is_left_out():
    raw = b"".join(record(tag.encode(), f"TAGS\x01{tag}\x02".encode()) for tag in ("AaAa", "BBBB", "Aa")) + record(
        properties=b""
    )

    assert rows_of(list(decode_records(raw, ["body"], tags=frozenset({"AaAa"})))) == [{"body": b"AaAa"}]


@pytest.mark.real
def test_what_costs_a_worker_150_ms_is_not_imported():
    raw = b"".join(record(born_host=Host("10.0.0.1", port)) for port in (1, 2))
    program = f"""
import sys
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.record_batches import decode_records
from orbitmq.spark.schema import COLUMN_NAMES
(batch,) = decode_records({raw!r}, COLUMN_NAMES, broker_name="b")
print(batch.num_rows, "pandas" in sys.modules)
"""
    found = run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2", "False"]


def test_nothing_in_gives_nothing_out():
    assert list(decode_records(b"", COLUMN_NAMES)) == []


def test_bodies_that_decompress_to_much_come_in_several_batches(monkeypatch):
    monkeypatch.setattr(record_columns, "DECOMPRESSED_SIZE_MAX", 1000)
    plain = [bytes([65 + n]) * 600 for n in range(12)]
    raw = b"".join(
        record(zlib.compress(body), sys_flag=COMPRESSED_ZLIB) if n % 3 else record(body) for n, body in enumerate(plain)
    )

    batches = list(decode_records(raw, ["body"]))

    assert len(batches) > 2
    assert [row["body"] for row in rows_of(batches)] == plain


@given(records, st.data())
def test_bytes_that_are_cut_short_are_refused(raw, data):
    cut = data.draw(st.integers(1, len(raw) - 1))

    with pytest.raises(CorruptRecord):
        list(decode_records(raw[:cut], COLUMN_NAMES))


@each_case(
    (b"\0\0", "2 bytes are left"),
    (record()[:90], "90 bytes are left"),
    (record()[:-1], "ends 1 bytes after its answer"),
    (b"\0\0\0\x5a" + bytes(91), "a size of 90 bytes"),
)
def test_bytes_behind_a_whole_record_that_are_none_are_refused_with_the_reason(rest, told):
    with pytest.raises(CorruptRecord, match=told):
        list(decode_records(record() + rest, COLUMN_NAMES))


@settings(max_examples=examples(200))
@given(st.lists(records, min_size=1, max_size=3).map(b"".join), st.data())
def test_flipped_bytes_are_read_or_refused_and_never_anything_else(raw, data):
    damaged = bytearray(raw)
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))

    with suppress(CorruptRecord):
        for batch in decode_records(bytes(damaged), COLUMN_NAMES):
            batch.validate(full=True)


@each_case((0, 5), (0, -1), (0, 1 << 30), (4, 7), (84, 1 << 20), (84, -4))
def test_a_length_or_magic_that_makes_no_sense_is_refused(at, value):
    raw = bytearray(record() + record())
    pack_into(">i", raw, at, value)

    with pytest.raises(CorruptRecord):
        list(decode_records(bytes(raw), COLUMN_NAMES))


@each_case(SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6)
def test_a_record_that_has_no_room_for_its_hosts_is_refused(flag):
    raw = bytearray(format_record(topic="", body=b"", physical_offset=777))
    pack_into(">i", raw, 36, flag)

    with pytest.raises(CorruptRecord, match="777: the record is too short for its hosts"):
        list(decode_records(bytes(raw), COLUMN_NAMES))


@each_case((6, 6, 0, "topic"), (7, 6, 0, "topic"), (12, 6, 0, "body"), (5, 7, 0, "topic"), (5, 6, 1, "properties"))
def test_a_length_that_leads_out_of_its_record_is_refused_by_what_it_belongs_to(
    body_size, topic_size, properties_size, told
):
    raw = bytearray(format_record(topic="orders", body=b"\x06" * 5))
    pack_into(">i", raw, 84, body_size)
    raw[88 + 5] = topic_size
    raw[-1] = properties_size

    with pytest.raises(CorruptRecord, match=f"the {told} leads? out of the record"):
        list(decode_records(bytes(raw), COLUMN_NAMES))


BODY_AND_ERROR = ["queueOffset", "body", "decodeError"]


def bomb() -> bytes:
    return zlib.compress(bytes(BODY_SIZE_MAX + 65 * 1024))


@pytest.mark.parametrize(
    ("stored", "reason"),
    [(b"not zlib", "ZLIB data"), (zlib.compress(b"cut short")[:-3], "cut short"), (bomb(), "at most .* decompressed")],
    ids=["garbage", "cut", "bomb"],
)
@pytest.mark.parametrize("fails", [True, False])
def test_a_body_that_cannot_be_decompressed_stays_as_it_was_stored_and_says_why(stored, reason, fails):
    sent = [(zlib.compress(b"one"), COMPRESSED_ZLIB), (stored, COMPRESSED_ZLIB), (b"three", 0)]
    raw = b"".join(record(body, sys_flag=flag, queue_offset=n) for n, (body, flag) in enumerate(sent))

    rows = rows_of(list(decode_records(raw, BODY_AND_ERROR, fails=fails)))

    assert [row["body"] for row in rows] == [b"one", stored, b"three"]
    assert [row["decodeError"] is None for row in rows] == [True, False, True]
    assert re.search(reason, rows[1]["decodeError"])


def test_errors_keep_to_their_rows_where_bodies_come_in_several_batches(monkeypatch):
    monkeypatch.setattr(record_columns, "DECOMPRESSED_SIZE_MAX", 1000)
    stored = [zlib.compress(bytes([65 + n]) * 600) if n % 5 else b"?" * n for n in range(20)]
    raw = b"".join(record(body, sys_flag=COMPRESSED_ZLIB, queue_offset=n) for n, body in enumerate(stored))

    batches = list(decode_records(raw, BODY_AND_ERROR))

    assert len(batches) > 2
    assert [row["queueOffset"] for row in rows_of(batches) if row["decodeError"]] == [0, 5, 10, 15]
    assert [row["body"] for row in rows_of(batches) if row["decodeError"]] == [b"?" * n for n in (0, 5, 10, 15)]


def test_the_reason_that_a_consumer_has_put_into_a_dead_letter_is_its_rows():
    raw = record() + record(properties=b"DECODE_ERROR\x01the body's checksum does not match\x02")
    assert [row["decodeError"] for row in rows_of(list(decode_records(raw, ["decodeError"])))] == [
        None,
        "the body's checksum does not match",
    ]


def with_changed_body(**fields: Any) -> bytes:
    raw = bytearray(record(b"hello", queue_id=3, queue_offset=77, **fields))
    raw[BODY_AT] ^= 1
    return bytes(raw)


def test_a_body_that_has_changed_since_it_was_stored_fails_with_its_place():
    with pytest.raises(DataLoss, match=r"offset 77 of queue 3 of topic orders on b: .*checksum .*failOnDataLoss"):
        list(decode_records(record() + with_changed_body(), ["body"], broker_name="b", fails=True))


@pytest.mark.parametrize("fails", [True, False])
def test_a_body_that_has_changed_since_it_was_stored_says_so_in_its_row(caplog, fails):
    raw = record() + with_changed_body()
    (one, two) = rows_of(list(decode_records(raw, BODY_AND_ERROR, broker_name="b", fails=fails)))

    assert (one["body"], one["decodeError"]) == (b"hello", None)
    assert two["body"] == b"iello"
    assert "checksum" in two["decodeError"]
    assert "offset 77 of queue 3 of topic orders on b" in caplog.text


def test_a_body_is_not_touched_where_no_column_and_no_tag_needs_it():
    damaged = with_changed_body() + record(b"not zlib", b"TAGS\x01old\x02", sys_flag=COMPRESSED_ZLIB, queue_offset=78)

    rows = rows_of(list(decode_records(damaged, ["queueOffset", "tags"], fails=True)))
    assert [row["queueOffset"] for row in rows] == [77, 78]
    assert rows_of(list(decode_records(with_changed_body(), ["body"], tags=frozenset({"old"}), fails=True))) == []


@each_case(2**63 - 1, -(2**63), 253_402_300_800_000, -62_135_596_800_001)
def test_times_that_no_calendar_has_are_null_and_others_stay(far):
    raw = b"".join(record(born_at_ms=ms, stored_at_ms=ms) for ms in (far, 1_700_000_000_123))
    (batch,) = decode_records(raw, TIMES)
    for name in TIMES:
        one, other = batch.column(name).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()
        assert (one, other) == (None, 1_700_000_000_123)
