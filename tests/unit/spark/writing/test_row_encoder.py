"""Rows that are encoded together are, byte for byte, the messages that are made of them one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.client.send.batch import batch_body
from orbitmq.client.send.request import COMPRESS_OVER, encode_message
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.schema import PROPERTIES
from orbitmq.spark.writing.messages import ROW_ID, MessageBuilder
from orbitmq.spark.writing.row_encoder import RowEncoder, cut, plain_rows, sharding_keys
from orbitmq.wire.messages.batch import parse_batch
from orbitmq.wire.messages.message_id import UniqueKeys

OPTIONS = WriteOptions(name_servers=("h:1",), topic="orders")
NOW_MS = 1_700_000_000_000
TYPES = {
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": PROPERTIES,
    "shardingKey": pa.string(),
    "flag": pa.int64(),
}

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
names = st.one_of(st.sampled_from(("TAGS", "KEYS", "__SHARDINGKEY", "UNIQ_KEY", "DELAY", ROW_ID, "own")), texts)
rows_of_all_kinds = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=20),
        "tags": st.none() | texts,
        "keys": st.none() | st.text(" ab\t\n\u3000", max_size=6),
        "properties": st.none()
        | st.dictionaries(names, st.none() | texts, max_size=4).map(lambda each: list(each.items())),
        "shardingKey": st.none() | texts,
        "flag": st.none() | st.integers(-(2**31), 2**31 - 1),
    }
)


def keys() -> UniqueKeys:
    return UniqueKeys("1.2.3.4", 5, 6)


def table(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.RecordBatch:
    kinds = TYPES | types
    columns = {name: pa.array([row.get(name) for row in rows], kinds[name]) for name in {**kinds}}
    return pa.RecordBatch.from_pydict(
        {name: values for name, values in columns.items() if any(name in row for row in rows)}
    )


def one_by_one(rows: pa.RecordBatch, options: WriteOptions = OPTIONS) -> tuple[bytes, list[Message]]:
    """Return the body of one batch of messages that were made and encoded each by itself."""
    ids = keys()
    made = list(MessageBuilder(options, "q/7/0").messages(rows))
    return batch_body([encode_message(message, ids.next(NOW_MS), COMPRESS_OVER) for message in made]), made


def together(rows: pa.RecordBatch, options: WriteOptions = OPTIONS) -> bytes | None:
    encoded = RowEncoder(options, "q/7/0", keys()).encode(rows, 0, NOW_MS)
    return None if encoded is None else b"".join(run.body for run in cut(encoded.items, 3, 10**9))


def items_of(body: bytes | None) -> list[tuple[int, bytes, list[bytes]]]:
    """Return the messages of a batch; a property that is replaced may stand at another place."""
    assert body is not None
    return [(item.flag, item.body, sorted(item.properties.split(b"\x02"))) for item in parse_batch(body)]


@given(st.lists(rows_of_all_kinds, min_size=1, max_size=8), st.booleans(), st.integers(0, 2))
@example([{"body": b"", "tags": None, "keys": None, "properties": None, "shardingKey": "\x01", "flag": None}], False, 0)
def test_rows_together_are_what_they_are_one_by_one(rows, row_ids, skipped):
    options = replace(OPTIONS, row_ids=row_ids)
    batch = table(rows)
    batch = batch.slice(min(skipped, batch.num_rows - 1))  # Arrow's slices have offsets of their own
    try:
        expected, made = one_by_one(batch, options)
    except InvalidArgument:
        assert together(batch, options) is None
        return

    found = together(batch, options)
    if found is None:  # a value with the separator inside is left to the other way
        values = [value for row in rows for value in (row["tags"], row["keys"], row["shardingKey"])]
        values += [value for row in rows for _, value in row["properties"] or ()]
        assert any("\x01" in value for value in values if value)
        return
    assert items_of(found) == items_of(expected)
    sharded = sharding_keys(batch)
    assert (sharded.to_pylist() if sharded is not None else [None] * len(made)) == [each.sharding_key for each in made]


def test_keys_may_be_lists_and_bodies_texts():
    rows = [{"body": "ä", "keys": ["a", "b"]}, {"body": "", "keys": None}, {"body": "x", "keys": []}]
    for keys in (
        pa.list_(pa.string()),
        pa.list_(pa.field("element", pa.string(), nullable=False)),
        pa.large_list(pa.large_string()),
    ):
        batch = table(rows, body=pa.string(), keys=keys)
        assert together(batch) == one_by_one(batch)[0]


def test_the_values_of_a_map_may_be_such_that_none_is_null():
    kind = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    batch = table([{"body": b"x", "properties": [("a", "b")]}], properties=kind)

    assert together(batch) == one_by_one(batch)[0]


def test_a_list_of_keys_that_is_null_leaves_the_keys_of_the_properties():
    batch = table([{"body": b"x", "keys": None, "properties": [("KEYS", " a  b ")]}], keys=pa.list_(pa.string()))

    assert together(batch) == one_by_one(batch)[0]


@each_case(
    {"tags": "a||b"},
    {"keys": ["a b"]},
    {"keys": [""]},
    {"keys": [None]},
    {"properties": [("a\x01b", "c")]},
    {"properties": [("a", "b\x02c")]},
    {"properties": [("a", "x" * 32_768)]},
    {"properties": [("TIMER_DELAY_SEC", "5")]},
    {"shardingKey": "\x02"},
)
def test_a_row_that_needs_a_look_of_its_own_is_not_encoded_with_others(row):
    good = {"body": b"x", **{name: [] for name in row if name in ("keys", "properties")}}

    assert together(table([good, {"body": b"x", **row}], keys=pa.list_(pa.string()))) is None
    assert together(table([good, good], keys=pa.list_(pa.string()))) is not None


def test_text_that_is_no_utf_8_is_not_encoded_with_others():
    tags = pa.array([b"\xff"], pa.binary()).view(pa.string())

    assert together(pa.RecordBatch.from_pydict({"body": [b"x"], "tags": tags})) is None


@each_case(
    ({}, True),
    ({"body": None}, False),
    ({"body": b"x" * COMPRESS_OVER}, True),
    ({"body": b"x" * (COMPRESS_OVER + 1)}, False),
    ({"delayLevel": 0}, True),
    ({"delayLevel": 3}, False),
    ({"delayMs": 0}, True),
    ({"delayMs": -1}, False),
    ({"deliverAt": 0}, False),
    ({"queue": {"brokerName": "a", "queueId": 0}}, False),
    ({"flag": 2**31 - 1}, True),
    ({"flag": 2**31}, False),
    ({"flag": -(2**31)}, True),
    ({"flag": -(2**31) - 1}, False),
    ({"topic": None}, True),
    ({"topic": "%RETRY%g"}, False),
    ({"topic": "no such name"}, False),
)
def test_rows_out_of_the_ordinary_are_found(row, is_plain):
    named = dict.fromkeys(("delayLevel", "flag", "delayMs", "deliverAt", "queue"))
    usual = {"body": b"x", "topic": "bills", **named}
    kinds = {
        "deliverAt": pa.timestamp("us", "UTC"),
        "queue": pa.struct([("brokerName", pa.string()), ("queueId", pa.int32())]),
    }
    batch = table([usual, usual | row, usual], delayLevel=pa.int64(), topic=pa.string(), delayMs=pa.int64(), **kinds)
    topics = pa.array([each or "orders" for each in batch.column("topic").to_pylist()])

    assert plain_rows(batch, topics).tolist() == [True, is_plain, True]


def test_rows_without_any_topic_are_found():
    assert plain_rows(table([{"body": b"x"}]), pa.nulls(1, pa.string())).tolist() == [False]


def test_rows_are_numbered_on_and_have_ids_of_their_own():
    encoder = RowEncoder(OPTIONS, "q", keys())
    batch = table([{"body": b"x"}] * 40_000)
    found = [encoder.encode(batch, first, NOW_MS) for first in (0, 40_000)]

    properties = [
        str(item.properties)
        for each in found
        for run in cut(each.items, 10**9, 10**9)
        for item in parse_batch(run.body)
    ]
    assert all(f"q/{row}\\x02" in text for row, text in enumerate(properties))
    ids = [text.partition("UNIQ_KEY\\x01")[2][:32] for text in properties]
    assert ids[0] == found[0].message_id
    assert ids[40_000] == found[1].message_id
    assert [int(each[-4:], 16) for each in ids] == [row & 0xFFFF for row in range(80_000)]


def test_runs_hold_so_many_rows_and_bytes_at_most_and_one_row_at_least():
    items = pa.array([b"aa", b"bb", b"cc", b"dd", b"eeeee", b"f"]).slice(1)

    assert [tuple(run) for run in cut(items, 2, 100)] == [(b"bbcc", 2), (b"ddeeeee", 2), (b"f", 1)]
    assert [tuple(run) for run in cut(items, 9, 4)] == [(b"bbcc", 2), (b"dd", 1), (b"eeeee", 1), (b"f", 1)]
    assert list(cut(items.slice(0, 0), 9, 9)) == []
